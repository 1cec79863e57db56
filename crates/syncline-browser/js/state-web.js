// Shared state in a page's own storage: IndexedDB, and a BroadcastChannel that tells the other tabs what was written.
//
// Guarantees: what is written together is there together or not at all, and as a rule in the same transaction in which it was
// read, so that nobody writes in between; others are told after it is stored. Each write has
// a number, so that a tab that was told nothing (its writer died, it was frozen) finds out and reads everything again. A
// database that was closed under it is opened again. Works in pages and workers, on plain http:// too.

import { SynclineError } from "./errors.js";
import { StorageFailure } from "./state-failure.js";

const STORE = "keys";
const COUNTER = "revision";
// From so many keys on they are read as a range, one question instead of hundreds, and not to be written right after.
const RANGE_FROM = 32;
// A write that others were told of in the wrong order is given so long before everything is read again.
const GAP_MS = 1_000;

export class WebStorage {
  #name;
  #database;
  #channel;
  #heard;
  #listening = new AbortController();
  #gap;
  // What was read last can be written in the same transaction, as long as that is open.
  #held;
  // Every write up to `base` is known, and `after` others.
  #base;
  #after = new Set();

  constructor(name) {
    this.#name = `syncline-state:${name}`;
  }

  // Registers at once; nothing that happens from now on is missed.
  listen(heard) {
    this.#heard = heard;
    this.#channel = openChannel(this.#name);
    this.#channel.onmessage = ({ data }) => {
      this.#note(data.revision);
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
    // Many keys are read at the start, when there is nothing to write.
    const mode = keys.length < RANGE_FROM ? "readwrite" : "readonly";
    const transaction = (await this.#open()).transaction([STORE, COUNTER], mode);
    this.#held = mode === "readwrite" ? transaction : undefined;
    if (this.#base === undefined) this.#base = (await answer(transaction.objectStore(COUNTER).get(COUNTER))) ?? 0;
    return readAll(transaction.objectStore(STORE), keys);
  }

  async set(entries) {
    await this.#write(entries, (store) => {
      for (const [key, text] of entries) store.put(text, key);
    });
  }

  async remove(keys) {
    await this.#write(
      keys.map((key) => [key, undefined]),
      (store) => {
        for (const key of keys) store.delete(key);
      },
    );
  }

  async list() {
    const transaction = (await this.#open()).transaction(STORE, "readonly");
    return (await answer(transaction.objectStore(STORE).getAllKeys())).filter((key) => typeof key === "string");
  }

  // Whoever is there was told what was written, value and all.
  async send() {
    return "acked";
  }

  close() {
    clearTimeout(this.#gap);
    this.#listening.abort();
    this.#channel?.close();
    this.#database?.then((database) => database.close(), () => {});
  }

  async #write(entries, change) {
    const database = await this.#open();
    let transaction = this.#held;
    let counted;
    try {
      counted = transaction?.objectStore(COUNTER).get(COUNTER);
    } catch {
      // It has ended: the rules took longer than one turn.
    }
    if (counted === undefined) {
      transaction = database.transaction([STORE, COUNTER], "readwrite");
      counted = transaction.objectStore(COUNTER).get(COUNTER);
    }
    let revision;
    counted.onsuccess = () => {
      revision = (counted.result ?? 0) + 1;
      counted.source.put(revision, COUNTER);
    };
    change(transaction.objectStore(STORE));
    await finished(transaction);
    this.#note(revision);
    this.#channel.postMessage({ revision, entries });
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
    this.#base = undefined;
    this.#after.clear();
    this.#heard?.missed();
  }

  #note(revision) {
    if (this.#base === undefined) return;
    this.#after.add(revision);
    while (this.#after.delete(this.#base + 1)) this.#base++;
    if (this.#after.size > 0) this.#gap ??= setTimeout(() => this.#look(), GAP_MS);
  }

  // Something may have been written without a word.
  async #look() {
    clearTimeout(this.#gap);
    this.#gap = undefined;
    try {
      const transaction = (await this.#open()).transaction(COUNTER, "readonly");
      const revision = (await answer(transaction.objectStore(COUNTER).get(COUNTER))) ?? 0;
      if (this.#base === undefined || revision === this.#base) return;
      this.#base = revision;
      this.#after.clear();
      this.#heard.missed();
    } catch {
      // The next operation meets the same failure and reports it.
    }
  }
}

async function readAll(store, keys) {
  const found = new Map();
  if (keys.length >= RANGE_FROM) {
    const sorted = [...keys].sort((one, other) => indexedDB.cmp(one, other));
    const range = IDBKeyRange.bound(sorted[0], sorted.at(-1));
    // Others that lie between are read too, but not many times as many as were asked for.
    const most = 2 * keys.length;
    const [names, texts] = await Promise.all([answer(store.getAllKeys(range, most)), answer(store.getAll(range, most))]);
    names.forEach((name, index) => found.set(name, texts[index]));
    if (names.length < most) return keys.map((key) => [key, asText(found.get(key))]);
  }
  const left = keys.filter((key) => !found.has(key));
  const texts = await Promise.all(left.map((key) => answer(store.get(key))));
  left.forEach((key, index) => found.set(key, texts[index]));
  return keys.map((key) => [key, asText(found.get(key))]);
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
    request = indexedDB.open(name, 1);
  } catch (cause) {
    throw failure(cause);
  }
  request.onupgradeneeded = () => {
    request.result.createObjectStore(STORE);
    request.result.createObjectStore(COUNTER);
  };
  const database = await answer(request);
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

function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(failure(transaction.error));
  });
}

function failure(cause) {
  return new StorageFailure(cause?.name === "QuotaExceededError" ? "quota" : "other", cause);
}
