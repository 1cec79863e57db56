// The way from a shared state to a node, and the rules for it (WASM), for all contexts on one storage: one of them asks,
// sends and listens. When it goes or stands still, the next one does within seconds (leader.js). What to ask and send, and when to
// try again, is decided by the rules.
//
// Guarantees: every question of the rules is answered once while this context leads; nothing is thrown; nothing is left behind
// by close(). Changes that could not be sent are in storage, not here. Two that lead for a moment, because one stood still and
// does not know yet that it was replaced, send and merge the same changes twice, which is the same as once. A node that wants another
// credential is left alone: this context lets the others lead, each of which may hold a better one, and rejoins them when one
// of them is answered, or when it is told to. One that asks for time (`Retry-After`) is asked nothing before it is over.
// Nothing goes out under another name than the storage belongs to.

import * as rules from "./syncline_bridge.js";
import { pause } from "./errors.js";
import { retryAfterMs } from "./events.js";
import { lead, openChannel } from "./leader.js";
import { provided } from "./state-provided.js";
import { listen } from "./state-stream.js";
import { AGAIN, NeedsAuth, Token, refusalOf } from "./token.js";
import { wasmModule } from "./wasm.js";

// A node that says nothing for so long is not reachable.
const REQUEST_TIMEOUT_MS = 30_000;
// What the contexts on one storage say to each other: that the node answers.
const ANSWERED = "answered";

class Bridge {
  #base;
  #space;
  #address;
  #token;
  #name;
  #state;
  #channel;
  #member;
  // Ends when this context does not lead any more.
  #term = new AbortController();
  #isAnswered = false;
  // By the clock of this page: until when the node wants to be left alone.
  #notBefore = 0;

  // `place` is what the contexts on one storage have in common. `state`: tell(word, ...fields) brings an input to the rules,
  // admits(subject) asks them whose the storage is, onNeed(need) hears what a person has to do, and onAnswered() that another
  // context is answered.
  constructor({ url, space, token, user }, place, state) {
    this.#base = new URL(url, globalThis.location?.href);
    this.#space = space;
    this.#address = new URL(`/api/state/${encodeURIComponent(space)}`, this.#base);
    this.#token = Token.of(token, user);
    this.#name = place.replace("syncline-state", "syncline-state-bridge");
    this.#state = state;
    this.#channel = openChannel(this.#name);
    this.#channel.onmessage = () => state.onAnswered();
  }

  // Another one, or the same function asked anew.
  renewToken(token) {
    if (token !== undefined) this.#token = Token.of(token);
    this.#token.reset();
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
  stop() {
    this.#term.abort();
    this.#member?.close();
    this.#member = undefined;
  }

  close() {
    this.stop();
    this.#channel.close();
  }

  #lead() {
    this.#term = new AbortController();
    this.#isAnswered = false;
    const { signal } = this.#term;
    const onUp = () => this.#state.tell("link", "up");
    onUp();
    globalThis.addEventListener?.("online", onUp, { signal });
    const onNumber = (number) => this.#state.tell("told", number);
    const onNeed = (need) => this.#need(need);
    const leave = listen({ base: this.#base, token: this.#token, space: this.#space, onUp, onNumber, onNeed });
    signal.addEventListener("abort", leave, { once: true });
  }

  #lose() {
    this.#term.abort();
    this.#state.tell("link", "down");
  }

  #need(need) {
    if (this.#term.signal.aborted) return;
    this.stop();
    this.#state.onNeed(need);
  }

  async #request(ask, address, options) {
    const term = this.#term.signal;
    let refusal = "";
    try {
      // The rules were told at once that it was refused; the next question waits here.
      const waitMs = this.#notBefore - performance.now();
      if (waitMs > 0) await pause(waitMs, term);
      // A token that has ended is asked for anew, once for each question.
      for (let tries = 0; tries < 2; tries++) {
        const headers = { ...(await this.#headers(term)), ...options.headers };
        const signal = AbortSignal.any([term, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
        const response = await fetch(address, { ...options, headers, signal, credentials: "same-origin", cache: "no-store" });
        const text = await response.text();
        const need = this.#token.judge(headers, response.status, text);
        if (need instanceof NeedsAuth) throw need;
        if (response.ok) {
          if (!this.#isAnswered) this.#channel.postMessage(ANSWERED);
          this.#isAnswered = true;
          return this.#state.tell("answered", ask, text);
        }
        this.#notBefore = performance.now() + retryAfterMs(response);
        // What the node refuses it will refuse again; what it fails at, it may not.
        refusal = response.status < 500 ? (refusalOf(text).code ?? `status-${response.status}`) : "";
        if (need !== AGAIN) break;
      }
    } catch (error) {
      if (error instanceof NeedsAuth) return this.#need(error);
      // Not reachable: the rules wait and ask again.
      if (error === this.#failure) refusal = "token-failed";
    }
    if (term.aborted) return;
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    this.#state.tell("unanswered", ask, refusal, random);
  }

  // Why no token came.
  #failure;

  async #headers(term) {
    let headers;
    try {
      headers = await this.#token.headers(term);
    } catch (error) {
      this.#failure = error;
      throw error;
    }
    // A key is nobody's.
    const { subject } = this.#token;
    if (subject === undefined) return headers;
    const admits = this.#state.admits(subject);
    if (admits === false) throw new NeedsAuth("other-user");
    // Everything is being read again; another question follows.
    if (admits === undefined) throw new Error("not loaded");
    return headers;
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
