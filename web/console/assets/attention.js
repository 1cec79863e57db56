// What an operator has to look at, from the figures that the node gives. Pure.

import { count, span, whole } from "./format.js";

/** @typedef {{ name: string, breaker?: string, paused?: { until?: number | null, reason: string } | null, counts: { waiting: number, running: number, retrying: number, failed: number, dead: number } }} Queue */
/** @typedef {{ pending: number, inFlight: number, dead: number, oldestMs: number | null }} Outbox */
/** @typedef {{ name: string, holder: string, ageMs: number }} Lock */
/** @typedef {{ node: string, silentMs: number, self: boolean }} Peer */
/** @typedef {{ key: string, words: string, href: string }} Trouble */

// So long a change may wait before nobody seems to send it.
const STUCK_MS = 60_000;
/** A lock that is held for so long may be one that nobody means to end. */
export const LONG_HELD_MS = 3_600_000;
// Nodes say every minute that they are there.
const SILENT_MS = 90_000;

/**
 * Each with the page that shows exactly those; the worst first: dead, failing, paused, silent, old, full.
 * @param {{ ready: { ok: boolean, reason?: string } | null, jobs: any[], queues: Queue[], outbox: Outbox | null, locks?: Lock[], full?: { space: string }[], nodes?: Peer[] }} facts
 * @returns {Trouble[]}
 */
export function attention({ ready, jobs, queues, outbox, locks = [], full = [], nodes = [] }) {
  const [dead, failing, paused, silent, old, filled] = /** @type {Trouble[][]} */ ([[], [], [], [], [], []]);
  if (ready && !ready.ok) dead.push({ key: "ready", words: `The node is not ready: ${ready.reason ?? "it does not say why"}`, href: "/readyz" });
  if (outbox && outbox.dead > 0) {
    dead.push({ key: "outbox-dead", words: `${count(outbox.dead, "change")} of the outbox given up`, href: "/outbox/entries?state=dead" });
  }
  for (const { name, counts, breaker, paused: pause } of queues) {
    const keys = (/** @type {string} */ state) => `/queue/keys?queue=${encodeURIComponent(name)}&state=${state}`;
    const noun = (/** @type {number} */ n) => (n === 1 ? "key" : "keys");
    if (counts.dead > 0) dead.push({ key: `queue-dead-${name}`, words: `Queue ${name}: ${whole(counts.dead)} dead ${noun(counts.dead)}`, href: keys("dead") });
    if (counts.failed > 0) failing.push({ key: `queue-failed-${name}`, words: `Queue ${name}: ${whole(counts.failed)} failed ${noun(counts.failed)}`, href: keys("failed") });
    if (breaker === "open" || breaker === "probing") failing.push({ key: `breaker-${name}`, words: `Queue ${name}: its API fails, calls are paused`, href: keys("waiting") });
    else if (pause && pause.reason !== "retry-after") paused.push({ key: `paused-${name}`, words: `Queue ${name} is paused`, href: keys("waiting") });
  }
  for (const { name, last } of jobs) {
    if (last?.state === "failed" || last?.state === "abandoned") {
      const why = last.detail ? `: ${String(last.detail).slice(0, 120)}` : "";
      failing.push({ key: `job-${name}`, words: `Job ${name}: the last run ${last.state === "failed" ? "failed" : "was abandoned"}${why}`, href: `/viewer?job=${encodeURIComponent(name)}#history-part` });
    }
  }
  if (outbox && outbox.pending > 0 && outbox.inFlight === 0 && (outbox.oldestMs ?? 0) > STUCK_MS) {
    failing.push({ key: "outbox-stuck", words: `${count(outbox.pending, "change")} of the outbox ${outbox.pending === 1 ? "waits" : "wait"}, and nothing is being sent: is serversync running?`, href: "/outbox/entries?state=pending" });
  }
  for (const { node, silentMs, self } of nodes) {
    if (!self && silentMs > SILENT_MS) silent.push({ key: `node-${node}`, words: `Node ${node} has been silent for ${span(silentMs)}`, href: "/nodes" });
  }
  if (locks.length === 1) old.push({ key: "locks", words: `Lock ${locks[0].name} has been held by ${locks[0].holder} for ${span(locks[0].ageMs)}`, href: `/lock?one=${encodeURIComponent(locks[0].name)}` });
  else if (locks.length > 1) old.push({ key: "locks", words: `${count(locks.length, "lock")} held for more than ${span(LONG_HELD_MS)}`, href: `/lock?minAgeMs=${LONG_HELD_MS}` });
  if (full.length > 0) filled.push({ key: "full", words: full.length === 1 ? `Space ${full[0].space} is nearly full` : `${count(full.length, "space")} nearly full`, href: "/state?state=full" });
  return [...dead, ...failing, ...paused, ...silent, ...old, ...filled];
}
