// News of the spaces of a node: one stream for all spaces that this context talks for, because a browser gives a page six
// connections to a host.
//
//     const leave = listen({ base, token, space, onUp, onNumber });
//
// onUp() says that the node answers again, or that something was missed: ask for everything new. onNumber(n) says how far the space
// is. Guarantees: nothing is thrown; a stream that breaks or falls silent is opened again, one that is refused ever more seldom, and
// never by all devices at once; the last one to leave closes it.

// A stream that is not even kept alive for so long has died unnoticed; a node sends something every 15 s.
const SILENCE_MAX_MS = 45_000;
const AGAIN_MS = 2_000;
const AGAIN_MAX_MS = 60_000;
// Spaces that come or go together make one new stream.
const GATHER_MS = 20;
// As many as a node tells of in one stream.
const SPACES_MAX = 100;

// The word of a node for a token that was good and has ended.
export const EXPIRED = "token-expired";

const streams = new Set();

export function listen({ base, token, space, onUp, onNumber }) {
  const listener = { space, onUp, onNumber };
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

// The stable word of an error's body.
export function wordOf(text) {
  try {
    const { code } = JSON.parse(text);
    return typeof code === "string" && /^[a-z-]{1,64}$/.test(code) ? code : undefined;
  } catch {
    return undefined;
  }
}

class Stream {
  listeners = new Set();
  #base;
  #token;
  #over = new AbortController();
  #timer;
  // In a row.
  #refusals = 0;

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
      } catch {
        // The stream broke; what was missed is asked for when the next one begins.
      }
      await new Promise((resolve) => {
        const most = Math.min(AGAIN_MS * 2 ** this.#refusals, AGAIN_MAX_MS);
        const timer = setTimeout(resolve, most * (1 - Math.random() / 2));
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  }

  // With fetch, because an EventSource can show no token.
  async #read(over) {
    const silence = new AbortController();
    const signal = AbortSignal.any([over, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
    try {
      const spaces = new Set([...this.listeners].map(({ space }) => space));
      const address = new URL(`/api/events?topics=state&space=${[...spaces].join(",")}`, this.#base);
      const headers = { ...(await this.#token.headers()), accept: "text/event-stream" };
      const response = await fetch(address, { headers, signal, credentials: "same-origin", cache: "no-store" });
      if (!response.ok) {
        if (response.status < 500) this.#refusals += 1;
        if (wordOf(await response.text()) === EXPIRED) this.#token.expired(headers);
        return;
      }
      this.#refusals = 0;
      // It answers again: whatever waits need not wait any longer.
      this.#up();
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
    if (field("event") === "lagged") return this.#up();
    if (field("event") !== "state") return;
    const { space, number } = JSON.parse(field("data") ?? "{}");
    if (!Number.isInteger(number)) return;
    for (const listener of this.listeners) if (listener.space === space) listener.onNumber(number);
  }

  #up() {
    for (const { onUp } of this.listeners) onUp();
  }
}
