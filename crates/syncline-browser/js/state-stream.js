// News of the spaces of a node: one stream for all spaces that this context talks for, because a browser gives a page six
// connections to a host.
//
//     const leave = listen({ base, token, space, onUp, onNumber, onNeed });
//
// onUp() says that the node answers again, or that something was missed: ask for everything new. onNumber(n) says how far the space
// is. onNeed(need) says that the node wants another credential (token.js); nothing follows it. Guarantees: nothing is thrown; a
// stream that breaks or falls silent is opened again, one that is refused ever more seldom and not before the node's `Retry-After`,
// and never by all devices at once; one whose token is about to end is replaced before; the last one to leave closes it.

import { pause } from "./errors.js";
import { readEvents } from "./events.js";
import { AGAIN, NeedsAuth } from "./token.js";

const AGAIN_MS = 2_000;
const AGAIN_MAX_MS = 60_000;
// Spaces that come or go together make one new stream.
const GATHER_MS = 20;
// As many as a node tells of in one stream.
const SPACES_MAX = 100;
// No timer is longer.
const TIMER_MAX_MS = 2 ** 31 - 1;

const streams = new Set();

export function listen({ base, token, space, ...heard }) {
  const listener = { space, ...heard };
  const stream = [...streams].find((each) => each.serves(base, token)) ?? new Stream(base, token);
  streams.add(stream);
  stream.listeners.add(listener);
  stream.renew();
  return () => {
    if (!stream.listeners.delete(listener)) return;
    stream.renew();
    if (stream.listeners.size === 0) streams.delete(stream);
  };
}

class Stream {
  listeners = new Set();
  #base;
  #token;
  #over = new AbortController();
  #timer;
  // In a row.
  #refusals = 0;
  // What the last refusal asked for.
  #afterMs = 0;

  constructor(base, token) {
    this.#base = base;
    this.#token = token;
  }

  // Whether one more of these fits in.
  serves(base, token) {
    return this.listeners.size < SPACES_MAX && base.origin === this.#base.origin && token.given === this.#token.given;
  }

  // Opens it for the spaces that are wanted now.
  renew() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#over.abort();
      this.#over = new AbortController();
      if (this.listeners.size > 0) this.#listen(this.#over.signal);
    }, GATHER_MS);
  }

  async #listen(signal) {
    while (!signal.aborted) {
      try {
        await this.#read(signal);
      } catch (error) {
        if (error instanceof NeedsAuth && !signal.aborted) return this.#need(error);
        // The stream broke; what was missed is asked for when the next one begins.
      }
      const most = Math.min(AGAIN_MS * 2 ** this.#refusals, AGAIN_MAX_MS);
      const afterMs = this.#afterMs;
      this.#afterMs = 0;
      await pause(afterMs + most * (1 - Math.random() / 2), signal);
    }
  }

  async #read(over) {
    const spaces = new Set([...this.listeners].map(({ space }) => space));
    const address = new URL(`/api/events?topics=state&space=${[...spaces].join(",")}`, this.#base);
    const headers = await this.#token.headers(over);
    await readEvents(address, headers, over, {
      onRefused: (status, text, afterMs) => {
        const need = this.#token.judge(headers, status, text);
        if (need instanceof NeedsAuth) throw need;
        this.#afterMs = afterMs;
        if (need !== AGAIN && status < 500) this.#refusals += 1;
      },
      onOpen: () => {
        this.#refusals = 0;
        this.#token.judge(headers, 200);
        this.#renewInTime(over);
        // It answers again: whatever waits need not wait any longer.
        this.#up();
      },
      onEvent: (name, data) => this.#onEvent(name, data),
    });
  }

  #renewInTime(over) {
    const { renewAt } = this.#token;
    if (renewAt === undefined) return;
    const timer = setTimeout(() => this.renew(), Math.min(Math.max(0, renewAt - performance.now()), TIMER_MAX_MS));
    over.addEventListener("abort", () => clearTimeout(timer), { once: true });
  }

  #onEvent(name, data) {
    if (name === "lagged") return this.#up();
    if (name !== "state") return;
    const { space, number } = JSON.parse(data);
    if (!Number.isInteger(number)) return;
    for (const listener of this.listeners) if (listener.space === space) listener.onNumber(number);
  }

  #up() {
    for (const { onUp } of this.listeners) onUp();
  }

  #need(need) {
    for (const { onNeed } of [...this.listeners]) onNeed(need);
  }
}
