// Where a lease is written down: the file `<project>/.lock` in OPFS, or one row of IndexedDB where there is no OPFS or the
// browser refuses it, as in private windows.
//
// Guarantees: write() replaces what open() read and nothing else; it fails where somebody else was faster. commit() puts a
// document in place under the same condition. No tab ever has hold of something that another one waits for, so one that
// is frozen or killed at any moment holds up nobody, and when it goes on it can no longer replace what is not as it was.
// All tabs of an origin look at the same place: the first one to ask writes down which it is, and the others read that.
// What a record means, and when to open it, is left to the rules.

import { deadline } from "./errors.js";

const FILE = ".lock";
const DRAFTS = ".drafts";
const UNFINISHED = "~";
// How long a change is tried again where others change the record too, and how long each lets another go first.
const BUSY_MAX_MS = 600;
const YIELD_MAX_MS = 200;
const BUSY_PAUSE_MS = 4;
const RECORD_MAX_BYTES = 4_096;
const DATABASE = "syncline-lock";
// Among the documents, whose names all have a slash: a store of its own would be a new version of the database, and
// tabs that still run an older version of this package could not open that.
const PLACE = "place";
const STEPS = {
  busy: "another tab was faster",
  open: "the storage cannot be opened",
  read: "reading failed",
  write: "writing failed",
};
const OPEN_MAX_MS = 4_000;
const READ_MAX_MS = 1_000;
// Far more changes than can be made within READ_MAX_MS.
const NUMBERS_KEPT = 1_000;

/** A failure with the step it happened in: `busy`, `open`, `read` or `write`. */
export class RecordError extends Error {
  constructor(step, message, cause) {
    super(message, { cause });
    this.step = step;
  }
}

/**
 * Whether leases are files; the same for every tab of an origin. Where the platform has no files that is certain. Where it
 * has them the browser may still refuse, and a refusal need not be final: so what the first tab met counts for all.
 */
export async function usesFiles() {
  if (typeof navigator.storage?.getDirectory !== "function" || typeof FileSystemFileHandle === "undefined") return false;
  const place = new Place();
  let noted = await place.read();
  if (noted === undefined) {
    const isAllowed = await navigator.storage.getDirectory().then(
      () => true,
      () => false,
    );
    // Another tab may be faster; what is read after is the same for both.
    await place.note(isAllowed ? "files" : "rows").catch((error) => {
      if (error.step !== "busy") throw error;
    });
    noted = await place.read();
  }
  return noted === "files";
}

export function openRecord(project, files) {
  return files ? new FileRecord(project) : new RowRecord(project);
}

// OPFS has no compare-and-set, and an exclusive handle stays with a tab that is frozen while it has it open. But a move is
// done by the browser, as a whole, and fails if its source is gone. So every change is a draft first, a file in `.drafts`,
// written under another name and complete from the moment it has its own. Then, in this order: remove the drafts of all
// others; see that the record is what it was; move the draft to its place. Of two that do so, the one that moves later has
// either lost its draft to the other, or has looked at the record after the other's move: its draft was not there when the
// other looked for drafts, so its own looking came after, and found the other's draft moved already, or removed it.
class FileRecord {
  #project;
  #places;
  #text = "";
  #drafts = new Set();

  constructor(project) {
    this.#project = project;
  }

  /** What is written in the record. */
  async open() {
    const { folder } = await this.#open();
    this.#text = await this.#patiently("read", () => read(folder));
    return this.#text;
  }

