// What an operator has to look at, from the figures that the node gives. Pure.

import { count, span, whole } from "./format.js";
import { t } from "./language.js";

/** @typedef {{ name: string, breaker?: string, paused?: { until?: number | null, reason: string } | null, counts: { waiting: number, running: number, retrying: number, failed: number, dead: number } }} Queue */
/** @typedef {{ pending: number, inFlight: number, dead: number, oldestMs: number | null, paused?: boolean, filesPaused?: boolean }} Outbox */
/** @typedef {{ name: string, holder: string, ageMs: number }} Lock */
/** @typedef {{ node: string, silentMs: number, self: boolean, standsStill: boolean }} Peer */
/** @typedef {{ key: string, words: string, href: string }} Trouble */

// So long a change may wait before nobody seems to send it.
const STUCK_MS = 60_000;
/** A lock that is held for so long may be one that nobody means to end. */
export const LONG_HELD_MS = 3_600_000;

/**
 * Each with the page that shows exactly those; the worst first: dead, failing, paused, silent, old, full.
 * @param {{ ready: { ok: boolean, reason?: string } | null, jobs: any[], queues: Queue[], outbox: Outbox | null, locks?: Lock[], full?: { space: string }[], nodes?: Peer[] }} facts
 * @returns {Trouble[]}
 */
export function attention({ ready, jobs, queues, outbox, locks = [], full = [], nodes = [] }) {
  const [dead, failing, paused, silent, old, filled] = /** @type {Trouble[][]} */ ([[], [], [], [], [], []]);
  if (ready && !ready.ok) dead.push({ key: "ready", words: t(`The node is not ready: ${ready.reason ?? "it does not say why"}`, `ノードが準備できていません：${ready.reason ?? "理由は不明"}`), href: "/readyz" });
  if (outbox && outbox.dead > 0) {
    dead.push({ key: "outbox-dead", words: t(`${count(outbox.dead, "change")} of the outbox given up`, `アウトボックスの ${whole(outbox.dead)} 件が断念されました`), href: "/outbox/entries?state=dead" });
  }
  for (const { name, counts, breaker, paused: pause } of queues) {
    const keys = (/** @type {string} */ state) => `/queue/keys?queue=${encodeURIComponent(name)}&state=${state}`;
    const noun = (/** @type {number} */ n) => (n === 1 ? "key" : "keys");
    if (counts.dead > 0) dead.push({ key: `queue-dead-${name}`, words: t(`Queue ${name}: ${whole(counts.dead)} dead ${noun(counts.dead)}`, `キュー ${name}：断念されたキー ${whole(counts.dead)} 件`), href: keys("dead") });
    if (counts.failed > 0) failing.push({ key: `queue-failed-${name}`, words: t(`Queue ${name}: ${whole(counts.failed)} failed ${noun(counts.failed)}`, `キュー ${name}：失敗したキー ${whole(counts.failed)} 件`), href: keys("failed") });
    if (breaker === "open" || breaker === "probing") failing.push({ key: `breaker-${name}`, words: t(`Queue ${name}: its API fails, calls are paused`, `キュー ${name}：API が失敗しているため休止中`), href: keys("waiting") });
    else if (pause && pause.reason !== "retry-after") paused.push({ key: `paused-${name}`, words: t(`Queue ${name} is paused`, `キュー ${name} は停止中`), href: `/queue?q=${encodeURIComponent(name)}` });
  }
  for (const { name, last, paused_at: pausedAt } of jobs) {
    if (pausedAt) paused.push({ key: `job-paused-${name}`, words: t(`Job ${name} is paused`, `ジョブ ${name} は停止中`), href: `/viewer?job=${encodeURIComponent(name)}#jobs-part` });
    if (last?.state === "failed" || last?.state === "abandoned") {
      const why = last.detail ? `: ${String(last.detail).slice(0, 120)}` : "";
      failing.push({ key: `job-${name}`, words: t(`Job ${name}: the last run ${last.state === "failed" ? "failed" : "was abandoned"}${why}`, `ジョブ ${name}：前回の実行が${last.state === "failed" ? "失敗しました" : "途中で終わりました"}${why}`), href: `/viewer?job=${encodeURIComponent(name)}#history-part` });
    }
  }
  if (outbox?.paused) paused.push({ key: "outbox-paused", words: t("The outbox is paused: nothing is sent", "アウトボックスは停止中：何も送信されません"), href: "/outbox" });
  else if (outbox?.filesPaused) paused.push({ key: "outbox-files-paused", words: t("The outbox sends no files: they are switched off", "アウトボックスはファイルを送信していません"), href: "/outbox" });
  // What is held back on purpose is not stuck.
  if (outbox && !outbox.paused && outbox.pending > 0 && outbox.inFlight === 0 && (outbox.oldestMs ?? 0) > STUCK_MS) {
    failing.push({ key: "outbox-stuck", words: t(`${count(outbox.pending, "change")} of the outbox ${outbox.pending === 1 ? "waits" : "wait"}, and nothing is being sent: is serversync running?`, `アウトボックスの ${whole(outbox.pending)} 件が送信されていません。serversync は動いていますか`), href: "/outbox/entries?state=pending" });
  }
  for (const { node, silentMs, self, standsStill } of nodes) {
    if (!self && standsStill) silent.push({ key: `node-${node}`, words: t(`Node ${node} does not answer: its last word is ${span(silentMs)} old`, `ノード ${node} が応答しません：最後の知らせは ${span(silentMs)} 前`), href: `/nodes?q=${encodeURIComponent(node)}` });
  }
  if (locks.length === 1) old.push({ key: "locks", words: t(`Lock ${locks[0].name} has been held by ${locks[0].holder} for ${span(locks[0].ageMs)}`, `ロック ${locks[0].name} を ${locks[0].holder} が ${span(locks[0].ageMs)} 保持しています`), href: `/lock?one=${encodeURIComponent(locks[0].name)}` });
  else if (locks.length > 1) old.push({ key: "locks", words: t(`${count(locks.length, "lock")} held for more than ${span(LONG_HELD_MS)}`, `${span(LONG_HELD_MS)} 以上保持されたロック ${whole(locks.length)} 件`), href: `/lock?minAgeMs=${LONG_HELD_MS}` });
  if (full.length > 0) filled.push({ key: "full", words: full.length === 1 ? t(`Space ${full[0].space} is nearly full`, `スペース ${full[0].space} はほぼ満杯`) : t(`${count(full.length, "space")} nearly full`, `ほぼ満杯のスペース ${whole(full.length)} 件`), href: "/state?state=full" });
  return [...dead, ...failing, ...paused, ...silent, ...old, ...filled];
}
