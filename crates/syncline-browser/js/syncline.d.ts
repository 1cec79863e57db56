/**
 * Syncline in the browser. Written by hand; checked against real use by `web/types`.
 *
 * Importing this module does nothing but define: it is safe in Node, during server-side rendering and in a service worker.
 */

/**
 * What can go wrong. The words are stable; messages are for people and may change.
 *
 * | code | retryable | meaning and remedy |
 * |---|---|---|
 * | `invalid-argument` | no | An option has the wrong type or form; the message names it. |
 * | `unsupported-environment` | no | There is no page or no `Worker` here, for example while rendering on a server. |
 * | `not-initialized` | no | The function needs `await init()` first. |
 * | `wasm-blocked` | no | The browser or the Content-Security-Policy forbids WASM: allow `'wasm-unsafe-eval'` in `script-src`. |
 * | `wasm-load-failed` | mostly | The `.wasm` file could not be fetched (retryable) or is not what it should be (not retryable). |
 * | `worker-blocked` | no | The worker script is missing, on another origin, or forbidden by `worker-src`. |
 * | `ping-failed` | yes | A heartbeat got no answer. The next one is sent all the same. |
 * | `ping-refused` | by status | A heartbeat was answered with an error status; retryable for 408, 429 and 5xx. The next one is sent all the same. |
 * | `stopped` | no | The viewer was stopped before it had a session id, or the queue was closed. |
 * | `task-failed` | no | {@link Queue.result}: the work ended without a result; the message says why. |
 * | `task-dead` | yes | {@link Queue.result}: all attempts were used up. {@link Queue.retryDead} gives the key new ones. |
 * | `unknown-key` | no | {@link Queue.result}: the key was never enqueued, was removed, or its result made room for newer ones. |
 * | `queue-full` | yes | The queue holds `maxKeys` keys; it took none of the new ones. |
 * | `queue-taken` | yes | Another tab runs the kept queue now; this one follows it. |
 * | `storage-failed` | mostly | IndexedDB or localStorage failed or is forbidden here. |
 * | `quota-exceeded` | by place | The browser gives this page no more room; retryable for covers, which are written when there is room. |
 * | `internal` | no | A defect in Syncline; the message holds what is known about it. |
 */
export type SynclineErrorCode =
  | "invalid-argument"
  | "unsupported-environment"
  | "not-initialized"
  | "wasm-blocked"
  | "wasm-load-failed"
  | "worker-blocked"
  | "ping-failed"
  | "ping-refused"
  | "stopped"
  | "task-failed"
  | "task-dead"
  | "unknown-key"
  | "queue-full"
  | "queue-taken"
  | "storage-failed"
  | "quota-exceeded"
  | "internal";

/** Every failure of this package, thrown or reported. */
export class SynclineError extends Error {
  constructor(code: SynclineErrorCode, message: string, options?: { retryable?: boolean; cause?: unknown });
  readonly name: "SynclineError";
  /** The stable word for what went wrong. */
  readonly code: SynclineErrorCode;
  /** Whether the same call may succeed later without a change on your side. */
  readonly retryable: boolean;
  /** What caused it, where that is known. Errors that happened in the worker carry its text. */
  readonly cause?: unknown;
}

/**
 * The module's bytes, or the compiled module. (`& object`, because the interface `WebAssembly.Module` is empty and would
 * accept any value.)
 */
export type WasmSource = BufferSource | (WebAssembly.Module & object);

/** Where the WASM module comes from: an address, a response, its bytes, or the compiled module. */
export type InitInput = string | URL | Request | Response | WasmSource;

