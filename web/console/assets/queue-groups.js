// The groups of one queue: what waits and runs in each, when it may go on, and a pause for each.

import { ask, serverNow } from "./api.js";
import { at, h, say } from "./dom.js";
import { countdown, whole } from "./format.js";
import { t, translate } from "./language.js";
import { openListing } from "./listing.js";
import { groupPace } from "./queue-status.js";

/** @typedef {{ name: string, waiting: number, running: number, paused: boolean, failures: number, nextCallAt: number | null }} Group */

translate();
const queue = new URLSearchParams(location.search).get("queue") ?? "";
const path = `/api/queues/${encodeURIComponent(queue)}`;
const needs = () => `queue:${queue}:manage`;
const titleOf = (/** @type {string} */ name) => name || t("without a group", "グループなし");

say(at("heading"), t(`Groups of ${queue}`, `${queue} のグループ`));
document.title = `${queue} · ${t("Groups", "グループ")} · Syncline`;

/** What a group does now, in words. */
function doing(/** @type {Group} */ { paused, failures, nextCallAt, running, waiting }) {
  const left = nextCallAt === null ? 0 : nextCallAt - serverNow();
  const next = left >= 1_000 ? t(`next call in ${countdown(left)}`, `次の呼び出し ${countdown(left)} 後`) : "";
  if (paused) return h("span", { class: "is-warn" }, t("paused by hand", "手動で停止中"));
  if (failures > 0) return h("span", { class: "is-bad", "data-clock": "" }, t(`${whole(failures)} failed in a row`, `連続 ${whole(failures)} 回失敗`), next ? `, ${next}` : "");
  return h("span", { "data-clock": "" }, next || (running > 0 ? t("calling", "呼び出し中") : waiting > 0 ? t("next call now", "次の呼び出し 今") : t("idle", "待機中")));
}

/** Stops groups on all nodes, or lets them go on. */
const tell = (/** @type {"pause" | "resume"} */ what) => async (/** @type {Group[]} */ groups) => {
  for (const { name } of groups) await ask(`${path}/groups/${what}`, { method: "POST", body: { group: name } });
  return groups.length;
};

openListing({
  title: queue,
  search: t("Name", "名前"),
  columns: [
    { label: t("Group", "グループ"), cell: ({ name }) => h("span", { class: name ? "mono" : "note" }, titleOf(name)) },
    { label: t("Now", "現在"), wide: true, cell: doing },
    { label: t("Waiting", "待機"), number: true, cell: ({ waiting }) => whole(waiting) },
    { label: t("Running", "実行中"), number: true, cell: ({ running }) => whole(running) },
  ],
  keyOf: (/** @type {Group} */ { name }) => name,
  async ask(wanted) {
    wanted.delete("queue");
    const [status, { groups, next }] = await Promise.all([ask(path), ask(`${path}/groups?${wanted}`)]);
    say(at("pace"), groupPace(status));
    return { items: groups, next };
  },
  actions: [
    {
      name: "pause",
      label: t("Pause", "停止"),
      needs,
      question: (n, only) => t(`Pause ${n === 1 ? `the group ${titleOf(only)}` : `${whole(n)} groups`} on all nodes? What runs goes on; nothing more is started.`, `${n === 1 ? titleOf(only) : `${whole(n)} 個のグループ`} をすべてのノードで停止しますか。実行中のものは続きます。`),
      run: tell("pause"),
      done: (n) => t(`${whole(n)} paused.`, `${whole(n)} 個を停止しました。`),
    },
    {
      name: "resume",
      label: t("Resume", "再開"),
      needs,
      run: tell("resume"),
      done: (n) => t(`${whole(n)} resumed.`, `${whole(n)} 個を再開しました。`),
    },
  ],
  empty: t("No group has keys in line or a reason to wait.", "待機中のグループはありません。"),
  news: ["queue"],
});
