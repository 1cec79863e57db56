// Shared state in a page's own storage: IndexedDB, and a BroadcastChannel that tells the other tabs what was written.
//
// Guarantees: no transaction waits for its page. Each is given everything in one turn and told to commit, reads included: a tab
// that is frozen, busy or in a dialog holds up nobody. What is written together is there together or not at all. A write of the
// index is refused (`overtaken`) if another tab has written it since this one read it, so that the rules merge first; one that
// was refused often is written all the same, and merged by those who hear of it. Others are told after it is stored. Each
// write names the one before it, so that a tab that was told nothing (its writer died, it was frozen) finds out and reads
// everything again. At the start entities are read from packs (state-packs.js). A database that was closed under it is opened again. Works in pages and workers, on plain http:// too.

import { deadline, SynclineError } from "./errors.js";
import { StorageFailure } from "./state-failure.js";
import { gather, note, NOTES, pack, PACKS, readPacks, unpack } from "./state-packs.js";

const STORE = "keys";
// Holds the name of the last write, and numbers of the latest turns at the index.
const TURNS = "revision";
const STORES = [STORE, TURNS, PACKS, NOTES];
const LAST = "last";
const TURNS_KEPT = 16;
// After so many refusals in a row a write is not refused again.
const LOSSES_MAX = 3;
// Keys that many contexts write: the index, its parts, and all entities together.
const SHARED = "trackedEntities";
// From so many keys on they are read as a range, one question instead of hundreds.
const RANGE_FROM = 32;
// A write that others were told of in the wrong order is given so long before everything is read again.
const GAP_MS = 1_000;
// So long after the last question of a start, it is over.
const STARTED_MS = 2_000;
const OPEN_TIMEOUT_MS = 8_000;
const KNOWN_MAX = 1_000;

export class WebStorage {
  #name;
  #database;
  #channel;
  #heard;
  #listening = new AbortController();
  #gap;
  // Which turn at the index was the last one when this tab read it, and how often in a row it was too late.
  #turn;
  #losses = 0;
  // The writes that this tab has heard of, and those that others have heard of before it. Since when it listens.
  #known = new Set();
  #missing = new Set();
  #since;
  // During the start: what packs say, how many keys were read one by one, and when it is over.
  #packed;
  #singles = 0;
  #starting;

  // `name` is that of the database and of the channel.
  constructor(name) {
    this.#name = name;
  }