/**
 * Loads the WASM module into this page or worker. Needed before {@link version}; not needed for {@link startViewer},
 * whose worker loads its own, nor for {@link createQueue} and {@link openCoverCache}, which load it themselves.
 *
 * Calls made at the same time share one download, and once it has succeeded further calls return at once and ignore
 * `input`. After a failure it can be called again.
 *
 * @param input defaults to `syncline_wasm_bg.wasm` beside this file
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

/** Options of {@link startViewer}. Relative addresses count from the page, as in a link. */
export interface ViewerOptions {
  /** Where heartbeats go, by `POST`. Default: `/api/viewer`. */
  endpoint?: string | URL;
  /** Where the worker script is. Default: `viewer-worker.js` beside this file. Must be on the page's own origin. */
  workerUrl?: string | URL;
  /** Where the WASM module is. Default: `syncline_wasm_bg.wasm` beside the worker script. */
  wasmUrl?: string | URL;
  /**
   * Hears of every failure. After `ping-failed` and `ping-refused` the next heartbeat is sent all the same, and a
   * `wasm-load-failed` that is retryable is tried again after 30 seconds. All others have ended the viewer;
   * `startViewer` may then be called again.
   *
   * Without a listener, failures that are not retryable go to the console as a warning.
   */
  onError?: (error: SynclineError) => void;
  /** Aborting it is the same as calling {@link ViewerHandle.stop}. */
  signal?: AbortSignal;
}

/** One caller's hold on the running viewer. */
export interface ViewerHandle {
  /**
   * The id under which the server counts this page. Rejects with a {@link SynclineError} if the viewer ends before it
   * has one; nothing needs to catch that, it does not become an unhandled rejection.
   */
  readonly sessionId: Promise<string>;
  /**
   * Lets go. When the last holder of this endpoint has let go, the server is told (`bye`) and the worker ends. Calling
   * it again does nothing. It needs no `this`, so it can be handed on as it is.
   */
  readonly stop: () => void;
}

/**
 * Tells the server that somebody has this page open: a heartbeat at once and every 30 seconds from a worker (which
 * browsers do not slow down in hidden tabs), whether the page is visible, a `bye` when it closes, and again a heartbeat
 * when it returns from the back/forward cache. Works on plain `http://` too.
 *
 * Calling it again for the same endpoint joins the viewer that is running; the other options of a later call, except
 * `onError` and `signal`, are then ignored.
 *
 * @throws {SynclineError} `invalid-argument` or `unsupported-environment`; everything else goes to `onError`
 */
export function startViewer(options?: ViewerOptions): ViewerHandle;

/** How a lease is kept: with a Web Lock, with the lease file alone, or on plain `http://` in IndexedDB. */
export type ProjectLockSource = "web-lock" | "opfs-lock" | "idb-lock";

