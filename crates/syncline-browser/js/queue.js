// The paced queue as its users see it: options, operations, events. Types and documentation: syncline.d.ts.
//
// Guarantees: every failure is a SynclineError; what is asked of a kept queue in one tab is carried out by the tab that
// runs it, once, and answered when it is kept. The work itself is done by queue-engine.js.

import { SynclineError } from "./errors.js";
import { init } from "./queue-wasm.js";

export { SynclineError };
export { RetryLater } from "./queue-answer.js";
export { init, initSync, version } from "./queue-wasm.js";

const KINDS = ["new", "retry", "priority", "again"];
const STATES = ["waiting", "running", "retrying", "done", "failed", "dead"];
const PAUSES = [null, "retry-after", "breaker", "interval", "busy", "probing"];
const BREAKERS = ["closed", "open", "probing"];
const DAY_MS = 86_400_000;
const NUMBERS = {
  concurrency: [1, 1, 1_000],
  intervalMs: [0, 0, DAY_MS],
  retryDelayMs: [1_000, 0, DAY_MS],
  maxAttempts: [10, 1, 1_000_000],
  timeoutMs: [20_000, 1, DAY_MS],
  breakerAfter: [5, 1, 1_000_000],
  maxKeys: [1_000_000, 1, 10_000_000],
  maxResults: [1_000_000, 0, 10_000_000],
};
// The pace of each group of a queue that says anything of them.
const GROUP_NUMBERS = { groupConcurrency: [1, 1, 1_000], groupIntervalMs: [0, 0, DAY_MS] };
const KEY_MAX_CHARS = 1_024;
const GROUP_MAX_CHARS = 256;
// A text of these is no name.
const CONTROLS = /[\p{Cc}\p{Cs}]/u;
const LIST_MAX = 1_000;
// How often the tab that runs a queue tells the others how it stands.
const STATUS_EVERY_MS = 250;
// These change the queue and must not be lost on their way to the tab that runs it.
const CHANGES = new Set(["enqueue", "dequeue", "revive", "remove", "pause"]);

export function createQueue(options) {
  return new Queue(readOptions(options));
}

class Queue {
  #options;
  #engine;
  #tabs;
  #store;
  #carriedOut = [];
  #listeners = new Set();
  #pending = new Map();
  // What this tab is about to answer for others.
  #answering = new Set();
  #requests = 0;
  #me = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  #numbers = new Array(14).fill(0);
  #isPaused;
  #telling;
  #closed = false;
  #ready;

  constructor(options) {
    this.#options = options;
    this.#isPaused = options.paused;
    this.#ready = this.#open();
    // Each operation waits for it and reports its failure; a promise nobody looked at must not shout as well.
    this.#ready.catch(() => {});
  }

  get name() {
    return this.#options.name;
  }

  get ready() {
    return this.#ready;
  }

  async enqueue(keys, options) {
    const { kind = "new", group } = options ?? {};
    if (!KINDS.includes(kind)) throw invalid(`kind must be one of ${KINDS.join(", ")}, not ${kind}`);
    const groupOf = group === undefined ? this.#options.group : () => group;
    return this.#do("enqueue", [kind, ...readTasks(keys, groupOf)]);
  }

  async dequeue(results) {
    const pairs = [...(typeof results?.[Symbol.iterator] === "function" ? results : Object.entries(results))];
    readKeys(pairs.map(([key]) => key));
    return this.#do("dequeue", [pairs]);
  }

  async retryDead(keys) {
    return this.#do("revive", keys === undefined ? [] : [readKeys(keys)]);
  }

  async remove(keys) {
    return this.#do("remove", [readKeys(keys)]);
  }

  async pause(options) {
    await this.#do("pause", [true, ...readGroup(options)]);
  }

  async resume(options) {
    await this.#do("pause", [false, ...readGroup(options)]);
  }

  async groups(options) {
    return this.#do("groups", [readLimit(options)]);
  }

  async result(key) {
    readKeys(key);
    return this.#do("result", [key]);
  }

  async keys(state, options) {
    if (!STATES.includes(state)) throw invalid(`state must be one of ${STATES.join(", ")}, not ${state}`);
    return this.#do("list", [state, readLimit(options)]);
  }

  async idle() {
    await this.#do("idle", []);
  }

