// The way from a shared state to a node, and the rules for it (WASM), for all contexts on one storage: one of them asks,
// sends and listens. When it goes or stands still, the next one does within seconds (leader.js). What to ask and send, and when to
// try again, is decided by the rules.
//
// Guarantees: every question of the rules is answered once while this context leads; nothing is thrown; nothing is left behind
// by close(). Changes that could not be sent are in storage, not here. Two that lead for a moment, because one stood still and
// does not know yet that it was replaced, send and merge the same changes twice, which is the same as once.

import * as rules from "./syncline_bridge.js";
import { lead } from "./leader.js";
import { provided } from "./state-provided.js";
import { EXPIRED, listen, wordOf } from "./state-stream.js";
import { Token } from "./token.js";
import { wasmModule } from "./wasm.js";

// A node that says nothing for so long is not reachable.
const REQUEST_TIMEOUT_MS = 30_000;

class Bridge {
  #base;
  #space;
  #address;
  #token;
  #name;
  #tell;
  #member;
  // Ends when this context does not lead any more.
  #term = new AbortController();

  // `name` is what the contexts on one storage have in common; `tell(word, ...fields)` brings an input to the rules.
  constructor({ url, space, token }, name, tell) {
    this.#base = new URL(url, globalThis.location?.href);
    this.#space = space;
    this.#address = new URL(`/api/state/${encodeURIComponent(space)}`, this.#base);
    this.#token = Token.of(token);
    this.#name = `syncline-state-bridge:${name}`;
    this.#tell = tell;
  }

  // Waits until no other context talks to the node, and then does.
  start() {
    this.#member ??= lead({ name: this.#name, onLead: () => this.#lead(), onLose: () => this.#lose() });
  }

  // GET: `ask` is the number of the question.
  pull(ask, query) {
    return this.#request(ask, `${this.#address}?${query}`, {});
  }

  // POST.
  push(ask, body) {
    const headers = { "content-type": "application/json" };
    return this.#request(ask, `${this.#address}`, { method: "POST", body, headers });
  }

  // Lets the other contexts talk to the node, until it is started again.
  close() {
    this.#term.abort();
    this.#member?.close();
    this.#member = undefined;
  }

  #lead() {
    this.#term = new AbortController();
    const { signal } = this.#term;
    const up = () => this.#tell("link", "up");
    up();
    globalThis.addEventListener?.("online", up, { signal });
    const onNumber = (number) => this.#tell("told", number);
    const leave = listen({ base: this.#base, token: this.#token, space: this.#space, onUp: up, onNumber });
    signal.addEventListener("abort", leave, { once: true });
  }

  #lose() {
    this.#term.abort();
    this.#tell("link", "down");
  }

  async #request(ask, address, options) {
    const term = this.#term.signal;
    const signal = AbortSignal.any([term, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    let refusal = "";
    try {
      const headers = { ...(await this.#token.headers()), ...options.headers };
      const response = await fetch(address, { ...options, headers, signal, credentials: "same-origin", cache: "no-store" });
      const text = await response.text();
      if (response.ok) return this.#tell("answered", ask, text);
      // What the node refuses it will refuse again; what it fails at, it may not.
      if (response.status < 500) refusal = wordOf(text) ?? `status-${response.status}`;
      if (refusal === EXPIRED) this.#token.expired(headers);
    } catch {
      // Not reachable: the rules wait and ask again.
    }
    if (term.aborted) return;
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    this.#tell("unanswered", ask, refusal, random);
  }
}

export const { init, initSync } = wasmModule({
  instantiate: rules.default,
  instantiateSync: rules.initSync,
  version: rules.version,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_bridge_bg.wasm", import.meta.url),
});

Object.assign(provided, { Bridge, init, rules });