/** The right to be the only one, for a while. Plain JSON. */
export interface ProjectLockLease {
  /** A UUID, new for each grant. */
  readonly leaseId: string;
  /** When it ends unless it is renewed, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly source: ProjectLockSource;
}

/** The pauses between attempts: each is `multiplier` times the one before, `maxDelayMs` at most. */
export interface LockRetryPolicy {
  /** Default: 200. */
  readonly initialDelayMs?: number;
  /** Default: 5000. */
  readonly maxDelayMs?: number;
  /** Default: 2. */
  readonly multiplier?: number;
  /** Attempts in all. Default: `Infinity`. */
  readonly maxAttempts?: number;
}

/** Options of {@link acquireProjectLock} and {@link withProjectLock}. */
export interface ProjectLockAcquireOptions {
  /** Aborting it ends the attempt with `web-lock-aborted`. */
  readonly signal?: AbortSignal;
  /** How long to wait for the Web Lock before asking the lease file. Default: 5000. */
  readonly maxWaitMs?: number;
  readonly retryPolicy?: LockRetryPolicy;
  /** Which project: the folder in OPFS. Letters, digits, `.`, `_`, `@`, `-`, 64 at most. Default: `"project"`. */
  readonly project?: string;
  /** How long the lease lasts without a renewal, 1000 to 60000. Default: 15000. */
  readonly leaseMs?: number;
  /** Use this one alone, where the browser has it: for tests, and where Web Locks are known to misbehave. */
  readonly mechanism?: ProjectLockSource;
  /** Where the worker script is. Default: `lock-worker.js` beside this file. Only the first call in a page counts. */
  readonly workerUrl?: string | URL;
  /** Where the WASM module is. Default: beside the worker script. Only the first call in a page counts. */
  readonly wasmUrl?: string | URL;
}

export interface ProjectLockRenewOptions {
  readonly lease: ProjectLockLease;
  /** From now. 1000 to 60000, default: 15000. */
  readonly extendByMs?: number;
}

export interface ProjectLockReleaseOptions {
  readonly lease: ProjectLockLease;
  readonly reason?: "completed" | "aborted" | "expired";
}

/** What happened to a lock of this page. */
export interface ProjectLockEvent {
  /**
   * The last three are about the place of the record: `record-doubtful` (it made no sense, and counts as held for a
   * minute at most), `storage-low` (little room is left), `storage-denied` (the browser forbids storage).
   */
  readonly type: "acquired" | "acquire-failed" | "renewed" | "expired" | "released" | "release-failed" | "backoff" | "switch-to-fallback" | "record-doubtful" | "storage-low" | "storage-denied";
  readonly lease?: ProjectLockLease;
  readonly error?: ProjectLockError;
  /** With `backoff`: which attempt failed, counted from 1. */
  readonly attempt?: number;
  /** With `backoff`: the pause before the next one. A release of the other tab cuts it short. */
  readonly delayMs?: number;
  readonly project?: string;
  /** When it happened, in milliseconds since 1970. */
  readonly at?: number;
}

export type ProjectLockEventListener = (event: ProjectLockEvent) => void;

export interface ProjectLockSubscription {
  unsubscribe(): void;
}

/**
 * Why a lock operation failed, and whether the same call may succeed later.
 *
 * - `web-lock-unavailable`, retryable: another tab holds the project, or the browser grants no Web Lock, and the
 *   attempts are used up.
 * - `web-lock-aborted`: the signal was aborted.
 * - `fallback-open-failed`: the place of the record cannot be opened, for example because storage is forbidden.
 * - `fallback-read-failed`, `fallback-write-failed`, retryable: the record could not be read, written or removed this time.
 * - `lease-mismatch`: this page holds or wants the project already, or the lease is not the one it holds.
 * - `lease-expired`: the lease has ended. Acquire a new one.
 */
export type ProjectLockErrorCode = "web-lock-unavailable" | "web-lock-aborted" | "fallback-open-failed" | "fallback-read-failed" | "fallback-write-failed" | "lease-mismatch" | "lease-expired";

/** A failure of the project lock. Wrong arguments and a missing worker or WASM module are a {@link SynclineError}. */
export class ProjectLockError extends Error {
  constructor(message: string, params: { code: ProjectLockErrorCode; retryable: boolean; cause?: unknown });
  readonly name: "ProjectLockError";
  readonly code: ProjectLockErrorCode;
  readonly retryable: boolean;
  readonly cause?: unknown;
}

/**
 * Acquires the project for this tab: by Web Lock where there is one, in any case by the lease file `project/.lock` in
 * OPFS, or on plain `http://` by IndexedDB. The lease ends after 15 seconds unless {@link renewProjectLock} extends it;
 * {@link withProjectLock} renews by itself. It also ends when the page is closed, frozen or put into the back/forward
 * cache.
 *
 * @throws {ProjectLockError} when it was aborted, the attempts are used up, or storage is out of order
 */
export function acquireProjectLock(options?: ProjectLockAcquireOptions): Promise<{
  lease: ProjectLockLease;
  /** The Web Lock is no part of it. */
  didFallback: boolean;
}>;

/**
 * Extends a lease from now on.
 *
 * @throws {ProjectLockError} `lease-expired`, `lease-mismatch`, or a retryable one
 */
export function renewProjectLock(options: ProjectLockRenewOptions): Promise<ProjectLockLease>;

/**
 * Gives a lease back, and tells the tabs that wait.
 *
 * @throws {ProjectLockError} `lease-expired`, `lease-mismatch`, or `fallback-write-failed`, after which it may be tried again
 */
export function releaseProjectLock(options: ProjectLockReleaseOptions): Promise<void>;

/**
 * Runs `work` while this tab holds the project, renews the lease from a worker, and gives it back.
 *
 * The signal fires when the lease is lost. Its `aborted` looks at the clocks each time it is read, so code that checks it
 * right before a write is safe even in a tab that was just thawed. Work that ends after the loss is answered with
 * `lease-expired`, whatever it returned.
 */
export function withProjectLock<T>(
  options: ProjectLockAcquireOptions | undefined,
  work: (lease: ProjectLockLease, signal: AbortSignal) => Promise<T>,
): Promise<T>;

/** Hears of everything that happens to the locks of this page. A listener that throws harms nobody. */
export function subscribeLockEvents(listener: ProjectLockEventListener): ProjectLockSubscription;

/**
 * How a key asks to be put into a queue.
 *
 * - `new`: at the tail, unless the queue knows the key: nothing is asked twice.
 * - `retry`: next, without waiting for its delay, if the key is to be retried.
 * - `priority`: next, also if the key waits further back.
 * - `again`: one more run that starts after this moment, also if the key runs right now or has a result.
 */
export type QueueKind = "new" | "retry" | "priority" | "again";

/** Where a key is. */
export type QueueState = "waiting" | "running" | "retrying" | "done" | "failed" | "dead";

/** What a worker function is told beside its key. */
export interface QueueContext {
  /** Aborted when `timeoutMs` is over or the queue is closed: hand it to `fetch`. */
  readonly signal: AbortSignal;
  /** Which attempt this is, counted from 1. */
  readonly attempt: number;
}

/** Options of {@link createQueue}. */
export interface QueueOptions<R> {
  /** What the queue is called; needed with `persist`. */
  name?: string;
  /**
   * The work. What it returns is the key's result. It may also
   * - throw {@link RetryLater}, or return or throw a `Response` with status 429: the whole queue waits as long as it says,
   *   and the key comes back;
   * - throw an error with `retryable: true`, a time-out, what `fetch` throws without an answer, or a `Response` with
   *   status 408 or 5xx: the key comes back, and after `breakerAfter` of these in a row the whole queue pauses and then
   *   tries one call;
   * - throw anything else, or return any other `Response` that is not ok: the key has failed.
   *
   * It need not be asynchronous: a plain function is called without the cost of a promise.
   */
  run: (key: string, context: QueueContext) => R | Response | Promise<R | Response>;
  /** Most calls at once. Default: 1. */
  concurrency?: number;
  /** Least time from the end of the last call to the next start; with several at once, between starts too. Default: 0. */
  intervalMs?: number;
  /** Least time before a key comes back; it doubles with each attempt up to 30 s, with some chance in it. Default: 1,000. */
  retryDelayMs?: number;
  /** Attempts a key has before it goes to the dead list. Default: 10. */
  maxAttempts?: number;
  /** How long a call may take. Default: 20,000. */
  timeoutMs?: number;
  /** Failures in a row after which the whole queue pauses. Default: 5. */
  breakerAfter?: number;
  /** Most keys that wait, run, retry or are dead. Default: 1,000,000. */
  maxKeys?: number;
  /** Most results kept; the oldest go first. Default: 1,000,000. */
  maxResults?: number;
  /**
   * Keeps the queue in IndexedDB: after a reload or a crash, waiting and finished work is there again. All tabs of the
   * origin that open a queue of this name share it: one runs it, the others follow and take over. Results must then be
   * plain values (what `structuredClone` can copy). Default: false.
   *
   * Guaranteed: a call is made after its start was kept, a result is told after it was kept, and no key whose result
   * was kept is run again. A call that a crash cut off is made again, so the work should be safe to repeat.
   */
  persist?: boolean;
  /** Start paused. Default: false. */
  paused?: boolean;
  /** Where the WASM module is. Default: beside this file. */
  wasmUrl?: string | URL;
  /** Hears that keeping failed; without it, the console does. */
  onError?: (error: SynclineError) => void;
}

/** What became of the keys of one {@link Queue.enqueue}. */
export interface QueueEnqueued {
  /** Newly in line. */
  added: number;
  /** Were in line and moved up. */
  moved: number;
  /** Are running and will run once more. */
  again: number;
  /** Were where they should be. */
  ignored: number;
}

/** How a queue stands. Times are milliseconds since 1970, as of `Date.now()`. */
export interface QueueStatus {
  waiting: number;
  running: number;
  retrying: number;
  /** Keys that ever ended with a result, and without one. */
  done: number;
  failed: number;
  dead: number;
  /** Keys that ended per second, of late. */
  ratePerSec: number;
  /** How long it will take at this rate; null when there is no telling. */
  leftMs: number | null;
  nextCallAt: number | null;
  nextRetryAt: number | null;
  /** Why nothing is called: somebody called `pause()`, the API asked for it, or it keeps failing. */
  paused: { until: number | null; reason: "asked" | "retry-after" | "breaker" } | null;
  waitsFor: "retry-after" | "breaker" | "interval" | "busy" | "probing" | null;
  breaker: "closed" | "open" | "probing";
  /** Whether the calls are made in this tab. */
  runsHere: boolean;
}

/** One key with what is known of it. */
export interface QueueEntry<R> {
  key: string;
  state: QueueState;
  attempts: number;
  /** Of a key that is done. */
  result?: R;
  /** Of a key that failed or is dead. */
  reason?: string;
}

/** What a listener hears. */
export type QueueEvent<R> =
  | { type: "settled"; key: string; state: "done"; result: R }
  /** A run ended without a result; `waiting` and `retrying` keys come back. */
  | { type: "settled"; key: string; state: "failed" | "dead" | "retrying" | "waiting"; reason: string }
  /** Kept queues only, a few times a second at most: look at {@link Queue.status} again. */
  | { type: "status" };

/** Keyed work at a pace. Failures of every method are rejections with a {@link SynclineError}. */
export interface Queue<R> {
  readonly name: string;
  /** Resolves when the queue is open. Nothing needs to wait for it: every operation does. */
  readonly ready: Promise<void>;
  /** Puts keys into the line. With `persist`, resolves when that is kept. */
  enqueue(keys: string | Iterable<string>, options?: { kind?: QueueKind }): Promise<QueueEnqueued>;
  /** The key's result, as soon as it is there. Rejects with `task-failed`, `task-dead` or `unknown-key`. */
  result(key: string): Promise<R>;
  /** Ends keys that are in line by results from elsewhere; tells how many those were. */
  dequeue(results: Iterable<readonly [string, R]> | Record<string, R>): Promise<number>;
  /** Gives these dead keys, or all, their attempts once more; tells how many those were. */
  retryDead(keys?: string | Iterable<string>): Promise<number>;
  /** Forgets keys wherever they are; tells how many those were. */
  remove(keys: string | Iterable<string>): Promise<number>;
  /** Up to `limit` (100) keys in this state: those in line in their order, the others newest first. */
  keys(state: QueueState, options?: { limit?: number }): Promise<QueueEntry<R>[]>;
  /** How it stands, at once. */
  status(): QueueStatus;
  /** Calls `listener` for everything that ends, until the returned function is called. */
  subscribe(listener: (event: QueueEvent<R>) => void): () => void;
  /** Starts nothing new; what runs goes on. Kept with the queue. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Resolves when nothing waits, runs or is to be retried. */
  idle(): Promise<void>;
  /** Aborts what runs and lets go. With `persist`, it is all there again the next time. */
  close(): Promise<void>;
}

/**
 * A queue of distinct keys that are worked on at the pace an API allows: a key that is known is not asked for again, a 429
 * holds the whole queue for the time the API names, failures come back with growing delays, and what never works ends on
 * a list that can be retried. The rules are the very ones that a Syncline node runs.
 *
 * ```js
 * const queue = createQueue({
 *   name: "prices",
 *   intervalMs: 500,
 *   persist: true,
 *   run: async (key, { signal }) => {
 *     const response = await fetch(`/api/price/${key}`, { signal });
 *     return response.ok ? response.json() : response;
 *   },
 * });
 * await queue.enqueue(["apples", "pears"]);
 * const price = await queue.result("apples");
 * ```
 *
 * @throws {SynclineError} `invalid-argument`
 */
export function createQueue<R>(options: QueueOptions<R>): Queue<Exclude<R, Response>>;

/** Thrown by a worker function: the API asks for fewer calls. The whole queue waits `afterMs`, and the key comes back. */
export class RetryLater extends Error {
  /** @param afterMs how long the API asks to be left alone; without it, the queue's own delay counts */
  constructor(afterMs?: number, message?: string);
  readonly name: "RetryLater";
  readonly afterMs: number | undefined;
}

/** Options of {@link openCoverCache}. */
export interface CoverCacheOptions {
  /** Where covers are kept. Default: `localStorage`, and memory where there is none; `null`: memory alone. */
  storage?: Storage | null;
  /** Where the WASM module is. Default: beside this file. */
  wasmUrl?: string | URL;
  /** Hears `quota-exceeded` and `storage-failed`; without it, the console does. The cache works on in memory. */
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

/** Options of {@link openAutoSave}; those of the lock mean the same as there. */
export interface AutoSaveOptions extends Omit<ProjectLockAcquireOptions, "maxWaitMs"> {
  /** The document's file in the project's folder. Default: `"document.json"`. */
  readonly file?: string;
  /** Whether another tab may have the project for the asking. Default: true. */
  readonly allowTakeOver?: boolean;
}

/**
 * - `opening`: nothing is known yet
 * - `saved`, `saving`: this tab holds the project, and all changes are stored or will be in a moment
 * - `unsaved`: storing failed, and is tried again
 * - `read-only`: another tab holds the project; what it saves appears in `text`
 * - `taken-over`: the same, and it took the project from this tab
 * - `lost`: the lease was lost; nothing is saved until there is a new one
 * - `conflict`: stored and typed text have both changed: call `resolve`
 * - `closed`
 */
export type AutoSaveStatus = "opening" | "saved" | "saving" | "unsaved" | "read-only" | "taken-over" | "lost" | "conflict" | "closed";

export interface AutoSaveState {
  readonly status: AutoSaveStatus;
  /** This tab holds the project. */
  readonly heldHere: boolean;
  /** Whoever holds it, as far as known, and since when. */
  readonly holder?: ProjectLockLease & { readonly since?: number };
  /** When this tab last stored something, in milliseconds since 1970. */
  readonly savedAt?: number;
  /** The number of the stored version; 0: there is none. */
  readonly stamp: number;
  /** What went wrong last, while it still matters. */
  readonly problem?: string;
  /** `text` was replaced by what another tab, or an earlier page, wrote. */
  readonly adopted?: true;
}

/** Something that happened: an event of the lock, or of the document. */
export type AutoSaveEntry =
  | ProjectLockEvent
  | { readonly type: "saved"; readonly at: number; readonly stamp: number }
  | { readonly type: "lost"; readonly at: number; readonly loss: "expired" | "taken-over" | "hidden" }
  | { readonly type: "conflict" | "recovered"; readonly at: number };

/** A document that saves itself. Its methods need no `this`. */
export interface AutoSave {
  /** Settles when the stored text is there. */
  readonly ready: Promise<void>;
  readonly text: string;
  readonly state: AutoSaveState;
  /** The last 200 things that happened, the newest last. */
  readonly history: readonly AutoSaveEntry[];
  /** The new text, 4 million characters at most. False: this tab may not change it. */
  readonly change: (text: string) => boolean;
  /** Stores what is not stored yet, without waiting for a pause. Rejects with a {@link ProjectLockError} if it cannot. */
  readonly flush: () => Promise<void>;
  /**
   * Asks the tab that holds the project for it: that tab stores its last change, gives way, and becomes read-only. A tab
   * that does not answer is followed when its lease has ended. Rejects if the holder keeps it.
   */
  readonly takeOver: () => Promise<void>;
  /** Ends a `conflict`. */
  readonly resolve: (which: "mine" | "theirs") => void;
  readonly subscribe: (listener: (state: AutoSaveState) => void) => { unsubscribe(): void };
  /** Stores, gives the project back, and ends. */
  readonly close: () => Promise<void>;
}

/**
 * Opens a document of the project that is saved by itself while this tab holds the project: half a second after the last
 * change, five seconds after the first. A crash leaves the old version or the new one. A tab that does not hold the
 * project is read-only, shows what the holder saves, and takes over when the holder goes.
 *
 * @throws {SynclineError} `invalid-argument`, `unsupported-environment` or `worker-blocked`
 */
export function openAutoSave(options?: AutoSaveOptions): AutoSave;
