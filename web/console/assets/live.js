// The live stream of the node. Guarantees: it comes back by itself with growing, jittered waits; it never claims to be
// connected when the node has fallen silent; a hidden page holds no connection (browsers allow six to a host).
// Leaves to the page what to do with events, and the fresh read after every connection.

import { ask } from "./api.js";
import { mayHear, whoAmI } from "./session.js";

const WAIT_FIRST_MS = 1_000;
const WAIT_MAX_MS = 15_000;
// A node that stands still is asked after so long, and given so long to answer: together below nine seconds.
const SILENCE_MAX_MS = 3_000;
const LISTEN_EVERY_MS = 1_500;
const ANSWER_MAX_MS = 4_000;

/**
 * @typedef {"connecting" | "connected" | "reconnecting" | "offline" | "paused" | "locked"} LiveState
 */

/**
 * Opens the stream and keeps it open. `names`: the events to hear; the first word of a name is its topic.
 * @param {{
 *   names: string[],
 *   onState: (state: LiveState, retryAt: number) => void,
 *   onEvent: (name: string, data: any) => void,
 * }} options
 */
export function openLive({ names, onState, onEvent }) {
  // A node whose parts do not tell of a topic refuses it.
  const known = (document.documentElement.dataset.topics ?? "").split(" ");
  const topics = new Set(names.map((name) => name.split(".")[0]).filter((topic) => known.includes(topic)));
  /** @type {EventSource | null} */
  let source = null;
  let timer = 0;
  let failures = 0;
  let heardAt = 0;
  // Which attempt is the last one.
  let turn = 0;
  let isAsking = false;

  async function connect() {
    drop();
    if (document.hidden) return onState("paused", 0);
    if (!navigator.onLine && !isLoopback()) return onState("offline", 0);
    if (failures === 0) onState("connecting", 0);
    const mine = (turn += 1);
    const session = await whoAmI();
    if (mine !== turn || document.hidden) return;
    if (session?.required && !session.authenticated) return onState("locked", 0);
    // A page that follows no topic still hears that the node is there; one that follows a topic it may not hear of is refused.
    const stream = new EventSource(`/api/events?topics=${[...topics].filter(mayHear).join(",")}`);
    source = stream;
    stream.onerror = () => stream === source && fail();
    for (const name of ["hello", "lagged", ...names]) {
      stream.addEventListener(name, (event) => stream === source && hear(name, event));
    }
  }

  function hear(/** @type {string} */ name, /** @type {MessageEvent} */ event) {
    heardAt = performance.now();
    if (name === "hello") {
      failures = 0;
      onState("connected", 0);
    }
    onEvent(name, parse(event.data));
  }

  async function fail() {
    drop();
    const wait = Math.min(WAIT_FIRST_MS * 2 ** failures, WAIT_MAX_MS) * (0.8 + 0.4 * Math.random());
    failures += 1;
    onState(navigator.onLine || isLoopback() ? "reconnecting" : "offline", Date.now() + wait);
    timer = window.setTimeout(connect, wait);
    // An event source hides the status of its failure; a stream refused for want of a token must not be retried for ever.
    const session = await ask("/api/session").catch(() => null);
    if (session?.required && !session.authenticated) {
      drop();
      onState("locked", 0);
    }
  }

  // A connection cut without a goodbye looks open for minutes; so silence is checked by a question.
  async function listen() {
    if (!source || document.hidden || isAsking || performance.now() - heardAt < SILENCE_MAX_MS) return;
    isAsking = true;
    const asked = source;
    const answered = await ask("/healthz", { timeoutMs: ANSWER_MAX_MS }).then(
      () => true,
      () => false,
    );
    isAsking = false;
    if (answered) heardAt = performance.now();
    else if (asked === source) fail();
  }

  function drop() {
    turn += 1;
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function retryNow() {
    failures = Math.min(failures, 1);
    connect();
  }

  window.setInterval(listen, LISTEN_EVERY_MS);
  document.addEventListener("visibilitychange", () => (document.hidden ? (drop(), onState("paused", 0)) : retryNow()));
  window.addEventListener("pagehide", drop);
  window.addEventListener("pageshow", (event) => event.persisted && retryNow());
  window.addEventListener("online", retryNow);
  window.addEventListener("offline", () => isLoopback() || (drop(), onState("offline", 0)));
  connect();
  return { retryNow };
}

/** A machine without a network still reaches itself. */
function isLoopback() {
  return ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
}

function parse(/** @type {string} */ data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}
