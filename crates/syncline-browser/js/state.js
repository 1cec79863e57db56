// Shared state as its users see it: entities and settings that are the same in every context. Types and documentation:
// state.d.ts.
//
// Guarantees: everything that listens is registered in the turn that calls openState, before the rules (WASM) are there;
// what happens meanwhile waits for them in order. Every failure is a SynclineError. Values handed out are frozen and stay
// the same object until they change. What to read, write, send and show is decided by the rules.

import * as rules from "./syncline_state.js";
import { SynclineError } from "./errors.js";
import { ChromeStorage } from "./state-chrome.js";
import { provided } from "./state-provided.js";
import { encode } from "./state-value.js";
import { WebStorage } from "./state-web.js";
import { wasmModule } from "./wasm.js";

export { SynclineError };

export const { init, initSync, version } = wasmModule({
  instantiate: rules.default,
  instantiateSync: rules.initSync,
  version: rules.version,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_state_bg.wasm", import.meta.url),
});

// A storage that says nothing for so long has failed.
const STORAGE_TIMEOUT_MS = 30_000;
const FIELD = "\0";
const EFFECT = "\x01";

export function openState(options) {
  return new State(readOptions(options));
}

class State {
  #options;
  #storage;
  #bridge;
  #link = null;
  // The exports of the module in use: with a bridge it is another one.
  #rules = rules;
  #replica;
  // What happened before the rules were there.
  #early = [];
  #ops = new Map();
  #numbers = 0;
  #timer;
  #effects = [];
  #acting = false;
  // By id: the text of each entity, and its value once somebody has asked for it.
  #entities = new Map();
  #settings = null;
  #isReady = false;
  #closed = false;
  #snapshot;
  #listeners = new Set();
  #byId = new Map();
  #ready;
  #settle;
  #listening = new AbortController();