  /** Replaces what open() read. */
  async write(text) {
    const places = await this.#open();
    const bytes = new TextEncoder().encode(text);
    await this.#patiently("write", async () => {
      const draft = await this.#draft(places, FILE, bytes);
      try {
        await this.#revokeOthers(places, draft.name);
        if ((await read(places.folder)) !== this.#text) throw new RecordError("busy", STEPS.busy);
        await this.#put(places, draft, FILE);
      } finally {
        await this.discard({ draft });
      }
    });
    this.#text = text;
  }

  /** Puts the document's draft in its place, unless somebody has begun to replace the record since it was made. */
  async commit({ draft, name }) {
    await attempt("write", async () => this.#put(await this.#open(), draft, name));
  }

  close() {}

  /** Writes a new version of a document beside the old one. */
  async prepare(name, bytes) {
    const places = await this.#open();
    return attempt("write", async () => ({ draft: await this.#draft(places, name, bytes, true), name }));
  }

  /** Removes a draft that was not committed. */
  async discard({ draft }) {
    if (!this.#drafts.delete(draft.name)) return;
    const { drafts } = await this.#open();
    await drafts.removeEntry(draft.name).catch(() => {});
  }

  /** The newest version of a document as bytes; undefined: there is none. */
  async load(name) {
    const { folder } = await this.#open();
    try {
      const file = await (await folder.getFileHandle(name)).getFile();
      return new Uint8Array(await file.arrayBuffer());
    } catch (cause) {
      if (cause?.name === "NotFoundError") return undefined;
      throw asRecordError("read", cause);
    }
  }

  async #draft({ drafts }, name, bytes, durable = false) {
    const own = `${name}.${uniqueName()}`;
    // Known as ours before it is there: this tab may be replacing the record meanwhile.
    this.#drafts.add(own).add(own + UNFINISHED);
    const handle = await drafts.getFileHandle(own + UNFINISHED, { create: true });
    const pen = await handle.createSyncAccessHandle();
    try {
      if (pen.write(bytes, { at: 0 }) !== bytes.byteLength) throw new DOMException("only a part of it fits", "QuotaExceededError");
      // A lease need not outlive the machine.
      if (durable) pen.flush();
    } finally {
      pen.close();
    }
    // With the folder, though it is the same one: WebKit knows no other way.
    await handle.move(drafts, own);
    this.#drafts.delete(own + UNFINISHED);
    return handle;
  }

  // Two that remove each other's drafts would both begin again, and again: of two leases the one whose name comes first goes
  // on, and the other lets it, for a moment. It may belong to a tab that stands still.
  async #revokeOthers({ drafts }, own) {
    const yields = performance.now() + YIELD_MAX_MS;
    for (;;) {
      const names = [];
      for await (const name of drafts.keys()) names.push(name);
      if (!names.includes(own)) throw new Error(STEPS.busy);
      const others = names.filter((name) => !this.#drafts.has(name));
      const isFirst = (name) => name.startsWith(`${FILE}.`) && !name.endsWith(UNFINISHED) && name < own;
      if (!others.some(isFirst) || performance.now() > yields) {
        await Promise.all(others.map((name) => revoke(drafts, name)));
        return;
      }
      await pause();
    }
  }

  async #put({ folder }, draft, name) {
    const own = draft.name;
    await draft.move(folder, name);
    this.#drafts.delete(own);
  }

  // Again and again for a while: what fails may be in the middle of somebody's change.
  async #patiently(step, work) {
    const deadline = performance.now() + BUSY_MAX_MS;
    for (;;) {
      try {
        return await work();
      } catch (cause) {
        if (cause instanceof RecordError) throw cause;
        if (performance.now() > deadline) {
          this.#places = undefined;
          throw asRecordError(step, cause);
        }
      }
      await pause();
    }
  }

  #open() {
    const open = async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(this.#project, { create: true });
      return { folder, drafts: await folder.getDirectoryHandle(DRAFTS, { create: true }) };
    };
    this.#places ??= attempt("open", () => deadline(open(), OPEN_MAX_MS, "storage-failed", "the folder of the project")).catch((error) => {
      this.#places = undefined;
      throw error;
    });
    return this.#places;
  }
}

async function read(folder) {
  try {
    // Asked for each time: what a handle stands for after another file was moved there is not the same everywhere.
    const file = await (await folder.getFileHandle(FILE)).getFile();
    return await file.slice(0, RECORD_MAX_BYTES).text();
  } catch (cause) {
    // Nobody has written it, or somebody has removed it.
    if (cause?.name === "NotFoundError") return "";
    throw cause;
  }
}

async function revoke(drafts, name) {
  try {
    await drafts.removeEntry(name);
  } catch (cause) {
    // Somebody writes it, who will look for drafts later than we do; or writes it no more and left it.
    if (name.endsWith(UNFINISHED) || cause?.name === "NotFoundError") return;
    // It is being moved: it has to be seen where it goes.
    throw cause;
  }
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, BUSY_PAUSE_MS * (1 + 4 * Math.random())));
}

function uniqueName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// A transaction that waits for its page would lock everybody out if that page is frozen in between. So none does: the
// record is read in one, and written in another that says all it wants at once and fails if the record has changed. Each
// change is a new row, numbered on; `add` refuses a number that was used, which makes it a compare-and-set. It comes last:
// Firefox commits a transaction in which a request failed if others were made behind that one before `commit`.
class RowRecord {
  #project;
  #database = new Database();
  #number = 0;