  status() {
    const numbers = this.#engine?.status() ?? this.#numbers;
    const [waiting, running, retrying, done, failed, dead, ratePerSec, leftMs] = numbers;
    const [nextCallAt, nextRetryAt, pausedUntil] = [8, 9, 10].map((at) => this.#wallOf(numbers[at]));
    const isPaused = this.#engine?.isPaused ?? this.#isPaused;
    const paused = numbers[11] > 0 ? { until: pausedUntil, reason: PAUSES[numbers[11]] } : null;
    return {
      waiting,
      running,
      retrying,
      done,
      failed,
      dead,
      ratePerSec,
      leftMs: numberOrNull(leftMs),
      nextCallAt: isPaused ? null : nextCallAt,
      nextRetryAt,
      paused: isPaused ? { until: null, reason: "asked" } : paused,
      waitsFor: PAUSES[numbers[12]],
      breaker: BREAKERS[numbers[13]],
      runsHere: this.#engine !== undefined,
    };
  }

  subscribe(listener) {
    if (typeof listener !== "function") throw invalid("subscribe(listener) needs a function");
    this.#listeners.add(listener);
    this.#listen();
    return () => {
      this.#listeners.delete(listener);
      this.#listen();
    };
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    const error = new SynclineError("stopped", `the queue ${JSON.stringify(this.name)} was closed`);
    await this.#ready.catch(() => {});
    await this.#engine?.close(error);
    await this.#tabs?.close();
    this.#store?.close();
    clearTimeout(this.#telling);
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }

  async #open() {
    const { wasmUrl, persist, name } = this.#options;
    const [{ Engine }] = await Promise.all([loaded(import("./queue-engine.js")), init(wasmUrl)]);
    if (!persist) {
      this.#engine = this.#start(Engine);
      this.#listen();
      return;
    }
    const [{ openStore }, { Tabs }] = await loaded(Promise.all([import("./queue-store.js"), import("./queue-tabs.js")]));
    this.#store = await openStore(name);
    this.#tabs = new Tabs(name, {
      receive: (message) => this.#receive(message),
      lead: () => this.#lead(Engine).catch((error) => this.#report(error)),
      stop: () => this.#follow(),
    });
    this.#tabs.say({ type: "hello" });
  }

  // Telling what ended costs time, which is spent only for somebody who listens.
  #listen() {
    if (this.#engine !== undefined) this.#engine.isHeard = this.#tabs !== undefined || this.#listeners.size > 0;
  }

  #start(Engine, kept) {
    const { settings, run, paused } = this.#options;
    return new Engine({
      settings,
      run,
      paused,
      kept,
      heard: (notices) => this.#announce(notices),
      store: kept && {
        write: (changes) => this.#store.write({ ...changes, carriedOut: this.#carriedOut.splice(0) }),
        failed: (error) => this.#report(error),
      },
    });
  }

  // This tab runs the queue from now on.
  async #lead(Engine) {
    // What an earlier turn of this tab did and did not keep is to be done again.
    this.#carriedOut.length = 0;
    this.#answering.clear();
    await this.#store.take();
    this.#engine = this.#start(Engine, await this.#store.read());
    this.#listen();
    const asked = [...this.#pending].filter(([, { isAsked }]) => isAsked);
    await this.#carryOutPosted(asked.filter(([, { operation }]) => CHANGES.has(operation)).map(([id]) => id));
    for (const [id, { operation, values }] of asked) {
      if (!CHANGES.has(operation)) this.#answer(id, this.#perform(operation, values));
    }
    this.#tabs.say({ type: "leader" });
    this.#tellStatus();
  }

  async #follow() {
    const engine = this.#engine;
    this.#engine = undefined;
    await engine?.close(new SynclineError("queue-taken", "another tab runs this queue now", { retryable: true }));
  }

  async #do(operation, values) {
    if (this.#closed) throw new SynclineError("stopped", `the queue ${JSON.stringify(this.name)} was closed`);
    if (this.#engine === undefined) await this.#ready;
    if (this.#engine !== undefined) {
      try {
        return await this.#perform(operation, values);
      } catch (error) {
        // A question goes to whoever runs the queue now; a change may have been kept or not.
        if (error.code !== "queue-taken" || CHANGES.has(operation) || this.#closed) throw error;
      }
    }
    // Another tab runs it, or none yet does.
    const id = `${this.#me}-${++this.#requests}`;
    const asked = { operation, values, isAsked: false };
    const answer = new Promise((resolve, reject) => this.#pending.set(id, Object.assign(asked, { resolve, reject })));
    // What fails before it is asked for is told by the answer alone.
    answer.catch(() => {});
    if (CHANGES.has(operation)) await this.#post({ id, operation, values });
    asked.isAsked = true;
    if (this.#engine === undefined) this.#tabs.say({ type: "request", id, operation, values });
    else if (CHANGES.has(operation)) await this.#carryOutPosted([]);
    else this.#answer(id, this.#perform(operation, values));
    return answer;
  }

  async #post(request) {
    try {
      await this.#store.post(request);
    } catch (error) {
      this.#pending.delete(request.id);
      throw error;
    }
  }

  async #perform(operation, values) {
    const engine = this.#engine;
    if (operation === "result") await engine.kept();
    const value = await engine[operation](...values);
    if (this.#options.persist && CHANGES.has(operation)) await engine.kept();
    return value;
  }

  // Carries out what the other tabs ask for and this one asked for before it led. Those who ask again (`waiting`) are answered
  // in any case: what they ask is not there if the tab that carried it out went away before it could answer.
  async #carryOutPosted(waiting) {
    const posted = await this.#store.posted();
    for (const id of waiting) {
      if (this.#engine === undefined || this.#answering.has(id) || posted.some(([, request]) => request.id === id)) continue;
      const problem = "the tab that carried this out went away before it could say what came of it";
      this.#answer(id, Promise.reject(new SynclineError("answer-lost", problem, { retryable: true })));
    }
    for (const [number, { id, operation, values }] of posted) {
      if (this.#engine === undefined || this.#carriedOut.includes(number)) continue;
      let outcome;
      try {
        outcome = Promise.resolve(this.#engine[operation](...values));
      } catch (error) {
        outcome = Promise.reject(error);
      }
      this.#carriedOut.push(number);
      this.#answer(id, this.#engine.kept().then(() => outcome));
    }
  }

  async #answer(id, outcome) {
    this.#answering.add(id);
    let reply;
    try {
      reply = { type: "reply", id, value: await outcome };
    } catch (error) {
      if (error.code === "queue-taken") return void this.#answering.delete(id);
      reply = { type: "reply", id, error: { code: error.code, message: error.message, retryable: error.retryable } };
    }
    if (this.#pending.has(id)) this.#receive(reply);
    else this.#tabs.say(reply);
    this.#answering.delete(id);
  }

  #receive(message) {
    switch (message.type) {
      case "hello":
        if (this.#engine !== undefined) this.#tellStatus();
        break;
      case "leader":
        for (const [id, { operation, values, isAsked }] of this.#pending) {
          if (isAsked) this.#tabs.say({ type: "request", id, operation, values, isAgain: true });
        }
        break;
      case "request":
        if (this.#engine === undefined) break;
        if (CHANGES.has(message.operation)) this.#carryOutPosted(message.isAgain ? [message.id] : []).catch((error) => this.#report(error));
        else this.#answer(message.id, this.#perform(message.operation, message.values));
        break;
      case "reply": {
        const asked = this.#pending.get(message.id);
        this.#pending.delete(message.id);
        if (message.error === undefined) asked?.resolve(message.value);
        else asked?.reject(new SynclineError(message.error.code, message.error.message, message.error));
        break;
      }
      case "status":
        this.#numbers = message.numbers.map((number, at) => (at >= 8 && at <= 10 ? number - message.now + performance.now() : number));
        this.#isPaused = message.isPaused;
        this.#emit({ type: "status" });
        break;
      case "notices":
        this.#emitAll(message.notices);
        break;
    }
  }

  #announce(notices) {
    if (this.#tabs !== undefined) {
      this.#tabs.say({ type: "notices", notices });
      this.#telling ??= setTimeout(() => this.#tellStatus(), STATUS_EVERY_MS);
    }
    this.#emitAll(notices);
  }

  #tellStatus() {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    if (this.#engine === undefined) return;
    const numbers = Array.from(this.#engine.status());
    this.#tabs.say({ type: "status", numbers, now: performance.now(), isPaused: this.#engine.isPaused });
    this.#emit({ type: "status" });
  }

  #emitAll(notices) {
    if (this.#listeners.size === 0) return;
    for (const { key, place, value } of notices) {
      const state = ["unknown", ...STATES][place];
      if (state === "done") this.#emit({ type: "settled", key, state, result: value });
      else this.#emit({ type: "settled", key, state, reason: value });
    }
  }

  #emit(event) {
    for (const listener of this.#listeners) {
      // In a task of its own, where a listener that throws harms nobody.
      queueMicrotask(() => listener(event));
    }
  }

  // Keeping failed: what was not kept is done again by whoever runs the queue next.
  #report(error) {
    if (this.#options.onError !== undefined) queueMicrotask(() => this.#options.onError(error));
    else if (error.code !== "queue-taken") console.warn(error);
    this.#tabs.stepDown();
  }

  #wallOf(ms) {
    return Number.isFinite(ms) && ms > 0 ? Math.round(Date.now() + ms - performance.now()) : null;
  }
}

function readOptions(options) {
  if (typeof options !== "object" || options === null) throw invalid("options must be an object");
  const { name = "queue", run, persist = false, paused = false, group, wasmUrl, onError } = options;
  if (typeof name !== "string" || name === "" || name.length > 100) throw invalid("name must be a text of 1 to 100 characters");
  if (persist && options.name === undefined) throw invalid("a queue with `persist: true` needs a name to be found by");
  if (typeof run !== "function") throw invalid("run must be a function: async (key, { signal, attempt }) => result");
  if (onError !== undefined && typeof onError !== "function") throw invalid("onError must be a function");
  if (group !== undefined && typeof group !== "function") throw invalid("group must be a function: (key) => the name of its group");
  const settings = { groupConcurrency: 0, groupIntervalMs: 0 };
  const hasGroups = [group, options.groupConcurrency, options.groupIntervalMs].some((option) => option !== undefined);
  for (const [option, [usual, least, most]] of Object.entries(hasGroups ? { ...NUMBERS, ...GROUP_NUMBERS } : NUMBERS)) {
    const value = options[option] ?? usual;
    if (!(typeof value === "number" && value >= least && value <= most)) {
      throw invalid(`${option} must be a number from ${least} to ${most}, not ${value}`);
    }
    settings[option] = Math.ceil(value);
  }
  return { name, run, persist: persist === true, paused: paused === true, group, wasmUrl, onError, settings };
}

// Written out where it is imported, bundlers find the script and ship it.
async function loaded(script) {
  try {
    return await script;
  } catch (cause) {
    throw new SynclineError("wasm-load-failed", `a script of the queue could not be loaded: ${cause?.message ?? cause}`, { retryable: true, cause });
  }
}

// The keys, and where any is given a group the names of these, with nothing for a key that is given none.
function readTasks(tasks, groupOf) {
  const list = typeof tasks?.key === "string" ? [tasks] : listOf(tasks);
  if (groupOf === undefined && !list.some((task) => typeof task === "object")) return [readKeys(list)];
  const keys = readKeys(list.map((task) => (typeof task === "object" ? task?.key : task)));
  const groups = keys.map((key, index) => readGroupName(list[index].group ?? groupOf?.(key)));
  return groups.some((group) => group !== undefined) ? [keys, groups] : [keys];
}

function readGroupName(name) {
  if (name === undefined || name === null) return undefined;
  if (typeof name !== "string" || name.length > GROUP_MAX_CHARS || CONTROLS.test(name)) {
    throw invalid(`the name of a group must be a text of at most ${GROUP_MAX_CHARS} characters, none of them a control character`);
  }
  return name;
}

function readGroup(options) {
  const group = readGroupName(options?.group);
  return group === undefined ? [] : [group];
}

function readLimit(options) {
  const { limit = 100 } = options ?? {};
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= LIST_MAX)) throw invalid(`limit must be from 1 to ${LIST_MAX}`);
  return limit;
}

function listOf(keys) {
  const list = typeof keys === "string" ? [keys] : Array.isArray(keys) ? keys : typeof keys?.[Symbol.iterator] === "function" ? [...keys] : undefined;
  if (list === undefined) throw invalid("keys must be a text or a list of texts");
  return list;
}

function readKeys(keys) {
  const list = listOf(keys);
  for (let index = 0; index < list.length; index++) {
    const key = list[index];
    if (typeof key !== "string" || key.length === 0 || key.length > KEY_MAX_CHARS) {
      throw invalid(`a key must be a text of 1 to ${KEY_MAX_CHARS} characters, and number ${index + 1} is not`);
    }
  }
  return list;
}

function numberOrNull(number) {
  return Number.isFinite(number) ? number : null;
}

function invalid(message) {
  return new SynclineError("invalid-argument", message);
}
