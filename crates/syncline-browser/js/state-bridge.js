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
import { wasmModule } from "./wasm.js";

// A node that says nothing for so long is not reachable.
const REQUEST_TIMEOUT_MS = 30_000;
// A stream that is not even kept alive for so long has died unnoticed; a node sends something every 15 s.
const SILENCE_MAX_MS = 45_000;
const LISTEN_AGAIN_MS = 2_000;

class Bridge {
  #address;
  #events;
  #headers;
  #name;
  #tell;
  #member;
  // Ends when this context does not lead any more.
  #term = new AbortController();

  // `name` is what the contexts on one storage have in common; `tell(word, ...fields)` brings an input to the rules.
  constructor({ url, space, token }, name, tell) {
    const base = new URL(url, globalThis.location?.href);
    this.#address = new URL(`/api/state/${encodeURIComponent(space)}`, base);
    this.#events = new URL(`/api/events?topics=state&space=${encodeURIComponent(space)}`, base);
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
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
    this.#listen(signal);
  }

  #lose() {
    this.#term.abort();
    this.#tell("link", "down");
  }

  async #request(ask, address, options) {
    const term = this.#term.signal;
    const signal = AbortSignal.any([term, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    const headers = { ...this.#headers, ...options.headers };
    let refusal = "";
    try {
      const response = await fetch(address, { ...options, headers, signal, credentials: "same-origin", cache: "no-store" });
      const text = await response.text();
      if (response.ok) return this.#tell("answered", ask, text);
      // What the node refuses it will refuse again; what it fails at, it may not.
      if (response.status < 500) refusal = wordOf(text) ?? `status-${response.status}`;
    } catch {
      // Not reachable: the rules wait and ask again.
    }
    if (term.aborted) return;
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    this.#tell("unanswered", ask, refusal, random);
  }

  // Hears of news for as long as this context leads. With fetch, because an EventSource can show no token.
  async #listen(signal) {
    while (!signal.aborted) {
      try {
        await this.#hear(signal);
      } catch {
        // The stream broke; what was missed is asked for when the next one begins.
      }
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, LISTEN_AGAIN_MS);
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  }

  async #hear(term) {
    const silence = new AbortController();
    const signal = AbortSignal.any([term, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
    try {
      const headers = { ...this.#headers, accept: "text/event-stream" };
      const response = await fetch(this.#events, { headers, signal, credentials: "same-origin", cache: "no-store" });
      if (!response.ok) return;
      // It answers again: whatever waits need not wait any longer.
      this.#tell("link", "up");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let read = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
        const events = (read + value).split("\n\n");
        read = events.pop();
        events.forEach((event) => this.#onEvent(event));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #onEvent(text) {
    const field = (name) => text.split("\n").find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
    if (field("event") === "lagged") return this.#tell("link", "up");
    if (field("event") !== "state") return;
    const number = JSON.parse(field("data") ?? "{}").number;
    if (Number.isInteger(number)) this.#tell("told", number);
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

// The stable word of an error's body.
function wordOf(text) {
  try {
    const { code } = JSON.parse(text);
    return typeof code === "string" && /^[a-z-]{1,64}$/.test(code) ? code : undefined;
  } catch {
    return undefined;
  }
}
