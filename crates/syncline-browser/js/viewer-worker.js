// The worker's half of the viewer heartbeat: owns the session id and the timer, sends the pings.
//
// Guarantees: one request in flight at most; a ping that fails is reported and not repeated, the next one comes; nothing
// is sent while the page is away. What to send and when is decided by the rules (WASM); the bye is sent by the page
// (viewer.js), because a worker may not live long enough to send it.

import { SynclineError, fromPlain, isPassing, toPlain } from "./errors.js";
import instantiate, { Heartbeat, Send, initSync as instantiateSync, lastPanic, version } from "./syncline_viewer.js";
import { wasmModule } from "./wasm.js";

// Shorter than the pause between two pings, so that each failure is reported before the next attempt.
const PING_TIMEOUT_MS = 20_000;
// The pace at which a passing failure to load the rules is tried again: that of the pings it keeps from being sent.
const RELOAD_MS = 30_000;
const REFUSAL_MAX_CHARS = 200;

const { init } = wasmModule({
  instantiate,
  instantiateSync,
  version,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_viewer_bg.wasm", import.meta.url),
});

let start;
let page;
let heartbeat;
let sessionId;
let timer;
let request;

// What the page answers to a question for headers.
let waiting;

// Messages give the page's whole state, never a change of it: none can come too early or in the wrong order.
self.addEventListener("message", ({ data }) => {
  if (data.type === "headers") return waiting?.(data);
  // The token had ended, and there is another.
  if (data.type === "again") return data.present && ping(data.visible);
  page = { present: data.present, visible: data.visible };
  if (data.type === "start") {
    start = data;
    loadRules();
  } else if (heartbeat !== undefined) {
    guarded(follow);
  }
});

async function loadRules() {
  try {
    await init(start.wasmUrl);
  } catch (error) {
    postMessage({ type: error.retryable ? "error" : "failed", error: toPlain(error) });
    if (error.retryable) setTimeout(loadRules, RELOAD_MS);
    return;
  }
  guarded(() => {
    // getRandomValues exists on plain http:// as well; randomUUID does not.
    const [high, low] = crypto.getRandomValues(new BigUint64Array(2));
    heartbeat = new Heartbeat(high, low, page.visible);
    sessionId = heartbeat.sessionId;
    // Before the first ping, so that the page can say bye to whatever the server has heard of.
    postMessage({ type: "session", sessionId });
    follow();
  });
}

function follow() {
  if (!page.present) {
    request?.abort();
    act(heartbeat.hide(performance.now()));
    return;
  }
  act(heartbeat.visible(performance.now(), page.visible));
  // Says nothing new while it beats, except that a frozen page was resumed and a ping is overdue.
  act(heartbeat.start(performance.now()));
}

function act(send) {
  if (send === Send.Ping || send === Send.PingUnseen) ping(send === Send.Ping);
  clearTimeout(timer);
  const { wakeAt } = heartbeat;
  if (wakeAt === undefined) return;
  timer = setTimeout(
    () => guarded(() => act(heartbeat.timer(performance.now()))),
    Math.max(0, Math.ceil(wakeAt - performance.now())),
  );
}

async function ping(visible) {
  // A newer ping says all that an older one could; two on their way might arrive in the wrong order.
  request?.abort();
  const mine = (request = new AbortController());
  const given = start.asksForHeaders ? await askForHeaders(mine.signal) : {};
  if (mine.signal.aborted) return;
  if (given.error !== undefined) return report(fromPlain(given.error));
  const timeout = setTimeout(() => mine.abort(new DOMException("no answer in time", "TimeoutError")), PING_TIMEOUT_MS);
  try {
    const response = await fetch(start.endpoint, {
      method: "POST",
      headers: { "content-type": start.contentType, ...given.headers },
      body: JSON.stringify({ sessionId, visible, room: start.room, user: start.user }),
      keepalive: true,
      cache: "no-store",
      signal: mine.signal,
    });
    // Read to its end in any case: an answer left lying keeps its connection busy.
    const answer = await response.text();
    const error = response.ok ? undefined : refused(response.status, answer);
    if (start.asksForHeaders) judge(given.headers, response.status, answer, error);
    else if (error !== undefined) report(error);
  } catch (cause) {
    if (cause?.name !== "AbortError") {
      report(
        new SynclineError("ping-failed", `the heartbeat got no answer: ${cause?.message ?? cause}`, {
          retryable: true,
          cause,
        }),
      );
    }
  } finally {
    clearTimeout(timeout);
    if (request === mine) request = undefined;
  }
}

// The page holds the token.
function askForHeaders(signal) {
  return new Promise((resolve) => {
    waiting = resolve;
    signal.addEventListener("abort", () => resolve({}), { once: true });
    postMessage({ type: "headers" });
  });
}

function judge(headers, status, text, error) {
  postMessage({ type: "judge", headers, status, text, error: error && toPlain(error) });
}

function refused(status, answer) {
  return new SynclineError("ping-refused", `the server answered ${status}: ${answer.slice(0, REFUSAL_MAX_CHARS)}`, {
    retryable: isPassing(status),
  });
}

function report(error) {
  postMessage({ type: "error", error: toPlain(error) });
}

// A panic leaves the machine unusable; the page is told why and ends this worker.
function guarded(work) {
  try {
    work();
  } catch (cause) {
    clearTimeout(timer);
    const error = new SynclineError("internal", `the rules failed: ${lastPanic() ?? cause}`, { cause });
    postMessage({ type: "failed", error: toPlain(error) });
  }
}
