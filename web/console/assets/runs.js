// How one record of the schedule is shown: its result as outline and word, its reason, its moment.

import { h, icon } from "./dom.js";
import { t } from "./language.js";

/**
 * @typedef {{
 *   id: number | null, job: string, bucket: string | null, node: string, decision: "run" | "skip", reason: string,
 *   state: "running" | "done" | "failed" | "skipped" | "abandoned", started_at: number, finished_at: number | null,
 *   attempts: number, detail: string, cost_usd: number,
 * }} Run
 */

export const WORDS = { running: t("running", "実行中"), done: t("done", "完了"), failed: t("failed", "失敗"), skipped: t("skipped", "見送り"), abandoned: t("abandoned", "中断") };

/** `■ done`, `○ skipped`: the state of a record. */
export function result(/** @type {Run} */ run) {
  const state = stateOf(run);
  return h("span", { class: `result is-${state}` }, icon(state), WORDS[state]);
}

/** A state this page knows; a word from a newer node is shown as a plain skip or run. */
export function stateOf(/** @type {Run} */ run) {
  if (Object.hasOwn(WORDS, run.state)) return run.state;
  return run.decision === "skip" ? "skipped" : "done";
}

/** The reason without its `run:` or `skip:`, which the result already says. */
export function reasonOf(/** @type {Run} */ run) {
  return wordsOf(String(run.reason ?? ""));
}

const REASONS = /** @type {Record<string, string>} */ ({
  "run: watched": "閲覧中",
  "run: always": "常に",
  "run: store unreadable (fail open)": "データベースを読めないため実行",
  "run: no store configured": "データベースなし",
  "run: by hand": "手動",
  "run: viewer arrived": "閲覧者が来た",
  "skip: no viewer": "閲覧者なし",
  "skip: another node has this minute": "別のノードが担当",
  "skip: unchanged input": "入力に変化なし",
  "skip: still running": "まだ実行中",
  "skip: paused": "停止中",
});

/** A reason in words, without its `run:` or `skip:`. */
export function wordsOf(/** @type {string} */ reason) {
  const plain = reason.replace(/^(run|skip): /, "");
  return t(plain, REASONS[reason] ?? plain);
}

/** When the record belongs: the tick it was made for, or its start where it was run by hand. */
export function momentOf(/** @type {Run} */ run) {
  const at = Date.parse(`${run.bucket}${isToTheSecond(run) ? "" : ":00"}Z`);
  return Number.isNaN(at) ? run.started_at : at;
}

/** Whether seconds tell its tick from the one before. */
export function isToTheSecond(/** @type {Run} */ run) {
  return run.bucket === null || /T\d\d:\d\d:\d\d/.test(run.bucket);
}
