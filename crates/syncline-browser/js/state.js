// Shared state as its users see it: entities and settings that are the same in every context. Types and documentation:
// state.d.ts.
//
// Guarantees: everything that listens is registered in the turn that calls openState, before the rules (WASM) are there;
// what happens meanwhile waits for them in order. Every failure is a SynclineError, and every promise settles: whatever waits for
// the platform has a deadline. Values handed out are frozen and stay the same object until they change. What to read, write,
// send and show is decided by the rules.

import * as rules from "./syncline_state.js";
import { deadline, SynclineError } from "./errors.js";
import { change, FrozenMap } from "./state-frozen.js";
import { readToken } from "./secret.js";
import { erase, invalid, listenTo, readId, readOptions } from "./state-options.js";
import { provided } from "./state-provided.js";
import { refusal, stopped } from "./state-refusal.js";
import { encode } from "./state-value.js";
import { EFFECT, FIELD, flat, inPairs, isPrintable } from "./state-wire.js";
import { wasmModule } from "./wasm.js";

export { SynclineError };

export const { init, initSync, version } = wasmModule({
  instantiate: rules.default,
  instantiateSync: rules.initSync,
  version: rules.version,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_state_bg.wasm", import.meta.url),
});

// A storage that says nothing for so long has failed; writes may take longer than questions.
const ASK_TIMEOUT_MS = 10_000;
const WRITE_TIMEOUT_MS = 30_000;
const LOAD_TIMEOUT_MS = 60_000;
// After so many failures in a row to read what is stored, whoever waits for it is told.
const FAILURES_MAX = 3;

export function openState(options) {
  return new State(readOptions(options));
}

class State {
  #options;
  #storage;
  #bridge;
  #link = null;
  #isPaused = false;
  // Until when nothing is exchanged: what a person has to do.
  #need;
  #codec;
  // Settles when the operations before were told to the rules.
  #turn = Promise.resolve();
  // The exports of the module in use: with a bridge it is another one.
  #rules = rules;
  #replica;
  // What happened before the rules were there.
  #early = [];
  #ops = new Map();
  #numbers = 0;
  #timer;
  #effects = [];
  // Those that were decoded.
  #decoded = [];
  #acting = false;
  // By id: the value of each entity. Whoever has a snapshot has this very map, which then is not changed any more.
  #entities = new FrozenMap();
  #isShared = false;
  #settings;
  // As it is stored.
  #settingsText = "";
  #isReady = false;
  #closed = false;
  #snapshot;
  #listeners = new Set();
  #byId = new Map();
  #ready;
  #settle;
  #loading;
  #failures = 0;
  // What the storage said when it failed last.
  #cause;
  #listening = new AbortController();

