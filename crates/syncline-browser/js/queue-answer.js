// What a queue's worker function brought, as the rules want to hear it, and as whoever asks for it does.
//
// Guarantees: whatever was returned or thrown becomes one of: a result, "too many requests" (the whole queue waits), "not
// well" (this key comes back), or a refusal (this key ends with a reason). Nothing is thrown on.

import { Failure, retryAfterMs } from "./syncline_queue.js";
import { SynclineError, isPassing } from "./errors.js";

const REASON_MAX_CHARS = 500;
const TOO_MANY_REQUESTS = 429;

export class RetryLater extends Error {
  constructor(afterMs, message = "too many requests") {
    super(message);
    if (afterMs !== undefined && !(Number.isFinite(afterMs) && afterMs >= 0)) {
      throw new SynclineError("invalid-argument", `new RetryLater(afterMs): a number of milliseconds, not ${afterMs}`);
    }
    this.name = "RetryLater";
    this.afterMs = afterMs;
  }
}

export function isResponse(value) {
  return typeof Response !== "undefined" && value instanceof Response;
}

// Of what was returned, only an answer from a server can mean that there is no result.
export function isFailure(value) {
  return typeof value === "object" && value !== null && isResponse(value) && !value.ok;
}

// `{ failure, retryAfterMs, reason }` of what was thrown, or of a response that was returned.
export function judge(thrown) {
  if (isResponse(thrown)) return judgeResponse(thrown);
  const reason = `${thrown?.message ?? thrown}`.slice(0, REASON_MAX_CHARS);
  // By name as well: a bundler may put this class into a page twice.
  if (thrown instanceof RetryLater || thrown?.name === "RetryLater") {
    return { failure: Failure.Throttled, retryAfterMs: thrown.afterMs, reason };
  }
  return { failure: isPassingError(thrown) ? Failure.Broken : Failure.Refused, reason };
}

function judgeResponse(response) {
  const reason = `the server answered ${response.status}`;
  // What is not read keeps its connection busy.
  response.body?.cancel().catch(() => {});
  if (response.status === TOO_MANY_REQUESTS) {
    const header = response.headers.get("retry-after");
    return { failure: Failure.Throttled, retryAfterMs: header === null ? undefined : retryAfterMs(header, Date.now()), reason };
  }
  return { failure: isPassing(response.status) ? Failure.Broken : Failure.Refused, reason };
}

// Errors of which the next attempt may know nothing: those that say so, time-outs, and fetch() without an answer, which
// is a TypeError in every browser and differs from a defect only by its text.
function isPassingError(error) {
  if (error?.retryable === true || error?.name === "TimeoutError" || error?.name === "NetworkError") return true;
  return error instanceof TypeError && /fetch|network|load failed/i.test(error.message);
}

export function badKey(index) {
  const message = `a key must be text without control characters, and number ${index + 1} is not`;
  return new SynclineError("invalid-argument", message);
}

export function unknownKey(key) {
  return new SynclineError("unknown-key", `the queue does not know ${JSON.stringify(key)}: enqueue it first`);
}

// Whoever asked for the result of a key that has none hears this.
export function noResult(key, isDead, reason) {
  return isDead
    ? new SynclineError("task-dead", `${key}: ${reason}`, { retryable: true })
    : new SynclineError("task-failed", `${key}: ${reason}`);
}
