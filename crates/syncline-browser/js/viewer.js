// The page's half of the viewer heartbeat: starts the worker, tells it what happens to the page, says bye.
//
// Guarantees: one worker per page, endpoint, room and user, however often and from however many copies of this package it is
// started; it ends with the last `stop()`, and with the page, each time with a `bye`; a page that comes back from the
// back/forward cache is counted again. When to ping is decided in the worker (viewer-worker.js), where timers are not
// throttled in hidden tabs.

import { SynclineError, fromPlain, toPlain } from "./errors.js";
import { readToken } from "./secret.js";
import { startWorker, workerError } from "./worker.js";

// On globalThis, because a bundler may put this module into a page twice. The number is the version of the
// `join(user)` contract below.
const REGISTRY = Symbol.for("syncline.viewers.1");
const NAME_MAX_BYTES = 128;

export { SynclineError };

export function startViewer(options) {
  if (typeof document === "undefined" || typeof Worker === "undefined") {
    throw new SynclineError(
      "unsupported-environment",
      "startViewer() needs a page with workers: call it in the browser, for example in an effect, not while rendering on a server",
    );
  }
  const { onError, signal, ...rest } = readOptions(options);
  const viewers = (globalThis[REGISTRY] ??= new Map());
  const { place } = rest;
  if (!viewers.has(place)) viewers.set(place, new Viewer(viewers, rest));
  return viewers.get(place).join({ onError, signal });
}

class Viewer {
  #viewers;
  #options;
  #users = new Set();
  #session;
  #settle;
  #sessionId;
  #worker;
  // Where there is one (token.js, loaded for it), and the headers that it last gave.
  #tokens;
  #token;
  #headers;
  #listening = new AbortController();
  // False between pagehide and pageshow: the bye has been said, nothing is to follow it.
  #present = true;
  #ended = false;

  constructor(viewers, options) {
    this.#viewers = viewers;
    this.#options = options;
    this.#session = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    // Failures reach the users through onError; a promise nobody looked at must not shout as well.
    this.#session.catch(() => {});
    // A page rendered ahead of a click is not watched by anybody yet.
    if (document.prerendering) this.#on(document, "prerenderingchange", () => this.#start());
    else this.#start();
  }