  // Registers at once; nothing that happens from now on is missed.
  listen(heard) {
    this.#heard = heard;
    this.#channel = openChannel(this.#name);
    // It takes as long as the rules take to load. Whoever needs it meets its failure.
    this.#open().catch(() => {});
    this.#channel.onmessage = ({ data }) => {
      if (data.erased) return heard.erased();
      this.#note(data.id, data.previous);
      // What was read before is not asked for any more.
      this.#packed?.then((texts) => data.entries.forEach(([key]) => texts.delete(key)), () => {});
      heard.changed(data.entries);
    };
    if (typeof document === "undefined") return;
    const { signal } = this.#listening;
    const look = () => document.visibilityState === "visible" && this.#look();
    document.addEventListener("visibilitychange", look, { signal });
    document.addEventListener("resume", look, { signal });
    addEventListener("pageshow", look, { signal });
  }

  async get(keys) {
    const database = await this.#open();
    const found = await this.#unpacked(keys);
    const left = keys.filter((key) => !found.has(key));
    this.#turn = undefined;
    if (left.length > 0) for (const [key, text] of await this.#read(database, left)) found.set(key, text);
    return keys.map((key) => [key, asText(found.get(key))]);
  }

  // During the start: those that packs have.
  async #unpacked(keys) {
    const found = new Map();
    const texts = await this.#packed?.catch(() => undefined);
    if (texts === undefined) return found;
    for (const key of keys) {
      const text = texts.get(key);
      if (text !== undefined) found.set(key, text);
      texts.delete(key);
    }
    this.#singles += keys.length - found.size;
    this.#start();
    return found;
  }

  // The start goes on; when it is over, what took long is packed.
  #start() {
    clearTimeout(this.#starting);
    this.#starting = setTimeout(async () => {
      const singles = this.#singles;
      this.#packed = undefined;
      this.#singles = 0;
      // It is only for the next start.
      await this.#open().then((database) => pack(database, STORE, singles, answer)).catch(() => {});
    }, STARTED_MS);
  }

  async #read(database, keys) {
    const isFirst = this.#since === undefined;
    const transaction = database.transaction(isFirst ? STORES : [STORE, TURNS], "readonly");
    const turns = transaction.objectStore(TURNS);
    const isShared = keys.some((key) => key.startsWith(SHARED));
    const last = isFirst ? answer(turns.get(LAST)) : undefined;
    const numbers = isShared ? answer(turns.getAllKeys(IDBKeyRange.bound(0, Infinity))) : undefined;
    const read = readAll(transaction.objectStore(STORE), keys);
    if (isFirst) {
      this.#packed = readPacks(transaction, answer);
      this.#packed.catch(() => {});
      this.#start();
    }
    transaction.commit();
    const [found, id, taken] = await Promise.all([read, last, numbers]);
    if (isFirst) {
      this.#since = performance.now();
      this.#learn(id);
    }
    this.#turn = taken === undefined ? undefined : (taken.at(-1) ?? 0);
    const left = keys.filter((key) => !found.has(key));
    if (left.length > 0) {
      const others = database.transaction(STORE, "readonly");
      const rest = readSingly(others.objectStore(STORE), left);
      others.commit();
      for (const [key, text] of await rest) found.set(key, text);
    }
    return found;
  }

  async set(entries) {
    const isShared = entries.some(([key]) => key.startsWith(SHARED));
    await this.#write(entries, isShared ? this.#turn : undefined, (store) => {
      for (const [key, text] of entries) store.put(text, key);
    });
  }

  // Writes, and says what was there before: nobody comes between the two.
  async swap(entries) {
    let before;
    await this.#write(entries, undefined, (store) => {
      before = entries.map(([key, text]) => {
        const found = store.get(key);
        store.put(text, key);
        return [key, found];
      });
    });
    return before.map(([key, { result }]) => [key, asText(result)]);
  }

  async remove(keys) {
    await this.#write(
      keys.map((key) => [key, undefined]),
      undefined,
      (store) => {
        for (const key of keys) store.delete(key);
      },
    );
  }

  async list() {
    const transaction = (await this.#open()).transaction(STORE, "readonly");
    const keys = answer(transaction.objectStore(STORE).getAllKeys());
    transaction.commit();
    return (await keys).filter((key) => typeof key === "string");
  }

  // Whoever is there was told what was written, value and all.
  async send() {
    return "acked";
  }

  close() {
    clearTimeout(this.#gap);
    clearTimeout(this.#starting);
    this.#listening.abort();
    this.#channel?.close();
    this.#database?.then((database) => database.close(), () => {});
  }

  // Removes everything, and the database by whose name one could tell whose it was. Other tabs end first: they would write again what
  // they know. One that stands still keeps an empty database until it goes on.
  async erase() {
    this.#channel.postMessage({ erased: true });
    const transaction = (await this.#open()).transaction(STORES, "readwrite");
    for (const name of STORES) transaction.objectStore(name).clear();
    transaction.commit();
    await finished(transaction);
    this.close();
    await this.#database;
    const deleted = answer(indexedDB.deleteDatabase(this.#name));
    await deadline(deleted, OPEN_TIMEOUT_MS, "storage-failed", "the database").catch(() => {});
  }

  // `turn`: which turn at the index must still be the last one. Packs give way to what does not fit beside them.
  async #write(entries, turn, change) {
    this.#turn = undefined;
    this.#packed = undefined;
    const database = await this.#open();
    try {
      await this.#writeOnce(database, entries, turn, change, true);
    } catch (error) {
      if (error.kind !== "quota") throw error;
      await unpack(database, answer);
      await this.#writeOnce(database, entries, turn, change, false);
    }
  }

  async #writeOnce(database, entries, turn, change, mayPack) {
    const transaction = database.transaction(STORES, "readwrite");
    const turns = transaction.objectStore(TURNS);
    const id = crypto.getRandomValues(new Uint32Array(3)).join("-");
    const previous = turns.get(LAST);
    turns.put(id, LAST);
    change(transaction.objectStore(STORE));
    const noted = note(transaction, entries, mayPack);
    let taken;
    if (turn !== undefined && this.#losses < LOSSES_MAX) {
      turns.delete(IDBKeyRange.upperBound(turn - TURNS_KEPT));
      // Last: what follows a request that failed is committed by some browsers.
      taken = turns.add(1, turn + 1);
    }
    transaction.commit();
    try {
      await finished(transaction, taken);
    } catch (error) {
      this.#losses += error.kind === "overtaken" ? 1 : 0;
      throw error;
    }
    if (turn !== undefined) this.#losses = 0;
    this.#learn(id);
    this.#channel.postMessage({ id, previous: previous.result, entries });
    this.#expect(previous.result);
    gather(database, noted, answer).catch(() => {});
  }

  #open() {
    this.#database ??= openDatabase(this.#name, () => this.#closed()).catch((error) => {
      this.#database = undefined;
      throw error;
    });
    return this.#database;
  }

  // The browser closed the database: it was deleted, or the site's data were cleared. Whatever is known is looked for again.
  #closed() {
    this.#database = undefined;
    this.#since = undefined;
    this.#packed = undefined;
    this.#known.clear();
    this.#missing.clear();
    this.#heard?.missed();
  }

  #note(id, previous) {
    this.#learn(id);
    this.#expect(previous);
  }

  #learn(id) {
    this.#missing.delete(id);
    this.#known.add(id);
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.values().next().value);
  }

  // It was written before something that this tab knows. What was written before this tab first looked is no gap.
  #expect(id) {
    const isNew = this.#since === undefined || performance.now() - this.#since < GAP_MS;
    if (id === undefined || this.#known.has(id) || isNew) return;
    this.#missing.add(id);
    this.#gap ??= setTimeout(() => {
      this.#gap = undefined;
      if (this.#missing.size > 0) this.#miss();
    }, GAP_MS);
  }

  #miss() {
    this.#packed = undefined;
    this.#missing.clear();
    this.#heard.missed();
  }

  // Something may have been written without a word.
  async #look() {
    try {
      const transaction = (await this.#open()).transaction(TURNS, "readonly");
      const last = answer(transaction.objectStore(TURNS).get(LAST));
      transaction.commit();
      const id = await last;
      if (this.#since === undefined || id === undefined || this.#known.has(id)) return;
      this.#learn(id);
      this.#miss();
    } catch {
      // The next operation meets the same failure and reports it.
    }
  }
}

