// Values in another form at rest, encrypted for one. What `encode` of the caller makes of a value is stored, sent and merged; what
// `decode` makes of that is shown. Ids stay as they are.
//
// Guarantees: the view changes in the order in which the rules said it, however long each value takes to decode. What cannot be
// decoded is reported, not shown, and stays stored. Both hooks have a deadline.

import { deadline, SynclineError } from "./errors.js";
import { provided } from "./state-provided.js";
import { encode } from "./state-value.js";

const TIMEOUT_MS = 60_000;
// What changes the view, or must not be heard of before the view has changed.
const SHOWN = new Set(["render", "clear", "settings", "ready", "resolve", "reject", "report"]);

class Codec {
  #hooks;
  #show;
  #waiting = [];
  #isDecoding = false;

  // `show(effects)` takes effects of the rules, in order, with decoded values.
  constructor(hooks, show) {
    this.#hooks = hooks;
    this.#show = show;
  }

  // The text to store.
  async encode(id, value) {
    return encode(await call(() => this.#hooks.encode(value, id), "encode()"));
  }

  // Whether the effect comes back by show().
  takes(effect) {
    if (!SHOWN.has(effect[0])) return false;
    this.#waiting.push(effect);
    if (!this.#isDecoding) this.#decode();
    return true;
  }

  async #decode() {
    this.#isDecoding = true;
    while (this.#waiting.length > 0) {
      const some = this.#waiting.splice(0);
      this.#show((await Promise.all(some.map((effect) => this.#decoded(effect)))).flat());
    }
    this.#isDecoding = false;
  }

  // The effects that stand for one.
  async #decoded([word, id, text, ...rest]) {
    if (word !== "render" || text === "") return [[word, id, text, ...rest]];
    try {
      const value = await call(() => this.#hooks.decode(JSON.parse(text), id), "decode()");
      // As a value that was put: checked, in a form of its own, and frozen.
      return [[word, id, encode(value)]];
    } catch {
      return [[word, id, ""], ["report", "not-decoded", id]];
    }
  }
}

// A hook may do anything: throw at once, never answer.
async function call(hook, what) {
  try {
    return await deadline(Promise.resolve().then(hook), TIMEOUT_MS, "codec-failed", what);
  } catch (cause) {
    if (cause instanceof SynclineError) throw cause;
    throw new SynclineError("codec-failed", `${what} failed: ${cause?.message ?? cause}`, { cause });
  }
}

Object.assign(provided, { Codec });
