// Where a lease is written down: the file `<project>/.lock` in OPFS, or one row of IndexedDB where there is no OPFS.
//
// Guarantees: what is written between open() and close() replaces what open() read and nothing else: the file is under
// its exclusive access handle, the row is written in one transaction that fails if it has changed. A tab that is killed
// there leaves the old record, the new one or, in the file, a part of it, which the rules take for held by somebody
// unknown. commit() puts a document in place under the same exclusion. Which place it is follows from the platform alone, never from a failure: all tabs of an origin look at the
// same one. What a record means, and when to open it, is left to the rules.

const FILE = ".lock";
// An access handle is open for one or two milliseconds; somebody who waits this long has met a frozen tab or a defect.
const BUSY_MAX_MS = 300;
const BUSY_PAUSE_MS = 4;
const RECORD_MAX_BYTES = 4_096;
const DATABASE = "syncline-lock";
const STEPS = {
  busy: "another tab was faster",
  open: "the storage cannot be opened",
  read: "reading failed",
  write: "writing failed",
};
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

/** Whether this realm can keep files; the same for every tab of an origin. */
export function hasFiles() {
  return typeof navigator.storage?.getDirectory === "function" && typeof FileSystemFileHandle !== "undefined";
}

export function openRecord(project) {
  return hasFiles() ? new FileRecord(project) : new RowRecord(project);
}

class FileRecord {
  #project;
  #folder;
  #handle;

  constructor(project) {
    this.#project = project;
  }

  /** Makes the record ours until close(), and says what is written in it. */
  async open() {
    const folder = await this.#open();
    const deadline = performance.now() + BUSY_MAX_MS;
    for (;;) {
      try {
        // Asked for each time: somebody may have removed the file, and its old handle would then lock nothing.
        this.#handle = await (await folder.getFileHandle(FILE, { create: true })).createSyncAccessHandle();
        break;
      } catch (cause) {
        const busy = cause?.name === "NoModificationAllowedError" || cause?.name === "InvalidStateError";
        if (!busy) throw asRecordError("open", cause);
        if (performance.now() > deadline) throw new RecordError("busy", "another tab has the lease file open", cause);
      }
      await new Promise((resolve) => setTimeout(resolve, BUSY_PAUSE_MS * (1 + Math.random())));
    }
    try {
      const bytes = new Uint8Array(Math.min(this.#handle.getSize(), RECORD_MAX_BYTES));
      this.#handle.read(bytes, { at: 0 });
      return new TextDecoder().decode(bytes);
    } catch (cause) {
      this.close();
      throw asRecordError("read", cause);
    }
  }

  /** Replaces what is written in the open record. */
  write(text) {
    writeAll(this.#handle, new TextEncoder().encode(text));
  }

  /** Puts the document's draft in its place while the record is open: nobody can take the lease meanwhile. */
  async commit({ draft, name }) {
    // A move replaces the old version as a whole, or not at all.
    await attempt("write", () => draft.move(name));
  }

  close() {
    this.#handle?.close();
    this.#handle = undefined;
  }

  /** Writes a new version of a document beside the old one, under a name that no other tab uses. */
  async prepare(name, bytes, unique) {
    const folder = await this.#open();
    return attempt("write", async () => {
      const draft = await folder.getFileHandle(`${name}.${unique}.new`, { create: true });
      const pen = await draft.createSyncAccessHandle();
      try {
        writeAll(pen, bytes);
      } finally {
        pen.close();
      }
      return { draft, name };
    });
  }

  /** Removes a draft that was not committed. */
  async discard({ draft, name }) {
    if (draft.name !== name) await (await this.#open()).removeEntry(draft.name).catch(() => {});
  }

  /** The newest version of a document as bytes; undefined: there is none. */
  async load(name) {
    try {
      const file = await (await (await this.#open()).getFileHandle(name)).getFile();
      return new Uint8Array(await file.arrayBuffer());
    } catch (cause) {
      if (cause?.name === "NotFoundError") return undefined;
      throw asRecordError("read", cause);
    }
  }

  /** Removes drafts that tabs left behind when they died; only the holder may do so. */
  async sweep(name) {
    const folder = await this.#open();
    for await (const entry of folder.keys()) {
      if (entry.startsWith(`${name}.`) && entry.endsWith(".new")) await folder.removeEntry(entry).catch(() => {});
    }
  }

  #open() {
    this.#folder ??= attempt("open", async () =>
      (await navigator.storage.getDirectory()).getDirectoryHandle(this.#project, { create: true }),
    ).catch((error) => {
      this.#folder = undefined;
      throw error;
    });
    return this.#folder;
  }
}

// A transaction that waits for its page would lock everybody out if that page is frozen in between. So none does: the
// record is read in one, and written in another that says all it wants at once and fails if the record has changed. Each
// change is a new row, numbered on; `add` refuses a number that was used, which makes it a compare-and-set.
class RowRecord {
  #project;
  #database;
  #number = 0;

  constructor(project) {
    this.#project = project;
  }

  async open() {
    const asked = [performance.now(), Date.now()];
    const transaction = await this.#begin("readonly", ["leases"]);
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
    const transaction = await this.#begin("readwrite", ["leases", "documents"]);
    const leases = transaction.objectStore("leases");
    leases.add(text, [this.#project, number]);
    leases.delete(IDBKeyRange.bound([this.#project, 0], [this.#project, Math.max(0, number - NUMBERS_KEPT)]));
    if (document !== undefined) transaction.objectStore("documents").put(document.bytes, `${this.#project}/${document.name}`);
    transaction.commit();
    await ended(transaction);
    this.#number = number;
  }

  // It was kept together with the lease.
  async commit() {}

  close() {}

  async prepare(name, bytes) {
    return { name, bytes };
  }

  async discard() {}

  async load(name) {
    const transaction = await this.#begin("readonly", ["documents"]);
    const request = transaction.objectStore("documents").get(`${this.#project}/${name}`);
    await ended(transaction);
    return request.result;
  }

  async sweep() {}

  async #begin(mode, stores) {
    const database = await (this.#database ??= openDatabase().catch((cause) => {
      this.#database = undefined;
      throw asRecordError("open", cause);
    }));
    try {
      return database.transaction(stores, mode);
    } catch (cause) {
      // The browser closed the database, for example because its data was cleared: the next call opens it again.
      this.#database = undefined;
      throw asRecordError(mode === "readonly" ? "read" : "write", cause);
    }
  }
}

function newestIn(leases, project) {
  return new Promise((resolve, reject) => {
    const request = leases.openCursor(IDBKeyRange.bound([project, 0], [project, Infinity]), "prev");
    request.onsuccess = () => resolve(request.result === null ? undefined : { key: request.result.key, value: request.result.value });
    request.onerror = () => reject(asRecordError("read", request.error));
  });
}

function ended(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => {
      const { error, mode } = transaction;
      // The number is taken: another tab was faster.
      const step = error?.name === "ConstraintError" ? "busy" : mode === "readonly" ? "read" : "write";
      reject(asRecordError(step, error));
    };
  });
}

function openDatabase() {
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

function writeAll(handle, bytes) {
  try {
    handle.truncate(0);
    if (handle.write(bytes, { at: 0 }) !== bytes.byteLength) throw new Error("only a part of it fits");
    handle.flush();
  } catch (cause) {
    throw asRecordError("write", cause);
  }
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
