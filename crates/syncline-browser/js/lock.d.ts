/** `syncline/lock`: one tab at a time. */

import { SynclineError } from "./errors.js";

export { SynclineError };

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

/**
 * The pauses between attempts: each is `multiplier` times the one before, `maxDelayMs` at most. Without a policy: 200, 5000, 2,
 * `Infinity`.
 */
export interface LockRetryPolicy {
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly multiplier: number;
  /** Attempts in all. */
  readonly maxAttempts: number;
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
  /** Where the WASM module is. Default: `syncline_lock_bg.wasm` beside the worker script. Only the first call in a page counts. */
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
