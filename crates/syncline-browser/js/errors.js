// The one error type of the package, how it travels out of a worker, and waits that end.
//
// Guarantees: every failure a caller can meet has a `code` from the list in syncline.d.ts, says in `retryable`
// whether the same call may succeed later, and keeps what caused it in `cause`.

export class SynclineError extends Error {
  constructor(code, message, { retryable = false, cause, fields, reason, grant } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "SynclineError";
    this.code = code;
    this.retryable = retryable;
    if (fields !== undefined) this.fields = fields;
    if (reason !== undefined) this.reason = reason;
    if (grant !== undefined) this.grant = grant;
  }
}

// postMessage clones an Error without its class and extra fields, so errors cross as plain values.
export function toPlain(error) {
  const { code, message, retryable, reason, grant, cause } = error;
  return { code, message, retryable, reason, grant, cause: cause === undefined ? undefined : String(cause) };
}

export function fromPlain({ code, message, ...facts }) {
  return new SynclineError(code, message, facts);
}

/**
 * `work`, or a failure where it says nothing for `ms`: a promise that never settles is a failure that nobody hears of. `what` is
 * who did not answer.
 */
export async function deadline(work, ms, code, what) {
  let timer;
  const late = new Promise((_, reject) => {
    const problem = `${what} did not answer within ${ms / 1_000} s`;
    timer = setTimeout(() => reject(new SynclineError(code, problem, { retryable: true })), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Answers that a server gives in passing: it was slow, it was busy, it was ill. All others will be the same next time.
export function isPassing(status) {
  return status === 408 || status === 429 || status >= 500;
}

// A pause that ends early when `signal` does.
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}
