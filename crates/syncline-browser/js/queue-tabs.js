// Who runs a kept queue, of all tabs of one origin, and how the others talk to that one.
//
// Guarantees: at most one tab leads at a time; when it closes, crashes or goes into the back/forward cache, another
// takes over. A Web Lock decides where there are Web Locks; on plain http:// a lease in the queue's database does. A tab
// that closes or dies has no time to give its lease back there: the others watch its lifeline (lifeline.js). What leading
// means is the queue's (queue.js).

import { keepLifeline, whenGone } from "./lifeline.js";
import { failed } from "./queue-store.js";

// A request for the lock that waits for too long is made anew: one that was queued while its holder went into the
// back/forward cache may never be granted.
const ASK_AGAIN_MS = 5_000;
// Longer than the minute between two timers of a hidden tab.
const LEASE_MS = 150_000;
const NEVER = new Promise(() => {});

export class Tabs {
  #name;
  #store;
  #channel;
  #hear;
  #lead;
  #stop;
  #letGo;
  // Who held the lease and is no more, and who is watched.
  #gone;
  #watched;
  // Ends when the page goes, perhaps into the back/forward cache.
  #present = new AbortController();
  #listening = new AbortController();

  // `lead()` is awaited before others are told; `stop()` after it must leave nothing running.
  constructor(name, store, { hear, lead, stop }) {
    this.#name = name;
    this.#store = store;
    this.#hear = hear;
    this.#lead = lead;
    this.#stop = stop;
    this.#channel = openChannel(`syncline.queue.${name}`);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    const { signal } = this.#listening;
    if (typeof window !== "undefined") {
      // A page in the back/forward cache must hold nothing; it competes again when it returns.
      addEventListener("pagehide", () => this.#leave(), { signal });
      addEventListener("pageshow", ({ persisted }) => persisted && this.#compete(), { signal });
    }
    this.#compete();
  }

  say(message) {
    if (!this.#listening.signal.aborted) this.#channel.postMessage(message);
  }

  stepDown() {
    this.#letGo?.();
  }

  close() {
    this.#listening.abort();
    this.#leave();
    this.#channel.close();
  }

  #leave() {
    this.#present.abort();
    this.stepDown();
  }

  async #compete() {
    this.#present = new AbortController();
    const { signal } = this.#present;
    while (!signal.aborted) {
      try {
        if (navigator.locks === undefined) await this.#competeForLease(signal);
        else await this.#competeForLock(signal);
      } catch (error) {
        // Asked for too long, or no longer here. Anything else was reported by whoever leads.
        if (error?.name !== "AbortError") await sleep(ASK_AGAIN_MS, signal);
      }
    }
  }

  async #competeForLock(signal) {
    const asking = new AbortController();
    const giveUp = () => asking.abort();
    const patience = setTimeout(giveUp, ASK_AGAIN_MS);
    signal.addEventListener("abort", giveUp);
    try {
      await navigator.locks.request(`syncline.queue.${this.#name}`, { signal: asking.signal }, () => {
        clearTimeout(patience);
        return this.#led(signal);
      });
    } finally {
      clearTimeout(patience);
      signal.removeEventListener("abort", giveUp);
    }
    // One that lost the queue lets the others go first.
    await sleep(0, signal);
  }

  async #competeForLease(signal) {
    // A new name each time: the one under which this tab led before may be known as gone.
    const mine = { holder: crypto.getRandomValues(new Uint32Array(4)).join("-"), hasLifeline: false };
    const lease = (lengthMs) => this.#store.lease(mine, lengthMs, this.#gone);
    const other = await lease(LEASE_MS);
    if (other !== undefined) return Promise.race([this.#whenGone(other), sleep(ASK_AGAIN_MS, signal)]);
    const letGo = await keepLifeline(mine.holder, () => this.stepDown());
    mine.hasLifeline = letGo !== undefined;
    await lease(LEASE_MS);
    const renewal = setInterval(async () => {
      if ((await lease(LEASE_MS).catch(() => true)) !== undefined) this.stepDown();
    }, LEASE_MS / 5);
    try {
      await this.#led(signal);
    } finally {
      clearInterval(renewal);
      await lease(0).catch(() => {});
      letGo?.();
    }
  }

  // Asked once for each holder: what is asked of the browser waits for as long as the holder is there.
  #whenGone({ holder, hasLifeline }) {
    if (!hasLifeline) return NEVER;
    if (this.#watched?.holder !== holder) {
      this.#watched = { holder, gone: whenGone(holder).then(() => void (this.#gone = holder)) };
    }
    return this.#watched.gone;
  }

  async #led(signal) {
    if (signal.aborted) return;
    const over = new Promise((resolve) => (this.#letGo = resolve));
    try {
      await this.#lead();
      await over;
    } finally {
      this.#letGo = undefined;
      await this.#stop();
    }
  }
}

// Firefox throws where the user forbids storage.
function openChannel(name) {
  try {
    return new BroadcastChannel(name);
  } catch (cause) {
    throw failed(cause);
  }
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
