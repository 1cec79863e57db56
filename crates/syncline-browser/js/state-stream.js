// News of the spaces of a node: one stream for all spaces that this context talks for, because a browser gives a page six
// connections to a host.
//
//     const leave = listen({ base, headers, space, onUp, onNumber });
//
// onUp() says that the node answers again, or that something was missed: ask for everything new. onNumber(n) says how far the space
// is. Guarantees: nothing is thrown; a stream that breaks or falls silent is opened again; the last one to leave closes it.

// A stream that is not even kept alive for so long has died unnoticed; a node sends something every 15 s.
const SILENCE_MAX_MS = 45_000;
const AGAIN_MS = 2_000;
// Spaces that come or go together make one new stream.
const GATHER_MS = 20;
// As many as a node tells of in one stream.
const SPACES_MAX = 100;

const streams = new Map();

export function listen({ base, headers, space, onUp, onNumber }) {
  const listener = { space, onUp, onNumber };
  const key = JSON.stringify([base.origin, headers]);
  const known = streams.get(key) ?? [];
  const stream = known.find((each) => each.listeners.size < SPACES_MAX) ?? new Stream(base, headers);
  if (!known.includes(stream)) streams.set(key, [...known, stream]);
  stream.listeners.add(listener);
  stream.renew();
  return () => {
    if (!stream.listeners.delete(listener)) return;
    stream.renew();
    if (stream.listeners.size > 0) return;
    const others = streams.get(key).filter((each) => each !== stream);
    if (others.length > 0) streams.set(key, others);
    else streams.delete(key);
  };
}

class Stream {
  listeners = new Set();
  #base;
  #headers;
  #over = new AbortController();
  #timer;

  constructor(base, headers) {
    this.#base = base;
    this.#headers = headers;
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
        const timer = setTimeout(resolve, AGAIN_MS);
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
      const headers = { ...this.#headers, accept: "text/event-stream" };
      const response = await fetch(address, { headers, signal, credentials: "same-origin", cache: "no-store" });
      if (!response.ok) return;
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
