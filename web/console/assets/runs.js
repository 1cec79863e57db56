// How one record of the schedule is shown: its result as outline and word, its reason, its moment.

import { h, icon } from "./dom.js";

/**
 * @typedef {{
 *   id: number | null, job: string, bucket: string | null, node: string, decision: "run" | "skip", reason: string,
 *   state: "running" | "done" | "failed" | "skipped" | "abandoned", started_at: number, finished_at: number | null,
 *   attempts: number, detail: string, cost_usd: number,
 * }} Run
 */

const WORDS = { running: "running", done: "done", failed: "failed", skipped: "skipped", abandoned: "abandoned" };

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
  return String(run.reason ?? "").replace(/^(run|skip): /, "");
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
