// The failures of the lock and of AutoSave as they travel from the worker to the page: plain values with a code and words.
// Which code it is, and whether it may pass, is decided by the rules (WASM).

import { SynclineError, toPlain } from "./errors.js";

const WORDS = {
  "web-lock-unavailable": "another tab holds the project, or the browser grants no Web Lock",
  "web-lock-aborted": "the request was aborted",
  "fallback-open-failed": "the lease's place in this browser's storage cannot be opened",
  "fallback-read-failed": "the lease could not be read",
  "fallback-write-failed": "the lease could not be written",
  "lease-mismatch": "this tab holds the project already, or holds another lease than this one",
  "lease-expired": "the lease has ended",
};

export function failure(code, retryable, cause) {
  const detail = code.startsWith("fallback") && cause !== undefined ? `: ${cause.message}` : "";
  return { code, retryable, message: WORDS[code] + detail, cause: cause === undefined ? undefined : String(cause) };
}

/** A failure of storage: with a code of its own where there is no room, or with that of the step it happened in. */
export function explain(error, code) {
  if (!isOutOfRoom(error)) return failure(code, true, error);
  return toPlain(new SynclineError("quota-exceeded", "the browser gives this page no more room for the document", { cause: error }));
}

function isOutOfRoom(error) {
  return error?.name === "QuotaExceededError" || (error?.cause !== undefined && isOutOfRoom(error.cause));
}
