/** The one error type of the package. Documentation of the whole: syncline.d.ts. */

/**
 * What can go wrong. The words are stable; messages are for people and may change.
 *
 * | code | retryable | meaning and remedy |
 * |---|---|---|
 * | `invalid-argument` | no | An option has the wrong type or form; the message names it. |
 * | `unsupported-environment` | no | There is no page or no `Worker` here, for example while rendering on a server. |
 * | `not-initialized` | no | The function needs `await init()` of its system first. |
 * | `wasm-blocked` | no | The browser or the Content-Security-Policy forbids WASM: allow `'wasm-unsafe-eval'` in `script-src`. |
 * | `wasm-load-failed` | mostly | A `.wasm` file or a script of the package could not be fetched (retryable), or the module is not what it should be (not retryable). |
 * | `worker-blocked` | no | The worker script is missing, on another origin, or forbidden by `worker-src` or `trusted-types`. |
 * | `ping-failed` | yes | A heartbeat got no answer. The next one is sent all the same. |
 * | `ping-refused` | by status | A heartbeat was answered with an error status; retryable for 408, 429 and 5xx. The next one is sent all the same. |
 * | `secret-key` | no | A `token` is a secret key (`slk_…`), which belongs on servers. Take a publishable key (`slp_…`), or a function that asks your back end. |
 * | `needs-auth` | no | A node wants another credential; `reason` is its stable word and `grant` what is missing. |
 * | `refused` | by status | {@link NodeClient.call}: the node refused; `reason` is its stable word. |
 * | `unreachable` | yes | {@link NodeClient.call}: the node did not answer, or no token came. |
 * | `stopped` | no | The viewer was stopped before it had a session id, or the queue or the state was closed. |
 * | `task-failed` | no | {@link Queue.result}: the work ended without a result; the message says why. |
 * | `task-dead` | yes | {@link Queue.result}: all attempts were used up. {@link Queue.retryDead} gives the key new ones. |
 * | `unknown-key` | no | {@link Queue.result}: the key was never enqueued, was removed, or its result made room for newer ones. |
 * | `queue-full` | yes | The queue holds `maxKeys` keys; it took none of the new ones. |
 * | `answer-lost` | yes | The tab that ran the kept queue carried out what was asked, and was gone before it could say so. |
 * | `queue-taken` | yes | Another tab runs the kept queue now; this one follows it. |
 * | `storage-failed` | mostly | IndexedDB or localStorage failed, did not answer in time, or is forbidden here. |
 * | `quota-exceeded` | no | The browser gives this page no more room. |
 * | `invalid-value` | no | {@link State.put}: the value cannot be stored; `fields` has the path of what is wrong. |
 * | `invalid-settings` | no | {@link State.setSettings}: `fields` names every wrong field. |
 * | `state-full` | no | {@link State.put}: there are 200,000 entities. |
 * | `busy` | yes | {@link State}: 10,000 operations wait to be stored. |
 * | `codec-failed` | mostly | {@link State.put}: `codec.encode` failed, or did not answer in time. |
 * | `newer-schema` | no | {@link State.ready}: what is stored follows a newer `schemaVersion` than yours. |
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
  | "secret-key"
  | "needs-auth"
  | "refused"
  | "unreachable"
  | "stopped"
  | "task-failed"
  | "task-dead"
  | "unknown-key"
  | "queue-full"
  | "answer-lost"
  | "queue-taken"
  | "storage-failed"
  | "quota-exceeded"
  | "invalid-value"
  | "invalid-settings"
  | "state-full"
  | "busy"
  | "codec-failed"
  | "newer-schema"
  | "internal";

/** Every failure of this package, thrown or reported. */
export class SynclineError extends Error {
  constructor(code: SynclineErrorCode, message: string, options?: { retryable?: boolean; cause?: unknown; fields?: readonly FieldProblem[]; reason?: string; grant?: string });
  readonly name: "SynclineError";
  /** The stable word for what went wrong. */
  readonly code: SynclineErrorCode;
  /** Whether the same call may succeed later without a change on your side. */
  readonly retryable: boolean;
  /** What caused it, where that is known. Errors that happened in the worker carry its text. */
  readonly cause?: unknown;
  /** With `invalid-value` and `invalid-settings`: what is wrong, and where. */
  readonly fields?: readonly FieldProblem[];
  /** With `needs-auth` and `refused`: the node's stable word, such as `token-revoked` or `forbidden`. */
  readonly reason?: string;
  /** With `needs-auth`: the grant that is missing, such as `lock:doc:1:hold`. */
  readonly grant?: string;
}

/** A field, by its name or path (`list.1.due`), and what is wrong with it. */
export interface FieldProblem {
  readonly field: string;
  readonly problem: string;
}
