// Keeps one queue in IndexedDB: a row per key, the pace, and what other tabs ask for.
//
// Guarantees: one transaction per step holds the rows that changed, the pace and the requests that were carried out, all
// or none, never the whole queue. A tab whose turn is over cannot write any more: every transaction checks that nobody
// else has taken the queue since (`epoch`). Survives a reload and the death of the tab or the browser; the last moments
// before the power fails may be lost, as IndexedDB leaves flushing the disk to the system.

import { SynclineError } from "./errors.js";

const VERSION = 1;
const KEYS = "keys";
const META = "meta";
const INBOX = "inbox";

export async function openStore(name) {
  if (typeof indexedDB === "undefined") {
    throw new SynclineError("unsupported-environment", "a queue with `persist: true` needs IndexedDB, which is not here");
  }
  const request = openDatabase(`syncline-queue:${name}`);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(KEYS);
    request.result.createObjectStore(META);
    request.result.createObjectStore(INBOX, { autoIncrement: true });
  };
  return new Store(await outcome(request));
}

// Throws where the user forbids storage.
function openDatabase(name) {
  try {
    return indexedDB.open(name, VERSION);
  } catch (cause) {
    throw failed(cause);
  }
}

class Store {
  #database;
  #epoch;

  constructor(database) {
    this.#database = database;
    // Somebody deletes the database, or a newer version of this package changes it.
    database.onversionchange = () => database.close();
  }

  // From now on, only this tab's writes count.
  async take() {
    const transaction = this.#begin([META], "readwrite");
    const meta = transaction.objectStore(META);
    this.#epoch = ((await outcome(meta.get("epoch"))) ?? 0) + 1;
    meta.put(this.#epoch, "epoch");
    await ended(transaction);
  }

  async read() {
    const transaction = this.#begin([KEYS, META], "readonly");
    const keys = transaction.objectStore(KEYS);
    const meta = transaction.objectStore(META);
    const [names, rows, pace, paused] = await Promise.all(
      [keys.getAllKeys(), keys.getAll(), meta.get("pace"), meta.get("paused")].map(outcome),
    );
    return { rows: names.map((key, index) => [key, rows[index].numbers, rows[index].value]), pace, paused };
  }

  async write({ puts, deletes, pace, paused, carriedOut }) {
    const transaction = this.#begin([KEYS, META, INBOX], "readwrite");
    const meta = transaction.objectStore(META);
    if ((await outcome(meta.get("epoch"))) !== this.#epoch) {
      transaction.abort();
      throw new SynclineError("queue-taken", "another tab runs this queue now", { retryable: true });
    }
    const keys = transaction.objectStore(KEYS);
    for (const key of deletes) keys.delete(key);
    for (const [key, numbers, value] of puts) keys.put({ numbers, value }, key);
    meta.put(Array.from(pace), "pace");
    meta.put(paused, "paused");
    for (const id of carriedOut) transaction.objectStore(INBOX).delete(id);
    await ended(transaction);
  }

  async post(request) {
    const transaction = this.#begin([INBOX], "readwrite");
    transaction.objectStore(INBOX).add(request);
    await ended(transaction);
  }

  async posted() {
    const inbox = this.#begin([INBOX], "readonly").objectStore(INBOX);
    const [ids, requests] = await Promise.all([inbox.getAllKeys(), inbox.getAll()].map(outcome));
    return ids.map((id, index) => [id, requests[index]]);
  }

  // Where there are no Web Locks: takes or keeps the lease, unless somebody else has it who is not known as gone; settles
  // with that one. One transaction is one step for all tabs.
  async lease(mine, lengthMs, gone) {
    const transaction = this.#begin([META], "readwrite");
    const meta = transaction.objectStore(META);
    const held = await outcome(meta.get("lease"));
    const isFree = held === undefined || [mine.holder, gone].includes(held.holder) || held.until <= Date.now();
    if (isFree) meta.put({ ...mine, until: Date.now() + lengthMs }, "lease");
    await ended(transaction);
    return isFree ? undefined : held;
  }

  close() {
    this.#database.close();
  }

  #begin(names, mode) {
    try {
      return this.#database.transaction(names, mode);
    } catch (cause) {
      throw failed(cause);
    }
  }
}

function outcome(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failed(request.error));
    request.onblocked = () => reject(failed(new Error("another tab holds an older version of it open")));
  });
}

function ended(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(failed(transaction.error));
  });
}

export function failed(cause) {
  if (cause instanceof SynclineError) return cause;
  if (cause?.name === "QuotaExceededError") {
    return new SynclineError("quota-exceeded", "the browser gives this page no more room for the queue", { cause });
  }
  return new SynclineError("storage-failed", `the queue's database failed: ${cause?.message ?? cause}`, {
    retryable: true,
    cause,
  });
}