// Everything is asked for in this turn. What a range read did not reach is not in the answer.
async function readAll(store, keys) {
  if (keys.length < RANGE_FROM) return readSingly(store, keys);
  // Keys are ordered as texts are here.
  let [first, last] = [keys[0], keys[0]];
  for (const key of keys) {
    if (key < first) first = key;
    else if (key > last) last = key;
  }
  const range = IDBKeyRange.bound(first, last);
  // Others that lie between are read too, but not many times as many as were asked for.
  const most = 2 * keys.length;
  const [names, texts] = await Promise.all([answer(store.getAllKeys(range, most)), answer(store.getAll(range, most))]);
  const found = new Map(names.map((name, index) => [name, texts[index]]));
  if (names.length < most) keys.forEach((key) => found.has(key) || found.set(key, undefined));
  return found;
}

async function readSingly(store, keys) {
  const texts = await Promise.all(keys.map((key) => answer(store.get(key))));
  return new Map(keys.map((key, index) => [key, texts[index]]));
}

// Somebody else may have put anything there.
function asText(contents) {
  if (contents === undefined || typeof contents === "string") return contents;
  try {
    return JSON.stringify(contents) ?? "null";
  } catch {
    return "null";
  }
}

// Firefox throws where the user forbids storage.
function openChannel(name) {
  try {
    return new BroadcastChannel(name);
  } catch (cause) {
    throw new SynclineError("storage-failed", `this browser forbids storage here: ${cause.message}`, { cause });
  }
}

async function openDatabase(name, closed) {
  let request;
  try {
    request = indexedDB.open(name, 2);
  } catch (cause) {
    throw failure(cause);
  }
  request.onupgradeneeded = () => {
    const { result } = request;
    const make = (name, options) => result.objectStoreNames.contains(name) || result.createObjectStore(name, options);
    [STORE, TURNS].forEach((name) => make(name));
    [PACKS, NOTES].forEach((name) => make(name, { autoIncrement: true }));
  };
  const opened = answer(request);
  let database;
  try {
    database = await deadline(opened, OPEN_TIMEOUT_MS, "storage-failed", "the database");
  } catch (error) {
    // One that comes too late would keep others from deleting it.
    opened.then((late) => late.close(), () => {});
    throw error;
  }
  database.onclose = closed;
  database.onversionchange = () => {
    database.close();
    closed();
  };
  return database;
}

function answer(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failure(request.error));
  });
}

// `taken`: the request that fails where somebody else was faster.
function finished(transaction, taken) {
  return new Promise((resolve, reject) => {
    let late;
    // Noted when it happens: of a request that has not ended, as in a transaction that is aborted, nobody may ask.
    if (taken !== undefined) taken.onerror = () => taken.error?.name === "ConstraintError" && (late = new StorageFailure("overtaken", taken.error));
    transaction.oncomplete = () => (late === undefined ? resolve() : reject(late));
    transaction.onabort = () => reject(late ?? failure(transaction.error));
  });
}

function failure(cause) {
  return new StorageFailure(cause?.name === "QuotaExceededError" ? "quota" : "other", cause);
}
