/** `syncline-bookshelf`: the cover URLs a page remembers. */

import { SynclineError } from "../wasm.js";
import type { InitInput, WasmSource } from "../wasm.js";

export { SynclineError };
export type { InitInput, WasmSource };

/** Options of {@link openCoverCache}. */
export interface CoverCacheOptions {
  /** Where covers are kept. Default: `localStorage`, and memory where there is none; `null`: memory alone. */
  storage?: Storage | null;
  /** Where the WASM module is. Default: `syncline_covers_bg.wasm` beside this file. */
  wasmUrl?: string | URL;
  /**
   * Hears `quota-exceeded`, which is retryable, because covers are written when there is room again, and `storage-failed`.
   * Without it, the console does. The cache works on in memory.
   */
  onError?: (error: SynclineError) => void;
}

/** Cover URLs by ISBN: 2 MiB of localStorage at most, the oldest go first. */
export interface CoverCache {
  /** How many covers are remembered: some 95,000 of NDL, 72,000 of Rakuten or 58,000 of Google fit. */
  readonly size: number;
  /** What they take in localStorage, at two bytes per character. */
  readonly storedBytes: number;
  /** The cover of a book, by ISBN-13 or ISBN-10, with or without hyphens. */
  get(isbn: string): string | undefined;
  /**
   * Remembers a cover as the newest. It is written when the page has time, and before it goes.
   *
   * @throws {SynclineError} `invalid-argument`
   */
  set(isbn: string, url: string): void;
  /** Forgets a cover; tells whether there was one. */
  delete(isbn: string): boolean;
  clear(): void;
  /** Writes at once; tells whether all is in localStorage now. */
  flush(): boolean;
  /** Writes at once and stops listening to other tabs. */
  close(): void;
}

/**
 * Opens the covers this origin remembers. Tabs may do so at the same time: each takes up what the others write.
 *
 * @throws {SynclineError} (as a rejection) `invalid-argument`, `wasm-blocked` or `wasm-load-failed`
 */
export function openCoverCache(options?: CoverCacheOptions): Promise<CoverCache>;

/**
 * Loads the WASM module into this page or worker, ahead of {@link openCoverCache}, which otherwise does it.
 *
 * Calls made at the same time share one download, and once it has succeeded further calls return at once and ignore
 * `input`. After a failure it can be called again.
 *
 * @param input defaults to `syncline_covers_bg.wasm` beside this file
 * @throws {SynclineError} (as a rejection) `wasm-blocked` or `wasm-load-failed`
 */
export function init(input?: InitInput | Promise<InitInput>): Promise<void>;

/**
 * The same from bytes or a compiled module that are already here, for workers and for Node. It blocks the thread while it
 * compiles; prefer {@link init} in pages.
 *
 * @throws {SynclineError} `wasm-blocked` or `wasm-load-failed`
 */
export function initSync(module: WasmSource): void;

/**
 * The version of the rules in the WASM module, such as `"0.1.0"`.
 *
 * @throws {SynclineError} `not-initialized` before {@link init} has succeeded
 */
export function version(): string;