  // One handle for one caller; the viewer lives until the last handle has been stopped.
  join(user) {
    this.#users.add(user);
    const stop = () => {
      if (!this.#users.delete(user)) return;
      user.signal?.removeEventListener("abort", stop);
      // Later in the same task somebody may start again (a React effect run twice, one view replacing another):
      // then the session simply goes on.
      queueMicrotask(() => {
        if (this.#users.size === 0)
          this.#end(new SynclineError("stopped", "the viewer was stopped before it had a session"));
      });
    };
    if (user.signal?.aborted) stop();
    else user.signal?.addEventListener("abort", stop);
    return { sessionId: this.#session, stop };
  }

  #start() {
    try {
      const { workerUrl } = this.#options;
      this.#worker = startWorker(() => spawn(workerUrl), (cause, why) => workerBlocked(workerUrl, cause, why));
    } catch (error) {
      // Callers get their handle first, so that a blocked worker always looks the same to them.
      queueMicrotask(() => this.#fail(error));
      return;
    }
    this.#on(this.#worker, "message", ({ data }) => this.#receive(data));
    this.#on(this.#worker, "error", (event) => this.#fail(this.#workerError(event)));
    this.#on(document, "visibilitychange", () => this.#tell("page"));
    this.#on(document, "resume", () => this.#tell("page"));
    this.#on(window, "pagehide", () => this.#leave());
    this.#on(window, "pageshow", (event) => {
      if (event.persisted) this.#return();
    });
    this.#tell("start", {
      endpoint: this.#options.endpoint,
      contentType: this.#contentType,
      asksForHeaders: this.#options.token !== undefined,
      room: this.#options.room,
      user: this.#options.user,
      wasmUrl: this.#options.wasmUrl,
    });
  }

  #receive(message) {
    switch (message.type) {
      case "session":
        this.#sessionId = message.sessionId;
        this.#settle.resolve(message.sessionId);
        break;
      case "error":
        this.#report(fromPlain(message.error));
        break;
      case "failed":
        this.#fail(fromPlain(message.error));
        break;
      case "headers":
        this.#giveHeaders();
        break;
      case "judge":
        this.#judge(message);
        break;
    }
  }

  // The page holds the token, because a function cannot be sent to a worker.
  async #giveHeaders() {
    try {
      this.#tokens ??= await import("./token.js");
      this.#token ??= this.#tokens.Token.of(this.#options.token);
      this.#headers = await this.#token.headers(this.#listening.signal);
      this.#tell("headers", { headers: this.#headers });
    } catch (cause) {
      if (this.#ended) return;
      if (this.#tokens !== undefined && cause instanceof this.#tokens.NeedsAuth) return this.#fail(needsAuth(cause));
      const error = new SynclineError("ping-failed", `no token for the heartbeat: ${cause?.message ?? cause}`, { retryable: true, cause });
      this.#tell("headers", { error: toPlain(error) });
    }
  }

  #judge({ headers, status, text, error }) {
    const need = this.#token.judge(headers, status, text);
    if (need === this.#tokens.AGAIN) this.#tell("again");
    else if (need !== undefined) this.#fail(needsAuth(need));
    else if (error !== undefined) this.#report(fromPlain(error));
  }

  get #contentType() {
    // Another origin would be asked for permission (a preflight) before each JSON request; plain text needs none.
    const isOwn = new URL(this.#options.endpoint).origin === globalThis.origin;
    return isOwn || this.#options.token !== undefined ? "application/json" : "text/plain";
  }

  #tell(type, facts) {
    this.#worker.postMessage({
      type,
      present: this.#present,
      visible: document.visibilityState === "visible",
      ...facts,
    });
  }

  #leave() {
    this.#present = false;
    // First the worker, so that as few pings as possible can overtake the bye.
    this.#tell("page");
    this.#sayBye();
  }

  #return() {
    this.#present = true;
    this.#tell("page");
  }

  #sayBye() {
    if (this.#sessionId === undefined) return;
    const { endpoint } = this.#options;
    const type = this.#contentType;
    const body = new Blob([JSON.stringify({ sessionId: this.#sessionId, bye: true })], { type });
    // A beacon outlives the page, and can show no token. Some content blockers refuse beacons; a keepalive request is the next best.
    if (this.#headers === undefined && navigator.sendBeacon?.(endpoint, body)) return;
    const credentials = this.#headers === undefined ? "include" : "same-origin";
    const headers = { "content-type": type, ...this.#headers };
    fetch(endpoint, { method: "POST", body, headers, keepalive: true, credentials }).catch(() => {
      // Nobody is left to tell; the session expires by itself.
    });
  }

  #workerError(event) {
    return workerError(event, "the viewer's worker", (cause, why) => workerBlocked(this.#options.workerUrl, cause, why));
  }

  #fail(error) {
    if (this.#ended) return;
    this.#report(error);
    this.#end(error);
  }

  #report(error) {
    let heard = false;
    for (const { onError } of this.#users) {
      if (onError === undefined) continue;
      heard = true;
      // In a task of its own, where a listener that throws harms nobody.
      queueMicrotask(() => onError(error));
    }
    if (!heard && !error.retryable) console.warn(error);
  }

  #end(error) {
    if (this.#ended) return;
    this.#ended = true;
    this.#listening.abort();
    this.#viewers.delete(this.#options.place);
    this.#worker?.terminate();
    if (this.#present) this.#sayBye();
    this.#settle.reject(error);
  }

  #on(target, type, listener) {
    target.addEventListener(type, listener, { signal: this.#listening.signal });
  }
}

function spawn(workerUrl) {
  if (workerUrl !== undefined) return new Worker(workerUrl, { type: "module", name: "syncline-viewer" });
  // Written out like this, bundlers find the worker and ship it.
  return new Worker(new URL("./viewer-worker.js", import.meta.url), { type: "module", name: "syncline-viewer" });
}

function workerBlocked(workerUrl, cause, why) {
  const usual = "the file must be there, on the page's own origin, and allowed by worker-src in its Content-Security-Policy";
  return new SynclineError(
    "worker-blocked",
    `the viewer's worker could not start from ${workerUrl ?? "viewer-worker.js beside the package"}: ${why ?? usual}`,
    { cause },
  );
}

function needsAuth({ code, grant, message }) {
  return new SynclineError("needs-auth", `the heartbeat is refused: ${message}`, { reason: code, grant });
}

function readOptions(options = {}) {
  if (typeof options !== "object" || options === null) throw invalid("options must be an object");
  const { endpoint = "/api/viewer", room, user, token, workerUrl, wasmUrl, onError, signal } = options;
  readToken(token);
  checkName("room", room);
  checkName("user", user);
  if (user !== undefined && room === undefined) throw invalid("user needs a room to be in");
  if (onError !== undefined && typeof onError !== "function") throw invalid("onError must be a function");
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid("signal must be an AbortSignal");
  const address = resolve("endpoint", endpoint);
  if (!/^https?:/.test(address)) throw invalid(`endpoint must be an http or https address, not ${address}`);
  return {
    endpoint: address,
    // What is counted apart: each has a session of its own.
    place: room === undefined ? address : `${address} ${JSON.stringify([room, user])}`,
    room,
    user,
    token,
    // The worker would resolve relative addresses against its own place, not against the page.
    workerUrl: workerUrl === undefined ? undefined : resolve("workerUrl", workerUrl),
    wasmUrl: wasmUrl === undefined ? undefined : resolve("wasmUrl", wasmUrl),
    onError,
    signal,
  };
}

function checkName(name, value) {
  if (value === undefined) return;
  if (typeof value !== "string") throw invalid(`${name} must be a string`);
  const bytes = new TextEncoder().encode(value).length;
  if (bytes === 0 || bytes > NAME_MAX_BYTES || /\p{Cc}/u.test(value)) {
    throw invalid(`${name} must have 1 to ${NAME_MAX_BYTES} bytes and no control characters`);
  }
}

function resolve(name, value) {
  if (typeof value !== "string" && !(value instanceof URL)) throw invalid(`${name} must be a string or a URL`);
  try {
    return new URL(value, document.baseURI).href;
  } catch (cause) {
    throw invalid(`${name} is not a valid address: ${value}`, cause);
  }
}

function invalid(message, cause) {
  return new SynclineError("invalid-argument", message, { cause });
}
