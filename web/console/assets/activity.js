// What a system does over time: rate, duration and depth of the last hour, from the node's own memory (`/api/metrics`). A section with
// `data-activity="queue"` gets the charts of that system. Guarantees a sentence that says the same as each drawing, and that nothing is asked for
// that this browser may not see.

import { ask } from "./api.js";
import { h, say } from "./dom.js";
import { t } from "./language.js";
import { openLines } from "./lines.js";
import { may, whoAmI } from "./session.js";

/**
 * `rate` grows and is shown by the second; `mean` is a duration, by its sum and count; `level` goes up and down. `by` names the label whose
 * values have a line each; `only` is a value that a label has to have.
 * @typedef {{ title: string, rate?: string, mean?: string, level?: string, by?: string, only?: Record<string, string> }} Chart
 */

const EVERY_MS = 10_000;

const CHARTS = /** @type {Record<string, Chart[]>} */ ({
  queue: [
    { title: t("Calls a second", "毎秒の呼び出し"), rate: "syncline_queue_calls_total", by: "queue" },
    { title: t("Duration of a call", "呼び出しの時間"), mean: "syncline_queue_call_seconds", by: "queue" },
    { title: t("Keys that wait", "待っているキー"), level: "syncline_queue_waiting", by: "queue" },
  ],
  outbox: [
    { title: t("Entries taken in a second", "毎秒の受信"), rate: "syncline_inbox_entries_total" },
    { title: t("Duration of a batch", "一括受信の時間"), mean: "syncline_inbox_batch_seconds" },
  ],
  viewer: [
    { title: t("Runs and skips a second", "毎秒の実行と見送り"), rate: "syncline_schedule_decisions_total", by: "decision" },
    { title: t("Duration of a run", "実行の時間"), mean: "syncline_schedule_run_seconds", by: "name" },
    { title: t("Sessions", "セッション"), level: "syncline_viewer_sessions" },
  ],
  lock: [
    { title: t("Leases granted a second", "毎秒の取得"), rate: "syncline_lock_granted_total" },
    { title: t("Time a waiter waits", "待ち時間"), mean: "syncline_lock_wait_seconds" },
    { title: t("Waiters", "待っている数"), level: "syncline_lock_waiting" },
  ],
  state: [
    { title: t("Changes a second", "毎秒の変更"), rate: "syncline_state_changes_total" },
    { title: t("Readings a second", "毎秒の読み取り"), rate: "syncline_state_pulls_total" },
    { title: t("News told a second", "毎秒の知らせ"), rate: "syncline_state_news_total" },
  ],
  node: [
    { title: t("Requests a second", "毎秒のリクエスト"), rate: "syncline_http_requests_total", by: "status" },
    { title: t("Duration of an answer", "応答の時間"), mean: "syncline_http_request_duration_seconds" },
    { title: t("Event streams", "イベントの接続"), level: "syncline_http_event_streams" },
  ],
  overview: [
    { title: t("Requests a second", "毎秒のリクエスト"), rate: "syncline_http_requests_total" },
    { title: t("Duration of an answer", "応答の時間"), mean: "syncline_http_request_duration_seconds" },
    { title: t("Queue calls a second", "キューの呼び出し（毎秒）"), rate: "syncline_queue_calls_total" },
    { title: t("Duration of a queue call", "キューの呼び出し時間"), mean: "syncline_queue_call_seconds" },
    { title: t("Entries taken in a second", "毎秒の受信"), rate: "syncline_inbox_entries_total" },
    { title: t("Leases granted a second", "ロックの取得（毎秒）"), rate: "syncline_lock_granted_total" },
    { title: t("State changes a second", "ステートの変更（毎秒）"), rate: "syncline_state_changes_total" },
    { title: t("Duration of a job", "ジョブの時間"), mean: "syncline_schedule_run_seconds" },
  ],
});

/** @typedef {{ name: string, labels: Record<string, string>, values: number[] }} Series */

for (const section of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-activity]"))) openActivity(section, CHARTS[section.dataset.activity ?? ""] ?? []);

/** Fills `section` with charts and keeps them up to date. */
function openActivity(/** @type {HTMLElement} */ section, /** @type {Chart[]} */ charts) {
  const note = h("p", { class: "note" });
  const drawings = charts.map(({ title, mean }) => openLines(title, mean ? "time" : "number"));
  section.append(h("div", { class: "activity" }, ...drawings.map(({ node }) => node)), note);
  const names = [...new Set(charts.flatMap(({ rate, mean, level }) => (mean ? [`${mean}_sum`, `${mean}_count`] : [rate ?? level ?? ""])))];

  async function read() {
    if (document.hidden) return;
    await whoAmI();
    section.hidden = !may("node", "metrics", "*");
    if (section.hidden) return;
    const past = await ask(`/api/metrics?names=${names.join(",")}`).catch(() => null);
    if (past === null) return;
    charts.forEach((chart, index) => drawings[index].show(past.at, lines(chart, past.series, past.at)));
    say(note, past.at.length < 2 ? t("Figures come every ten seconds; the first are on their way.", "値は 10 秒ごとに届きます。") : "");
  }

  read();
  setInterval(read, EVERY_MS);
  document.addEventListener("visibilitychange", read);
}

/**
 * The lines of a chart: for each label's value one, or one for all. Pure.
 * @param {Chart} chart
 * @param {Series[]} series
 * @param {number[]} at
 * @returns {{ label: string, values: (number | null)[] }[]}
 */
export function lines({ rate, mean, level, by }, series, at) {
  const sum = (/** @type {string} */ name) => {
    /** @type {Map<string, number[]>} */
    const found = new Map();
    for (const { labels, values } of series.filter((each) => each.name === name)) {
      const label = by ? (labels[by] ?? "") : "";
      const known = found.get(label);
      found.set(label, known ? known.map((value, n) => value + values[n]) : values);
    }
    return found;
  };
  // A counter that became smaller has begun anew.
  const grown = (/** @type {number[]} */ values, /** @type {number} */ n) => (values[n] >= values[n - 1] ? values[n] - values[n - 1] : values[n]);
  if (mean) {
    const counts = sum(`${mean}_count`);
    return [...sum(`${mean}_sum`)].map(([label, sums]) => {
      const count = counts.get(label) ?? [];
      return { label, values: at.map((_, n) => (n === 0 || !(grown(count, n) > 0) ? null : grown(sums, n) / grown(count, n))) };
    });
  }
  return [...sum(rate ?? level ?? "")].map(([label, values]) => ({
    label,
    values: at.map((time, n) => (level ? values[n] : n === 0 ? null : (grown(values, n) * 1_000) / Math.max(1, time - at[n - 1]))),
  }));
}
