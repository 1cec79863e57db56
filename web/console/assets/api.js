// Asks the node. Guarantees that every failure is an ApiError with a sentence a person can act on, that nothing waits
// for ever without a sign, and that serverNow() follows the node's clock even where this machine's clock is wrong.

const TIMEOUT_MS = 10_000;
const MESSAGE_MAX = 300;
// The Date header has whole seconds; a smaller difference says nothing.
const SKEW_MIN_MS = 2_000;

let skewMs = 0;

/** A refused, failed or unanswered request. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{ status?: number, code?: string }} [facts]
   */
  constructor(message, { status = 0, code = "unreachable" } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }

  /** The node wants a token first. */
  get needsToken() {
    return this.status === 401;
  }
}

/**
 * One request; the JSON of the answer.
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, timeoutMs?: number }} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, options) {
  const response = await request(path, options);
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw refusal(response.status, answer);
  return answer;
}

/** When the node started, in epoch milliseconds, from its own metrics; null where they do not say. */
export async function nodeStartedAt() {
  const response = await request("/metrics");
  const line = /^syncline_node_start_time_seconds (\S+)$/m.exec(response.ok ? await response.text() : "");
  return line ? Number(line[1]) * 1_000 : null;
}

/** The present, in epoch milliseconds, by the node's clock. */
export function serverNow() {
  return Date.now() + skewMs;
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, timeoutMs?: number }} [options]
 */
async function request(path, { method = "GET", body, headers = {}, timeoutMs = TIMEOUT_MS } = {}) {
  let response;
  const settled = method === "GET" ? () => {} : markPressed();
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    });
  } catch (cause) {
    const late = cause instanceof DOMException && cause.name === "TimeoutError";
    throw new ApiError(late ? "The node took too long to answer." : "The node does not answer.", {
      code: late ? "timeout" : "unreachable",
    });
  } finally {
    settled();
  }
  followClock(response.headers.get("date"));
  return response;
}

/** Shows on the button that was pressed that its work is under way; returns what ends that. */
function markPressed() {
  const focused = document.activeElement;
  const pressed = focused instanceof HTMLButtonElement ? focused : focused?.closest("form")?.querySelector("button[type=submit]");
  pressed?.setAttribute("aria-busy", "true");
  return () => pressed?.removeAttribute("aria-busy");
}

/**
 * @param {number} status
 * @param {any} answer
 */
function refusal(status, answer) {
  const said = typeof answer?.error === "string" ? answer.error.slice(0, MESSAGE_MAX) : `The node answered ${status}.`;
  return new ApiError(sentence(said), {
    status,
    code: typeof answer?.code === "string" ? answer.code : `http-${status}`,
  });
}

function sentence(/** @type {string} */ text) {
  const start = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}

function followClock(/** @type {string | null} */ date) {
  const at = date ? Date.parse(date) : NaN;
  if (Number.isNaN(at)) return;
  const difference = at - Date.now();
  skewMs = Math.abs(difference) < SKEW_MIN_MS ? 0 : difference;
}
