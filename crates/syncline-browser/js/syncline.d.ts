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
 * | `stopped` | no | The viewer was stopped before it had a session id. |
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
 * whose worker loads its own.
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
