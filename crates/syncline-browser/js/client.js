// Calls of a node's API, and its events, from a page: what has no part of the package of its own, such as locks and queues of a node.
// Types and documentation: client.d.ts.
//
// Guarantees: every failure is a SynclineError. A node that wants another credential is left alone: from then on every call fails
// at once as `needs-auth`, until resume(). A token that has ended is asked for again, ever more seldom (token.js). A stream that
// breaks is opened again, never by all pages at once and not before the node's `Retry-After`; the listener is told when something may
// have been missed.

import { SynclineError, isPassing, pause } from "./errors.js";
import { readEvents } from "./events.js";
import { readToken } from "./secret.js";
import { AGAIN, NeedsAuth, Token, refusalOf } from "./token.js";

const REQUEST_TIMEOUT_MS = 30_000;
const AGAIN_MS = 2_000;
const AGAIN_MAX_MS = 60_000;
const TIMER_MAX_MS = 2 ** 31 - 1;

export { SynclineError };

export function connect(options) {
  return new NodeClient(options);
}

class NodeClient {
  #base;
  #token;
  #need;
  #over = new AbortController();

  constructor({ url = "/", token } = {}) {
    if (!URL.canParse(url, globalThis.location?.href)) throw new SynclineError("invalid-argument", "url must be an address");
    readToken(token);
    this.#base = new URL(url, globalThis.location?.href);
    this.#token = Token.of(token);
  }

  call = async (method, path, body) => {
    const address = this.#address(path);
    let refusal;
    // A token that has ended is asked for anew, once for each call.
    for (let tries = 0; tries < 2; tries++) {
      const headers = { ...(await this.#headers()), ...(body === undefined ? {} : { "content-type": "application/json" }) };
      const { status, ok, text } = await this.#fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      const need = this.#token.judge(headers, status, text);
      if (need instanceof NeedsAuth) throw this.#stop(need);
      if (ok) return text === "" ? undefined : parsed(text);
      refusal = refused(method, path, status, text);
      if (need !== AGAIN) break;
    }
    throw refusal;
  };

  listen = (query, listener, onProblem = () => {}) => {
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#over.signal]);
    this.#follow(this.#address(`/api/events?${new URLSearchParams(query)}`), listener, onProblem, signal);
    return () => over.abort();
  };

  resume = ({ token } = {}) => {
    readToken(token);
    if (token !== undefined) this.#token = Token.of(token);
    this.#token.reset();
    this.#need = undefined;
  };

  close = () => this.#over.abort();

  // A path can lead nowhere else: the token is for this node alone.
  #address(path) {
    const address = new URL(path, this.#base);
    if (address.origin !== this.#base.origin) throw new SynclineError("invalid-argument", "path must be one of the node's own");
    return address;
  }

  async #headers(signal = this.#over.signal) {
    if (this.#over.signal.aborted) throw new SynclineError("stopped", "the client was closed");
    if (this.#need !== undefined) throw this.#need;
    try {
      return await this.#token.headers(signal);
    } catch (cause) {
      if (cause instanceof NeedsAuth) throw this.#stop(cause);
      throw new SynclineError("unreachable", `no token came: ${cause?.message ?? cause}`, { retryable: true, cause });
    }
  }

  #stop({ code, grant, message }) {
    this.#need = new SynclineError("needs-auth", grant === undefined ? message : `${message}: ${grant}`, { reason: code, grant });
    return this.#need;
  }

  async #fetch(address, options) {
    const signal = AbortSignal.any([this.#over.signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    try {
      const response = await fetch(address, { ...options, signal, credentials: "same-origin", cache: "no-store" });
      return { status: response.status, ok: response.ok, text: await response.text() };
    } catch (cause) {
      throw new SynclineError("unreachable", `the node did not answer: ${cause?.message ?? cause}`, { retryable: true, cause });
    }
  }

  async #follow(address, listener, onProblem, signal) {
    let failures = 0;
    while (!signal.aborted) {
      let renewal;
      let leaveAloneMs = 0;
      const once = new AbortController();
      try {
        const headers = await this.#headers(signal);
        await readEvents(address, headers, AbortSignal.any([signal, once.signal]), {
          onRefused: (status, text, afterMs) => {
            const need = this.#token.judge(headers, status, text);
            if (need instanceof NeedsAuth) throw this.#stop(need);
            leaveAloneMs = afterMs;
            if (need !== AGAIN) throw refused("GET", address.pathname, status, text);
          },
          onOpen: () => {
            failures = 0;
            this.#token.judge(headers, 200);
            const { renewAt } = this.#token;
            if (renewAt !== undefined) renewal = setTimeout(() => once.abort(), Math.min(renewAt - performance.now(), TIMER_MAX_MS));
            listener({ type: "open" });
          },
          onEvent: (type, data) => type !== undefined && listener({ type, data: parsed(data) }),
        });
      } catch (error) {
        if (signal.aborted) return;
        // Its token is about to end: the next stream waits for nothing but another one.
        if (once.signal.aborted) continue;
        if (error instanceof SynclineError) onProblem(error);
        if (error === this.#need) return;
        failures += 1;
      } finally {
        clearTimeout(renewal);
      }
      const most = Math.min(AGAIN_MS * 2 ** failures, AGAIN_MAX_MS);
      await pause(leaveAloneMs + most * (1 - Math.random() / 2), signal);
    }
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function refused(method, path, status, text) {
  const { code = `status-${status}` } = refusalOf(text);
  const said = parsed(text)?.error ?? "";
  const message = `the node refused ${method} ${path}: ${code}${said === "" ? "" : `, ${said}`}`;
  return new SynclineError("refused", message, { reason: code, retryable: isPassing(status) });
}
