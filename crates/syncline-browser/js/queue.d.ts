/** `syncline/queue`: keyed work at the pace an API allows. */

import { SynclineError } from "./errors.js";
import type { InitInput, WasmSource } from "./wasm.js";

export { SynclineError };
export type { InitInput, WasmSource };

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
  /** The name of the key's group, if it has one. */
  readonly group: string | undefined;
}

/** A key with its group, to be put into a queue. */
export interface QueueTask {
  key: string;
  /** The name of its group: up to 256 characters. Without one, a key that is known keeps its own. */
  group?: string;
}

/** A group that has something to do, or a reason to wait. */
export interface QueueGroup {
  /** Its name; that of keys which were given no group is empty. */
  name: string;
  waiting: number;
  running: number;
  /** Whether somebody paused it. */
  paused: boolean;
  /** Calls in a row that were not answered. */
  failures: number;
  /** When its pace lets it start (milliseconds since 1970), if that depends on time alone. */
  nextCallAt: number | null;
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
  /**
   * Names the group of a key that is put into line without one, such as its host. A queue with groups has a pace for each, inside
   * its own, and they take turns: a group with many keys delays no other. What an API asks for then holds the key's group, not the
   * queue, and so does an API that keeps failing. A key that is in line stays in its group.
   */
  group?: (key: string) => string | null | undefined;
  /** Most calls of a group at once. Default: 1 where the queue says anything of groups; where only keys name them, they just take turns. */
  groupConcurrency?: number;
  /** Least time from the end of a group's last call to its next start; with several at once, between starts too. Default: 0. */
  groupIntervalMs?: number;
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
  /** Where the WASM module is. Default: `syncline_queue_bg.wasm` beside this file. */
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
  /** The name of its group, if it has one. */
  group?: string;
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
  /** Puts keys into the line: texts of 1 to 1,024 characters, none a control character. With `persist`, resolves when that is kept. */
  enqueue(keys: string | QueueTask | Iterable<string | QueueTask>, options?: { kind?: QueueKind; group?: string }): Promise<QueueEnqueued>;
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
  /** Up to `limit` (100) groups that have something to do or a reason to wait. */
  groups(options?: { limit?: number }): Promise<QueueGroup[]>;
  /** Starts nothing new, of the queue or of one group; what runs goes on. Kept with the queue. */
  pause(options?: { group?: string }): Promise<void>;
  /** Goes on; a group does so even before a pause that its API asked for is over. */
  resume(options?: { group?: string }): Promise<void>;
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

/**
 * Loads the WASM module into this page or worker, ahead of {@link createQueue}, which otherwise does it.
 *
 * Calls made at the same time share one download, and once it has succeeded further calls return at once and ignore
 * `input`. After a failure it can be called again.
 *
 * @param input defaults to `syncline_queue_bg.wasm` beside this file
 * @throws {SynclineError} (as a rejection) `wasm-blocked` or `wasm-load-failed`
 */
export function init(input?: InitInput | Promise<InitInput>): Promise<void>;

/**
 * The same from bytes or a compiled module that are already here, for workers and for servers that compile nothing. It blocks the
 * thread while it compiles; prefer {@link init} in pages. Node, Bun and Deno find the module by themselves.
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
