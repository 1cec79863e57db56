/** `syncline/run-worker`: a worker of a node's queue, for Node.js, Bun and Deno. It needs no WASM. */

import { SynclineError } from "./errors.js";

export { SynclineError };

/** A key to work on. */
export interface WorkerTask<Input = any> {
  readonly key: string;
  /** What the key was given when it was added. */
  readonly input: Input | undefined;
  /** The group it belongs to, where it was given one. */
  readonly group: string | undefined;
  /** Which attempt it is, counted from 1. */
  readonly attempt: number;
  /** Aborted when the lease is lost, or the key was removed: nobody wants the answer any more. */
  readonly signal: AbortSignal;
}

/** Options of {@link runWorker}. */
export interface WorkerOptions<Input = any> {
  /** The node's address. Default: `http://127.0.0.1:3000`. */
  url?: string | URL;
  /** A key with the grant `queue:NAME:work`, or a function that gives one. */
  token?: string | (() => string | null | Promise<string | null>);
  /** The queue; it is declared with `workers = true`. */
  queue: string;
  /** Does the work. What it returns is the key's result; what it throws brings the key back, unless a {@link TaskFailure} says otherwise. */
  run: (task: WorkerTask<Input>) => unknown;
  /** Keys worked on at once. Default: 1. */
  concurrency?: number;
  /** How long a key stays ours when this process dies. Default: the queue's `timeout_sec`. */
  leaseMs?: number;
  /** Hears of everything that went wrong between this worker and the node. */
  onError?: (error: SynclineError) => void;
}

/** A running worker. */
export interface RunningWorker {
  /** Takes no more keys; settles once those under way have ended. */
  readonly stop: () => Promise<void>;
  /** Settles when the worker has ended; rejects if the node refused it for good. */
  readonly ended: Promise<void>;
}

/** Works on the keys of a queue until it is stopped. */
export function runWorker<Input = any>(options: WorkerOptions<Input>): RunningWorker;

/** Thrown by `run` to say what to make of a failure. */
export class TaskFailure extends Error {
  /**
   * `error` (default): the key comes back. `refused`: it never will work. `throttled`: the whole queue rests for `retryAfterMs`.
   * `outage`: what the work needs is away; no attempt is counted.
   */
  constructor(reason: string, options?: { cause?: "error" | "refused" | "throttled" | "outage"; retryAfterMs?: number });
}
