// The covers a page remembers, in localStorage. Types and documentation: covers.d.ts.
//
// Guarantees: never more than 2 MiB, the oldest goes first, a change costs no more than its own segment. Writes are
// gathered and made when the page has time, and before it goes. A full or forbidden localStorage costs what was not
// written, never a page: the cache goes on in memory. What is kept and how is decided by the rules (WASM).

import { SynclineError, wasmModule } from "../wasm.js";
import instantiate, {
  CoverCache as Rules,
  Told,
  initSync as instantiateSync,
  version as rulesVersion,
} from "./syncline_covers.js";

export { SynclineError };

const rules = wasmModule({
  instantiate,
  instantiateSync,
  version: rulesVersion,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_covers_bg.wasm", import.meta.url),
});
export const { init, initSync, version } = rules;

// Writes wait for a quiet moment, but no longer than this.
const QUIET_WITHIN_MS = 1_000;
// Changes kept for a reload that another tab may cause; beyond it they are written at once.
const UNWRITTEN_MAX = 4_096;
// What other tabs write is taken up at most this often.
const RELOAD_EVERY_MS = 1_000;

const encoder = new TextEncoder();

export async function openCoverCache(options = {}) {
  if (typeof options !== "object" || options === null) throw invalid("options must be an object");
  const { storage = ownStorage(), wasmUrl, onError } = options;
  if (onError !== undefined && typeof onError !== "function") throw invalid("onError must be a function");
  await init(wasmUrl);
  return new CoverCache(storage ?? undefined, onError);
}

class CoverCache {
  #rules = new Rules();
  #prefix = this.#rules.keyPrefix;
  // Where texts go on their way to the rules. The memory moves when it grows, the places in it do not.
  #isbnAt = this.#rules.isbnAt;
  #urlAt = this.#rules.urlAt;
  #urlEnd = this.#rules.urlEnd;
  #isbn = new Uint8Array(0);
  #url = this.#isbn;
  #storage;
  #onError;
  // What was set or deleted since the last write: `undefined` for deleted.
  #unwritten = new Map();
  // Items that localStorage had no room for.
  #refused = new Map();
  #isStale = false;
  #loadedAt = -Infinity;
  #cancelWrite;
  #listening = new AbortController();

  constructor(storage, onError) {
    this.#storage = storage;
    this.#onError = onError;
    if (storage === undefined) return;
    this.#load();
    if (typeof window === "undefined") return;
    const { signal } = this.#listening;
    addEventListener("pagehide", () => this.flush(), { signal });
    addEventListener("storage", ({ key }) => (this.#isStale ||= key === null || key.startsWith(this.#prefix)), { signal });
  }

  get size() {
    this.#refresh();
    return this.#rules.size;
  }

  get storedBytes() {
    return this.#rules.storedBytes;
  }

  get(isbn) {
    this.#refresh();
    return this.#rules.get(`${isbn}`);
  }

  set(isbn, url) {
    this.#refresh();
    const told = this.#set(`${isbn}`, `${url}`);
    if (told === Told.NoIsbn) throw invalid(`${JSON.stringify(isbn)} is not an ISBN`);
    if (told === Told.NoCover) throw invalid(`${JSON.stringify(url)} is not an http or https URL that can be a cover`);
    this.#changed(isbn, url);
  }

  delete(isbn) {
    this.#refresh();
    const was = this.#rules.delete(`${isbn}`);
    if (was) {
      this.#changed(isbn, undefined);
    }
    return was;
  }

  clear() {
    this.#refresh();
    this.#rules.clear();
    this.#unwritten.clear();
    this.#writeSoon();
  }

  // Tells whether everything is in localStorage now.
  flush() {
    this.#cancelWrite?.();
    this.#cancelWrite = undefined;
    if (this.#storage === undefined) return false;
    for (let left = this.#rules.flush(); left > 0; left--) this.#refused.set(this.#rules.nextKey, this.#rules.takeText());
    this.#unwritten.clear();
    for (const [key, text] of this.#refused) {
      try {
        if (text === "") this.#storage.removeItem(key);
        else this.#storage.setItem(key, text);
      } catch (cause) {
        this.#report(cause);
        return false;
      }
      this.#refused.delete(key);
    }
    return true;
  }

  close() {
    this.flush();
    this.#listening.abort();
  }

  #load() {
    try {
      for (let index = 0; index < this.#storage.length; index++) {
        const key = this.#storage.key(index);
        if (key.startsWith(this.#prefix)) this.#rules.add(key, this.#storage.getItem(key) ?? "");
      }
    } catch (cause) {
      this.#report(cause);
      this.#storage = undefined;
    }
    this.#rules.load();
    this.#loadedAt = performance.now();
  }

  // Takes up what another tab wrote, keeping what this one has not written yet.
  #refresh() {
    if (!this.#isStale || performance.now() - this.#loadedAt < RELOAD_EVERY_MS) return;
    this.#isStale = false;
    this.#load();
    for (const [isbn, url] of this.#unwritten) {
      if (url === undefined) this.#rules.delete(isbn);
      else this.#set(isbn, url);
    }
  }

  // The texts are written where the rules read them: passing them as texts would cost more than all else.
  #set(isbn, url) {
    if (this.#isbn.length === 0) {
      const { buffer } = rules.heap();
      this.#isbn = new Uint8Array(buffer, this.#isbnAt, this.#urlAt - this.#isbnAt);
      this.#url = new Uint8Array(buffer, this.#urlAt, this.#urlEnd - this.#urlAt);
    }
    const isbnIn = encoder.encodeInto(isbn, this.#isbn);
    if (isbnIn.read < isbn.length) return Told.NoIsbn;
    const urlIn = encoder.encodeInto(url, this.#url);
    return urlIn.read < url.length ? Told.NoCover : this.#rules.set(isbnIn.written, urlIn.written);
  }

  // Without a storage nobody else can change anything, and there is nothing to remember.
  #changed(isbn, url) {
    if (this.#storage === undefined) return;
    this.#unwritten.set(`${isbn}`, url === undefined ? undefined : `${url}`);
    if (this.#unwritten.size < UNWRITTEN_MAX) this.#writeSoon();
    else this.flush();
  }

  #writeSoon() {
    if (this.#storage === undefined || this.#cancelWrite !== undefined) return;
    if (typeof requestIdleCallback === "function") {
      const handle = requestIdleCallback(() => this.flush(), { timeout: QUIET_WITHIN_MS });
      this.#cancelWrite = () => cancelIdleCallback(handle);
    } else {
      const handle = setTimeout(() => this.flush(), QUIET_WITHIN_MS);
      this.#cancelWrite = () => clearTimeout(handle);
    }
  }

  #report(cause) {
    const error = explain(cause);
    if (this.#onError !== undefined) queueMicrotask(() => this.#onError(error));
    else console.warn(error);
  }
}

function explain(cause) {
  if (cause?.name === "QuotaExceededError" || cause?.name === "NS_ERROR_DOM_QUOTA_REACHED") {
    return new SynclineError(
      "quota-exceeded",
      "localStorage is full: covers are remembered until the page closes, and written when there is room",
      { retryable: true, cause },
    );
  }
  return new SynclineError(
    "storage-failed",
    `localStorage failed, covers are remembered until the page closes: ${cause?.message ?? cause}`,
    { cause },
  );
}

// Reading the property alone throws where a page may not store anything.
function ownStorage() {
  try {
    return globalThis.localStorage;
  } catch {
    return undefined;
  }
}

function invalid(message) {
  return new SynclineError("invalid-argument", message);
}