  constructor(options) {
    this.#options = options;
    this.#storage = options.storage;
    this.#ready = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    // Whoever waits for it hears of a failure; a promise nobody looked at must not shout as well.
    this.#ready.catch(() => {});
    this.#storage.listen({
      isOurs: (key) => this.#replica === undefined || this.#rules.isStateKey(key),
      changed: (entries) => this.#tell("changed", entries),
      message: (text) => this.#tell("message", text),
      missed: () => this.#tell("refresh"),
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

  get layout() {
    return this.#replica?.layout ?? null;
  }

  get size() {
    return this.#entities.size;
  }

  get = (id) => {
    const entity = this.#entities.get(id);
    if (entity === undefined) return undefined;
    entity.value ??= parse(entity.text);
    return entity.value;
  };

  has = (id) => this.#entities.has(id);

  ids = () => [...this.#entities.keys()];

  getSnapshot = () => {
    this.#snapshot ??= Object.freeze({
      isReady: this.#isReady,
      settings: this.#settings,
      entities: new Map([...this.#entities.keys()].map((id) => [id, this.get(id)])),
    });
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
    if (this.#replica === undefined) await this.#loaded();
    const text = encode(this.#rules, value);
    return this.#operate("put", [id, text]);
  };

  remove = async (ids) => {
    const list = typeof ids === "string" ? [ids] : [...ids];
    list.forEach(readId);
    return this.#operate("remove", list);
  };

  reset = async () => this.#operate("reset", []);

  sweep = async () => this.#operate("sweep", []);

  setSettings = async (settings) => {
    return this.#operate("set-settings", [JSON.stringify(settings) ?? "null"]);
  };

  setLayout = async (layout) => {
    if (!["A", "B", "C"].includes(layout)) throw invalid(`layout must be A, B or C, not ${layout}`);
    return this.#operate("set-layout", [layout]);
  };

  close = () => this.#end("asked");

  async #open() {
    try {
      await this.#loaded();
    } catch (error) {
      return this.#end("failed", error);
    }
    if (this.#closed) return;
    const { schemaVersion, migrate, bridge } = this.#options;
    const [maker] = crypto.getRandomValues(new Uint32Array(1));
    const migrations = migrate && new Migrations(this.#rules, migrate);
    this.#replica = new this.#rules.StateReplica(maker, schemaVersion, bridge !== undefined, migrations);
    this.#settings = parse(this.#replica.settings);
    this.#tell("start");
    for (const [word, ...fields] of this.#early.splice(0)) this.#tell(word, ...fields);
    if (bridge === undefined) return;
    this.#link = { status: "follows" };
    this.#bridge = new provided.Bridge(bridge, this.#options.name, (word, ...fields) => this.#tell(word, ...fields));
    this.#bridge.start();
  }

  async #loaded() {
    const { bridge, wasmUrl } = this.#options;
    if (bridge === undefined) return init(wasmUrl);
    if (provided.Bridge === undefined) await importBridge();
    await provided.init(wasmUrl);
    this.#rules = provided.rules;
  }

  #operate(word, fields) {
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
    const [wakeAt, ...effects] = told.split(EFFECT);
    this.#wake(wakeAt);
    this.#effects.push(...effects.map((effect) => effect.split(FIELD)));
    if (!this.#acting) this.#act();
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
    try {
      while (this.#effects.length > 0 || events.length > 0) {
        for (const effect of this.#effects.splice(0)) this.#do(effect, events);
        const event = events.shift();
        if (event !== undefined) this.#emit(event);
      }
    } finally {
      this.#acting = false;
    }
  }

  #do([word, ...fields], events) {
    switch (word) {
      case "get":
        return this.#ask(fields[0], this.#storage.get(fields.slice(1)), (found) => ["got", fields[0], found]);
      case "set":
        return this.#ask(fields[0], this.#storage.set(inPairs(fields.slice(1))), () => ["stored", fields[0]]);
      case "remove":
        return this.#ask(fields[0], this.#storage.remove(fields.slice(1)), () => ["stored", fields[0]]);
      case "list":
        return this.#ask(fields[0], this.#storage.list(), (keys) => ["listed", fields[0], ...keys.filter(isPrintable)]);
      case "send":
        return this.#send(...fields);
      case "render":
        this.#snapshot = undefined;
        if (fields[1] === "") this.#entities.delete(fields[0]);
        else this.#entities.set(fields[0], { text: fields[1], value: undefined });
        return events.push({ type: "entity", id: fields[0] });
      case "clear":
        this.#snapshot = undefined;
        events.push({ type: "cleared", ids: [...this.#entities.keys()] });
        return this.#entities.clear();
      case "settings":
        this.#snapshot = undefined;
        this.#settings = parse(fields[0]);
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
        this.#link = { status: fields[0], ...(fields[1] === "" ? {} : { detail: fields[1] }) };
        return events.push({ type: "link", ...this.#link });
      case "report":
        return this.#report(fields[0], fields[1], events);
    }
  }

  async #ask(ask, question, reply) {
    try {
      this.#tell(...reply(await within(question, STORAGE_TIMEOUT_MS)));
    } catch (error) {
      if (error?.kind === "gone") this.#end("gone");
      else this.#tell("failed", ask, error?.kind ?? "other");
    }
  }

  async #send(number, text) {
    try {
      const heard = await this.#storage.send(text);
      if (heard !== undefined) this.#tell(heard, number);
    } catch (error) {
      if (error?.kind === "gone") this.#end("gone");
    }
  }

  #finish(word, op, reason, ...details) {
    const asked = this.#ops.get(op);
    this.#ops.delete(op);
    if (word === "resolve") asked?.resolve();
    else asked?.reject(refusal(reason, details));
  }

  #report(report, detail, events) {
    const about = detail === "" ? {} : { detail };
    events.push({ type: "report", report, ...about });
    if (report === "newer-schema") {
      const message = `what is stored follows version ${detail} of the schema, and this program knows ${this.#options.schemaVersion}`;
      this.#end("failed", new SynclineError("newer-schema", message));
    }
  }

  #emit(event) {
    if (event.type === "entity") {
      const { id } = event;
      const state = this;
      // Parsed for those who look.
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
    for (const { listener } of [...(entries ?? [])]) {
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

  #end(reason, error = stopped()) {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#listening.abort();
    this.#storage.close();
    this.#bridge?.close();
    this.#settle.reject(error);
    for (const { reject } of this.#ops.values()) reject(error);
    this.#ops.clear();
    this.#emit({ type: "closed", reason, ...(reason === "failed" ? { error } : {}) });
    this.#listeners.clear();
    this.#byId.clear();
  }
}

// What the rules call for an entity of an earlier version.
class Migrations {
  #rules;
  #migrate;

  constructor(rules, migrate) {
    this.#rules = rules;
    this.#migrate = migrate;
  }

  migrate(version, id, text) {
    try {
      return encode(this.#rules, this.#migrate(version, id, JSON.parse(text)));
    } catch {
      // The rules report that it could not be done, and leave the entity as it is.
      return undefined;
    }
  }
}

async function importBridge() {
  try {
    await import("./state-bridge.js");
  } catch (cause) {
    throw new SynclineError("wasm-load-failed", `the bridge could not be loaded: ${cause?.message ?? cause}`, {
      retryable: true,
      cause,
    });
  }
}

function refusal(reason, details) {
  switch (reason) {
    case "id":
      return invalid("an id must be a text of 1 to 256 bytes without control characters");
    case "settings": {
      const fields = inPairs(details).map(([field, problem]) => ({ field, problem }));
      const sentence = fields.map(({ field, problem }) => `${field} ${problem}`).join("; ");
      return new SynclineError("invalid-settings", `the settings are not valid: ${sentence}`, { fields });
    }
    case "full":
      return new SynclineError("state-full", "there are as many entities as a state may hold");
    case "busy":
      return new SynclineError("busy", "too many operations wait to be stored", { retryable: true });
    case "quota":
      return new SynclineError("quota-exceeded", "the storage is full; what was changed has been changed back");
    case "closed":
      return stopped();
    default:
      return new SynclineError("storage-failed", "the storage failed; what was changed has been changed back", {
        retryable: true,
      });
  }
}

function stopped() {
  return new SynclineError("stopped", "the state was closed");
}

function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("no answer in time")), ms)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Key and contents by turns. Contents with one of the two marks are no JSON with another character in its place, either.
function flat(entries) {
  return entries
    .filter(([key]) => isPrintable(key))
    .flatMap(([key, text = ""]) => [key, isPrintable(text) ? text : text.replace(/[\0\x01]/g, "\ufffd")]);
}

function inPairs(fields) {
  const found = [];
  for (let index = 0; index + 1 < fields.length; index += 2) found.push([fields[index], fields[index + 1]]);
  return found;
}

function isPrintable(text) {
  return !text.includes(FIELD) && !text.includes(EFFECT);
}

function parse(text) {
  return JSON.parse(text, (_, value) => Object.freeze(value));
}

function readId(id) {
  if (typeof id !== "string" || id === "" || !isPrintable(id)) throw invalid("an id must be a text that is not empty");
}

function readOptions(options = {}) {
  if (typeof options !== "object" || options === null) throw invalid("options must be an object");
  const { name = "state", storage = ownStorage(name), schemaVersion = 1, migrate, bridge, wasmUrl, signal } = options;
  if (typeof name !== "string" || name === "" || name.length > 100) throw invalid("name must be a text of 1 to 100 characters");
  if (!Number.isInteger(schemaVersion) || schemaVersion < 1) throw invalid("schemaVersion must be a whole number from 1");
  if (migrate !== undefined && typeof migrate !== "function") throw invalid("migrate must be a function");
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid("signal must be an AbortSignal");
  for (const method of ["listen", "get", "set", "remove", "list", "send", "close"]) {
    if (typeof storage?.[method] !== "function") throw invalid(`storage must have a method ${method}()`);
  }
  return { name, storage, schemaVersion, migrate, bridge: bridge && readBridge(bridge), wasmUrl, signal };
}

function readBridge({ url = "/", space, token }) {
  if (typeof space !== "string" || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(space)) {
    throw invalid("bridge.space must have 1 to 64 letters, digits, dots, underscores or dashes");
  }
  if (token !== undefined && typeof token !== "string") throw invalid("bridge.token must be a text");
  if (!URL.canParse(url, globalThis.location?.href)) throw invalid("bridge.url must be an address");
  return { url, space, token };
}

// In an extension its storage, anywhere else the origin's.
function ownStorage(name) {
  if (globalThis.chrome?.storage?.local !== undefined) return new ChromeStorage();
  if (typeof indexedDB === "undefined" || typeof BroadcastChannel === "undefined") {
    throw new SynclineError("unsupported-environment", "openState() needs IndexedDB and BroadcastChannel, or a storage of your own");
  }
  return new WebStorage(name);
}

function invalid(message) {
  return new SynclineError("invalid-argument", message);
}
