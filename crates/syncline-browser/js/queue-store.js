// Keeps one queue in IndexedDB: a row per key, the pace of the queue and of its groups, and what other tabs ask for.
//
// Guarantees: one transaction per step holds the rows that changed, the pace and the requests that were carried out, all
// or none, never the whole queue. A tab whose turn is over cannot write any more: each write is numbered, a number is used
// once, and a tab that has not written for a while looks first whether the last number is still its own. No transaction waits
// for its page, so a tab that is frozen in the middle of one holds up nobody. Survives a reload and the death of the tab or
// the browser; the last moments before the power fails may be lost, as IndexedDB leaves flushing the disk to the system.

import { SynclineError, deadline } from "./errors.js";

const VERSION = 1;
const KEYS = "keys";
const META = "meta";
const INBOX = "inbox";
const TURN = "turn";
// What is kept of groups, each under its name.
const GROUP = "group";
// Far more writes than can be made in the time for which a look at the last number counts.
const TURNS_KEPT = 1_000;
const LOOK_COUNTS_MS = 1_000;
const OPEN_MAX_MS = 4_000;
// A queue of a million keys takes a while to be read.
const STEP_MAX_MS = 30_000;

export async function openStore(name) {
  if (typeof indexedDB === "undefined" || typeof BroadcastChannel === "undefined") {
    throw new SynclineError("unsupported-environment", "a queue with `persist: true` needs IndexedDB and BroadcastChannel, which are not here");
  }
  const request = openDatabase(`syncline-queue:${name}`);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(KEYS);
    request.result.createObjectStore(META);
    request.result.createObjectStore(INBOX, { autoIncrement: true });
  };
  return new Store(await deadline(outcome(request), OPEN_MAX_MS, "storage-failed", "the queue's database"));
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
  // The number of the last write by this tab, and when it was known to be the last of all.
  #turn = 0;
  #lookedAt = -Infinity;

  constructor(database) {
    this.#database = database;
    // Somebody deletes the database, or a newer version of this package changes it.
    database.onversionchange = () => database.close();
  }

  // From now on, only this tab's writes count.
  async take() {
    const [newest, epoch = 0] = await this.#ask([META], ([meta]) => [newestTurn(meta), meta.get("epoch")]);
    this.#turn = turnOf(newest);
    await this.#change([META], ([meta]) => {
      // For tabs that run an older version of this package.
      meta.put(epoch + 1, "epoch");
    });
  }

  async read() {
    const ofGroups = IDBKeyRange.bound([GROUP], [GROUP, []]);
    const [names, rows, pace, paused, groupKeys, groups] = await this.#ask([KEYS, META], ([keys, meta]) => [
      keys.getAllKeys(),
      keys.getAll(),
      meta.get("pace"),
      meta.get("paused"),
      meta.getAllKeys(ofGroups),
      meta.getAll(ofGroups),
    ]);
    return {
      rows: names.map((key, index) => [key, rows[index].numbers, rows[index].value, rows[index].group]),
      pace,
      paused,
      groups: groupKeys.map(([, name], index) => [name, groups[index]]),
    };
  }

  async write({ puts, deletes, groups, pace, paused, carriedOut }) {
    if (performance.now() - this.#lookedAt > LOOK_COUNTS_MS) await this.#look();
    await this.#change([META, KEYS, INBOX], ([meta, keys, inbox]) => {
      for (const key of deletes) keys.delete(key);
      for (const [key, numbers, value, group] of puts) keys.put(group === undefined ? { numbers, value } : { numbers, value, group }, key);
      for (const [name, numbers] of groups) {
        if (numbers === undefined) meta.delete([GROUP, name]);
        else meta.put(numbers, [GROUP, name]);
      }
      meta.put(Array.from(pace), "pace");
      meta.put(paused, "paused");
      for (const id of carriedOut) inbox.delete(id);
    });
  }

  async post(request) {
    const transaction = this.#begin([INBOX], "readwrite");
    transaction.objectStore(INBOX).add(request);
    transaction.commit();
    await inTime(ended(transaction));
  }

  async posted() {
    const [ids, requests] = await this.#ask([INBOX], ([inbox]) => [inbox.getAllKeys(), inbox.getAll()]);
    return ids.map((id, index) => [id, requests[index]]);
  }

  close() {
    this.#database.close();
  }

  // Whether nobody has taken the queue since this tab wrote last.
  async #look() {
    const at = performance.now();
    const [newest] = await this.#ask([META], ([meta]) => [newestTurn(meta)]);
    if (turnOf(newest) !== this.#turn) throw taken();
    this.#lookedAt = at;
  }

  // All that `ask` asks, answered as of one moment.
  async #ask(names, ask) {
    const transaction = this.#begin(names, "readonly");
    const requests = ask(names.map((name) => transaction.objectStore(name)));
    // Or it would stay open, and keep writers out, until its page has heard the answers.
    transaction.commit();
    return inTime(Promise.all(requests.map(outcome)));
  }

  // The next write of this tab, unless that number was used by another. Its row comes last: Firefox commits a transaction in
  // which a request failed if others were made behind that one.
  async #change(names, change) {
    const at = performance.now();
    const transaction = this.#begin(names, "readwrite");
    change(names.map((name) => transaction.objectStore(name)));
    const meta = transaction.objectStore(META);
    const turn = this.#turn + 1;
    meta.delete(IDBKeyRange.bound([TURN, 0], [TURN, Math.max(0, turn - TURNS_KEPT)]));
    const added = meta.add(1, [TURN, turn]);
    let isTaken = false;
    added.onerror = () => (isTaken = added.error?.name === "ConstraintError");
    transaction.commit();
    try {
      await inTime(ended(transaction));
    } catch (error) {
      throw isTaken ? taken() : error;
    }
    if (isTaken) throw taken();
    [this.#turn, this.#lookedAt] = [turn, at];
  }

  #begin(names, mode) {
    try {
      return this.#database.transaction(names, mode);
    } catch (cause) {
      throw failed(cause);
    }
  }
}

function newestTurn(meta) {
  return meta.openKeyCursor(IDBKeyRange.bound([TURN, 0], [TURN, Infinity]), "prev");
}

function turnOf(cursor) {
  return cursor === null ? 0 : cursor.key[1];
}

function inTime(work) {
  return deadline(work, STEP_MAX_MS, "storage-failed", "the queue's database");
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

function taken() {
  return new SynclineError("queue-taken", "another tab runs this queue now", { retryable: true });
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
