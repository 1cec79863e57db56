// What an operator has to look at, from the figures that the node gives. Pure.

import { count, whole } from "./format.js";

/** @typedef {{ name: string, breaker?: string, counts: { waiting: number, running: number, retrying: number, failed: number, dead: number } }} Queue */
/** @typedef {{ pending: number, inFlight: number, dead: number, oldestMs: number | null }} Outbox */

// So long a change may wait before nobody seems to send it.
const STUCK_MS = 60_000;

/**
 * Each with the page where it can be looked at; the worst first.
 * @param {{ ready: { ok: boolean, reason?: string } | null, jobs: any[], queues: Queue[], outbox: Outbox | null }} facts
 * @returns {{ key: string, words: string, href: string }[]}
 */
export function attention({ ready, jobs, queues, outbox }) {
  const found = [];
  if (ready && !ready.ok) found.push({ key: "ready", words: `The node is not ready: ${ready.reason ?? "it does not say why"}`, href: "/readyz" });
  if (outbox && outbox.dead > 0) {
    found.push({ key: "outbox-dead", words: `${count(outbox.dead, "change")} of the outbox given up`, href: "/outbox" });
  }
  if (outbox && outbox.pending > 0 && outbox.inFlight === 0 && (outbox.oldestMs ?? 0) > STUCK_MS) {
    found.push({ key: "outbox-stuck", words: `${count(outbox.pending, "change")} of the outbox wait, and nothing is being sent: is serversync running?`, href: "/outbox" });
  }
  for (const { name, counts, breaker } of queues) {
    const parts = [];
    if (counts.dead > 0) parts.push(`${whole(counts.dead)} dead`);
    if (counts.failed > 0) parts.push(`${whole(counts.failed)} failed`);
    if (parts.length > 0) {
      const noun = counts.dead + counts.failed === 1 ? "key" : "keys";
      found.push({ key: `queue-${name}`, words: `Queue ${name}: ${parts.join(", ")} ${noun}`, href: "/queue" });
    }
    if (breaker === "open") found.push({ key: `breaker-${name}`, words: `Queue ${name}: its API fails, calls are paused`, href: "/queue" });
  }
  for (const { name, last } of jobs) {
    if (last?.state === "failed" || last?.state === "abandoned") {
      found.push({ key: `job-${name}`, words: `Job ${name}: the last run ${last.state === "failed" ? "failed" : "was abandoned"}${last.detail ? `: ${String(last.detail).slice(0, 120)}` : ""}`, href: "/viewer#history-part" });
    }
  }
  return found;
}