  constructor(project) {
    this.#project = project;
  }

  async open() {
    const asked = [performance.now(), Date.now()];
    const transaction = await this.#database.begin("readonly", ["leases"]);
    const newest = await newestIn(transaction.objectStore("leases"), this.#project);
    // Numbers are forgotten in time: somebody who slept between reading and writing must read again.
    if (performance.now() - asked[0] > READ_MAX_MS || Date.now() - asked[1] > READ_MAX_MS) {
      throw new RecordError("busy", "the record was read too slowly to rely on it");
    }
    this.#number = newest?.key[1] ?? 0;
    return newest?.value ?? "";
  }

  /** Settles when it is kept, together with a document that waits for its commit. */
  async write(text, document) {
    const number = this.#number + 1;
    const transaction = await this.#database.begin("readwrite", ["leases", "documents"]);
    const leases = transaction.objectStore("leases");
    leases.delete(IDBKeyRange.bound([this.#project, 0], [this.#project, Math.max(0, number - NUMBERS_KEPT)]));
    if (document !== undefined) transaction.objectStore("documents").put(document.bytes, `${this.#project}/${document.name}`);
    await added(leases.add(text, [this.#project, number]));
    this.#number = number;
  }

  // It was kept together with the lease.
  async commit() {}

  close() {}

  async prepare(name, bytes) {
    return { name, bytes };
  }

  async discard() {}

  load(name) {
    return this.#database.document(`${this.#project}/${name}`);
  }
}

// Which of the two places the tabs of this origin use.
class Place {
  #database = new Database();

  read() {
    return this.#database.document(PLACE);
  }

  /** Fails with `busy` where it is noted already. */
  async note(place) {
    const transaction = await this.#database.begin("readwrite", ["documents"]);
    await added(transaction.objectStore("documents").add(place, PLACE));
  }
}

class Database {
  #opening;

  async begin(mode, stores) {
    const database = await (this.#opening ??= openDatabase().catch((cause) => {
      this.#opening = undefined;
      throw asRecordError("open", cause);
    }));
    try {
      return database.transaction(stores, mode);
    } catch (cause) {
      // The browser closed the database, for example because its data was cleared: the next call opens it again.
      this.#opening = undefined;
      throw asRecordError(mode === "readonly" ? "read" : "write", cause);
    }
  }

  async document(name) {
    const transaction = await this.begin("readonly", ["documents"]);
    const request = transaction.objectStore("documents").get(name);
    transaction.commit();
    await ended(transaction);
    return request.result;
  }
}

function newestIn(leases, project) {
  return new Promise((resolve, reject) => {
    const request = leases.openCursor(IDBKeyRange.bound([project, 0], [project, Infinity]), "prev");
    // Or it would stay open, and keep writers out, until its page has heard the answer.
    leases.transaction.commit();
    request.onsuccess = () => resolve(request.result === null ? undefined : { key: request.result.key, value: request.result.value });
    request.onerror = () => reject(asRecordError("read", request.error));
  });
}

/** Settles when the last request of a transaction, an `add`, is kept together with the others; `busy`: its key was taken. */
async function added(request) {
  const { transaction } = request;
  // What the transaction says of a failure is different everywhere; the request says the same.
  let lost = false;
  request.onerror = () => (lost = request.error?.name === "ConstraintError");
  transaction.commit();
  try {
    await ended(transaction);
  } catch (cause) {
    throw lost ? new RecordError("busy", STEPS.busy, cause) : cause;
  }
  if (lost) throw new RecordError("busy", STEPS.busy);
}

function ended(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => {
      const { error, mode } = transaction;
      reject(asRecordError(mode === "readonly" ? "read" : "write", error));
    };
  });
}

function openDatabase() {
  // A browser that forbids storage throws at once, which rejects the promise too.
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("leases");
      request.result.createObjectStore("documents");
    };
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
  });
}

async function attempt(step, work) {
  try {
    return await work();
  } catch (cause) {
    throw asRecordError(step, cause);
  }
}

function asRecordError(step, cause) {
  if (cause instanceof RecordError) return cause;
  return new RecordError(step, `${STEPS[step]}: ${cause?.message ?? cause}`, cause);
}