  constructor(options) {
    this.#options = options;
    this.#storage = options.storage;
    this.#settings = options.settings.read("");
    this.#ready = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    // Whoever waits for it hears of a failure; a promise nobody looked at must not shout as well.
    this.#ready.catch(() => {});
    listenTo(this.#storage, {
      isOurs: (key) => this.#replica === undefined || this.#rules.isStateKey(key),
      changed: (entries) => this.#tell("changed", entries),
      message: (text) => this.#tell("message", text),
      missed: () => this.#tell("refresh"),
      erased: () => this.#end("erased"),
    });
    options.signal?.addEventListener("abort", () => this.close(), { signal: this.#listening.signal });
    if (options.signal?.aborted) this.close();
    else this.#open();
  }

  get ready() {
    return this.#ready;
  }

  get isReady() {
    return this.#isReady;
  }

  get settings() {
    return this.#settings;
  }

  get link() {
    return this.#link;
  }

  get unsent() {
    return this.#replica?.unsent ?? 0;
  }

  get layout() {
    return this.#replica?.layout ?? null;
  }

  get size() {
    return this.#entities.size;
  }

  get = (id) => this.#entities.get(id);

  has = (id) => this.#entities.has(id);

  ids = () => [...this.#entities.keys()];

  getSnapshot = () => {
    this.#isShared = true;
    this.#snapshot ??= Object.freeze({ isReady: this.#isReady, settings: this.#settings, entities: this.#entities });
    return this.#snapshot;
  };

  subscribe = (...given) => {
    const [id, listener] = given.length === 1 ? [undefined, given[0]] : given;
    if (typeof listener !== "function") throw invalid("subscribe(listener) or subscribe(id, listener) needs a function");
    // One object for each call, so that a function may be given twice.
    const place = id === undefined ? this.#listeners : (this.#byId.get(id) ?? new Set());
    const entry = { listener };
    place.add(entry);
    if (id !== undefined) this.#byId.set(id, place);
    return () => {
      place.delete(entry);
      if (place.size === 0 && this.#byId.get(id) === place) this.#byId.delete(id);
    };
  };

  put = async (id, value) => {
    readId(id);
    const text = encode(value);
    if (this.#options.codec === undefined) return this.#operate("put", [id, text]);
    const encoded = this.#loaded().then(() => this.#codec.encode(id, JSON.parse(text)));
    return this.#operate("put", encoded.then((encoded) => [id, encoded]));
  };

  remove = async (ids) => {
    if (typeof ids !== "string" && typeof ids?.[Symbol.iterator] !== "function") throw invalid("remove() needs an id or several");
    const list = typeof ids === "string" ? [ids] : [...ids];
    list.forEach(readId);
    return this.#operate("remove", list);
  };

  reset = async () => this.#operate("reset", []);

  sweep = async () => this.#operate("sweep", []);

  setSettings = async (settings) => {
    // What a newer program has stored beside them has to be known.
    if (!this.#isReady) await this.#ready;
    return this.#operate("set-settings", [this.#options.settings.write(settings, this.#settingsText)]);
  };

  setLayout = async (layout) => {
    if (!["A", "B", "C"].includes(layout)) throw invalid(`layout must be A, B or C, not ${layout}`);
    return this.#operate("set-layout", [layout]);
  };

  pauseBridge = () => this.#pause(true);

  resumeBridge = ({ token } = {}) => {
    readToken(token);
    this.#pause(false, token);
  };

  close = (options) => (options?.erase === true ? this.#erase() : this.#end("asked"));

  async #open() {
    try {
      await this.#loaded();
    } catch (error) {
      return this.#end("failed", error);
    }
    if (this.#closed) return;
    const { schemaVersion, migrate, bridge, settings } = this.#options;
    const [maker] = crypto.getRandomValues(new Uint32Array(1));
    const hooks = new Hooks(migrate, settings);
    const swaps = typeof this.#storage.swap === "function";
    this.#replica = new this.#rules.StateReplica(maker, schemaVersion, bridge !== undefined, swaps, hooks);
    this.#tell("start");
    for (const [word, ...fields] of this.#early.splice(0)) this.#tell(word, ...fields);
    if (bridge === undefined) return;
    this.#link = { status: this.#isPaused ? "paused" : "follows" };
    this.#bridge = new provided.Bridge(bridge, this.#options.place, {
      tell: (word, ...fields) => this.#tell(word, ...fields),
      admits: (subject) => this.#replica.admits(subject),
      onNeed: ({ code, grant }) => {
        this.#need = { status: "needs-auth", detail: code, ...(grant === undefined ? {} : { grant }) };
        this.#tell("link", "down");
        this.#showLink();
      },
      onAnswered: () => {
        if (this.#need === undefined) return;
        this.#need = undefined;
        this.#showLink();
        if (!this.#isPaused) this.#bridge.start();
      },
    });
    if (!this.#isPaused) this.#bridge.start();
  }

  #pause(isPaused, token) {
    if (this.#options.bridge === undefined || this.#closed) return;
    if (this.#isPaused === isPaused && this.#need === undefined && token === undefined) return;
    this.#isPaused = isPaused;
    if (token !== undefined) this.#options.bridge.token = token;
    if (isPaused || token !== undefined) this.#bridge?.stop();
    if (!isPaused) {
      // What was refused is asked for anew.
      if (this.#need !== undefined || token !== undefined) this.#bridge?.renewToken(token);
      this.#need = undefined;
      this.#bridge?.start();
    }
    this.#showLink();
  }

  // What the rules say, unless something else keeps this context from the node.
  #showLink(status = "follows", detail = "", events = undefined) {
    const said = { status, ...(detail === "" ? {} : { detail }) };
    const link = this.#isPaused ? { status: "paused" } : (this.#need ?? said);
    if (this.#link?.status === link.status && this.#link.detail === link.detail) return;
    this.#link = link;
    const event = { type: "link", ...link };
    if (events === undefined) this.#emit(event);
    else events.push(event);
  }

  // The rules are here; called again, it waits for the same.
  #loaded() {
    this.#loading ??= deadline(this.#load(), LOAD_TIMEOUT_MS, "wasm-load-failed", "the server of the rules");
    return this.#loading;
  }

  async #load() {
    const { bridge, codec, wasmUrl } = this.#options;
    if (codec !== undefined) {
      if (provided.Codec === undefined) await load(() => import("./state-codec.js"), "the codec");
      this.#codec = new provided.Codec(codec, (effects) => this.#show(effects));
    }
    if (bridge === undefined) return init(wasmUrl);
    if (provided.Bridge === undefined) await load(() => import("./state-bridge.js"), "the bridge");
    await provided.init(wasmUrl);
    this.#rules = provided.rules;
  }

  // With a codec, operations still begin in the order of their calls, however long their values take to encode.
  #operate(word, fields) {
    if (this.#options.codec === undefined) return this.#begin(word, fields);
    const before = this.#turn;
    const begun = Promise.allSettled([fields, before]).then(([{ value, reason }]) => {
      if (value === undefined) throw reason;
      return { ended: this.#begin(word, value) };
    });
    this.#turn = begun.catch(() => {});
    return begun.then(({ ended }) => ended);
  }

  #begin(word, fields) {
    if (this.#closed) return Promise.reject(stopped());
    const op = ++this.#numbers;
    return new Promise((resolve, reject) => {
      this.#ops.set(`${op}`, { resolve, reject });
      this.#tell(word, op, ...fields);
    });
  }

  #tell(word, ...fields) {
    if (this.#closed) return;
    if (this.#replica === undefined) {
      this.#early.push([word, ...fields]);
      return;
    }
    const parts = [word, ...fields.flatMap((field) => (Array.isArray(field) ? flat(field) : [field]))];
    let told;
    try {
      told = this.#replica.handle(performance.now(), Date.now(), parts.join(FIELD));
    } catch (cause) {
      // A panic leaves the machine unusable; what is stored is not harmed.
      this.#end("failed", new SynclineError("internal", `the rules failed: ${this.#rules.lastPanic() ?? cause}`, { cause }));
      return;
    }
    const effects = told.split(EFFECT);
    this.#wake(effects[0]);
    for (let at = 1; at < effects.length; at++) this.#take(effects[at].split(FIELD));
    if (!this.#acting) this.#act();
  }

  // Many entities come together; whoever decodes values is given them one by one.
  #take(effect) {
    if (effect[0] !== "renders" || this.#codec === undefined) return this.#effects.push(effect);
    const shown = JSON.parse(effect[1]);
    for (let at = 0; at < shown.length; at += 2) this.#effects.push(["render", shown[at], JSON.stringify(shown[at + 1])]);
  }

  #wake(wakeAt) {
    clearTimeout(this.#timer);
    if (wakeAt === "") return;
    // No timer is longer than 2^31 ms.
    const delay = Math.min(Math.max(0, Math.ceil(Number(wakeAt) - performance.now())), 2 ** 31 - 1);
    this.#timer = setTimeout(() => this.#tell("timer"), delay);
  }

  // One effect after the other, also those that a listener causes: the order in which the rules said them is the truth.
  #act() {
    this.#acting = true;
    const events = [];
    let told = 0;
    try {
      while (this.#effects.length + this.#decoded.length + events.length - told > 0) {
        for (const effect of this.#decoded.splice(0)) this.#do(effect, events);
        for (const effect of this.#effects.splice(0)) if (!this.#codec?.takes(effect)) this.#do(effect, events);
        if (told < events.length) this.#emit(events[told++]);
      }
    } finally {
      this.#acting = false;
    }
  }

  // Effects that were taken by the codec.
  #show(effects) {
    if (this.#closed) return;
    this.#decoded.push(...effects);
    if (!this.#acting) this.#act();
  }

  #do([word, ...fields], events) {
    switch (word) {
      case "get":
        return this.#get(fields[0], fields.slice(1));
      case "set":
        return this.#ask(fields[0], WRITE_TIMEOUT_MS, () => this.#storage.set(inPairs(fields.slice(1))), () => ["stored"]);
      case "swap":
        return this.#ask(fields[0], WRITE_TIMEOUT_MS, () => this.#storage.swap(inPairs(fields.slice(1))), (before) => ["swapped", asTexts(before)]);
      case "remove":
        return this.#ask(fields[0], WRITE_TIMEOUT_MS, () => this.#storage.remove(fields.slice(1)), () => ["stored"]);
      case "list":
        return this.#ask(fields[0], ASK_TIMEOUT_MS, () => this.#storage.list(), (keys) => ["listed", ...keys.filter(isPrintable)]);
      case "send":
        return this.#send(...fields);
      case "render":
        change(this.#change(), fields[0], fields[1] === "" ? undefined : freeze(JSON.parse(fields[1])));
        return events.push({ type: "entity", id: fields[0] });
      case "renders":
        return this.#showAll(JSON.parse(fields[0]), events);
      case "clear":
        this.#snapshot = undefined;
        events.push({ type: "cleared", ids: [...this.#entities.keys()] });
        this.#entities = new FrozenMap();
        this.#isShared = false;
        return;
      case "settings":
        this.#snapshot = undefined;
        this.#settingsText = fields[0];
        this.#settings = this.#options.settings.read(fields[0]);
        return events.push({ type: "settings", settings: this.#settings });
      case "ready":
        this.#snapshot = undefined;
        this.#isReady = true;
        this.#settle.resolve();
        return events.push({ type: "ready" });
      case "resolve":
      case "reject":
        return this.#finish(word, ...fields);
      case "pull":
        return this.#bridge?.pull(...fields);
      case "push":
        return this.#bridge?.push(...fields);
      case "link":
        return this.#showLink(fields[0], fields[1], events);
      case "report":
        return this.#report(fields[0], fields[1], events);
    }
  }

  // Ids and values by turns.
  #showAll(shown, events) {
    const entities = this.#change();
    for (let at = 0; at < shown.length; at += 2) {
      change(entities, shown[at], freeze(shown[at + 1]));
      events.push({ type: "entity", id: shown[at] });
    }
  }

  // The entities, to be changed.
  #change() {
    this.#snapshot = undefined;
    if (this.#isShared) this.#entities = new FrozenMap(this.#entities);
    this.#isShared = false;
    return this.#entities;
  }

  #get(ask, keys) {
    return this.#ask(ask, ASK_TIMEOUT_MS, () => this.#storage.get(keys), (answer) => {
      const found = new Map([...answer]);
      // A key that is not in the answer is not there.
      return ["got", asTexts(keys.map((key) => [key, found.get(key) ?? undefined]))];
    });
  }

  // A storage of one's own may do anything: throw at once, never answer, answer nonsense. The rules hear that it failed.
  async #ask(ask, ms, question, reply) {
    let told;
    try {
      const answer = await deadline(Promise.resolve().then(question), ms, "storage-failed", "the storage");
      const [word, ...fields] = reply(answer);
      told = [word, ask, ...fields];
    } catch (error) {
      if (error?.kind === "gone") return this.#end("gone");
      this.#cause = error;
      told = ["failed", ask, ["quota", "overtaken"].includes(error?.kind) ? error.kind : "other"];
    }
    this.#tell(...told);
  }

  async #send(number, text) {
    try {
      const heard = await this.#storage.send(text);
      if (heard !== undefined) this.#tell(heard, number);
    } catch (error) {
      if (error?.kind === "gone") this.#end("gone");
    }
  }

  #finish(word, op, reason) {
    const asked = this.#ops.get(op);
    this.#ops.delete(op);
    if (word === "resolve") asked?.resolve();
    else asked?.reject(refusal(reason, this.#cause));
  }

  #report(report, detail, events) {
    const about = detail === "" ? {} : { detail };
    events.push({ type: "report", report, ...about });
    // It is tried again, and the event `ready` still comes when it succeeds; a promise settles once.
    if (report === "storage-failed" && ++this.#failures === FAILURES_MAX) this.#settle.reject(refusal("storage", this.#cause));
    if (report === "newer-schema") {
      const message = `what is stored follows version ${detail} of the schema, and this program knows ${this.#options.schemaVersion}`;
      this.#end("failed", new SynclineError("newer-schema", message));
    }
  }

  #emit(event) {
    if (event.type === "entity") {
      const { id } = event;
      const state = this;
      if (this.#listeners.size === 0 && !this.#byId.has(id)) return;
      // As it is when somebody looks.
      event = {
        type: "entity",
        id,
        get value() {
          return state.get(id);
        },
      };
      this.#call(this.#byId.get(id), event);
    } else if (event.type === "cleared") {
      for (const id of event.ids) this.#call(this.#byId.get(id), { type: "entity", id, value: undefined });
    }
    this.#call(this.#listeners, event);
  }

  #call(entries, event) {
    if (entries === undefined) return;
    for (const { listener } of [...entries]) {
      try {
        listener(event);
      } catch (error) {
        // A listener that throws harms nobody else.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  // Whoever signs out: everything here is removed, in all contexts.
  async #erase() {
    if (this.#closed) throw stopped();
    if (!this.#isReady) await this.#ready;
    const { unsent } = this;
    // Whoever signs in next has another one.
    this.#bridge?.renewToken();
    this.#end("erased", stopped(), true);
    try {
      await erase(this.#storage, this.#rules.isStateKey);
    } catch (cause) {
      throw refusal("storage", cause);
    }
    return { unsent };
  }

  #end(reason, error = stopped(), keepStorage = false) {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#listening.abort();
    try {
      if (!keepStorage) this.#storage.close();
    } catch {
      // It is of no use to anybody here any more.
    }
    this.#bridge?.close();
    this.#settle.reject(error);
    for (const { reject } of this.#ops.values()) reject(error);
    this.#ops.clear();
    this.#emit({ type: "closed", reason, ...(reason === "failed" ? { error } : {}) });
    this.#listeners.clear();
    this.#byId.clear();
  }
}

// What the rules ask the application.
class Hooks {
  #migrate;
  #settings;

  constructor(migrate, settings) {
    this.#migrate = migrate;
    this.#settings = settings;
  }

  takesSettings(text) {
    return this.#settings.takes(text);
  }

  migrate(version, id, text) {
    if (this.#migrate === undefined) return text;
    try {
      return encode(this.#migrate(version, id, JSON.parse(text)));
    } catch {
      // The rules report that it could not be done, and leave the entity as it is.
      return undefined;
    }
  }
}

function asTexts(entries) {
  const isText = (text) => text === undefined || typeof text === "string";
  if (![...entries].every(([, text]) => isText(text))) throw new TypeError("the storage answered something else than texts");
  return entries;
}

async function load(script, what) {
  try {
    await script();
  } catch (cause) {
    const message = `${what} could not be loaded: ${cause?.message ?? cause}`;
    throw new SynclineError("wasm-load-failed", message, { retryable: true, cause });
  }
}

// With all that is in it. Values are trees, and not deep.
function freeze(value) {
  for (const name in value) if (typeof value[name] === "object") freeze(value[name]);
  return Object.freeze(value);
}
