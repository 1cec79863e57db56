// The keys of one queue, by where they are.

import { ask, serverNow } from "./api.js";
import { at, h, say } from "./dom.js";
import { ago, whole } from "./format.js";
import { t, translate } from "./language.js";
import { cut, openListing, pretty, when } from "./listing.js";

/** @typedef {{ key: string, state: string, group?: string, dueAt?: number, input?: unknown, result?: unknown, reason?: string, attempts: number, changed_at?: number, changedAt?: number }} Key */

translate();
const params = () => new URLSearchParams(location.search);
const queue = params().get("queue") ?? "";
const path = `/api/queues/${encodeURIComponent(queue)}`;
const state = () => params().get("state") ?? "waiting";
const changed = (/** @type {Key} */ key) => key.changedAt ?? key.changed_at ?? NaN;
const needs = () => `queue:${queue}:manage`;
const isGivenUp = (/** @type {Key | null} */ key) => ["failed", "dead"].includes(key?.state ?? state());

/** Keys that run are removed one by one. */
async function clearState() {
  const place = state();
  if (place === "running") return null;
  return { count: (await ask(path)).counts[place], run: async () => (await ask(`${path}/keys?state=${place}`, { method: "DELETE" })).deleted };
}

say(at("heading"), t(`Keys of ${queue}`, `${queue} のキー`));
document.title = `${queue} · Queue · Syncline`;

openListing({
  title: queue,
  tabs: {
    name: "state",
    values: [["waiting", t("waiting", "待機")], ["running", t("running", "実行中")], ["retrying", t("retrying", "再試行待ち")], ["done", t("done", "完了")], ["failed", t("failed", "失敗")], ["dead", t("dead", "断念")]],
    counts: async () => (await ask(path)).counts,
  },
  columns: [
    { label: t("Key", "キー"), cell: ({ key }) => key },
    { label: t("What came of it", "結果"), wide: true, cell: (key) => h("span", { class: isGivenUp(key) ? "is-bad" : undefined }, cut(key.reason ?? key.result)) },
    { label: t("Attempts", "回数"), number: true, cell: ({ attempts }) => whole(attempts) },
    { label: t("Since", "時刻"), cell: (key) => when(changed(key)) },
  ],
  keyOf: ({ key }) => key,
  async ask(wanted) {
    wanted.delete("queue");
    wanted.set("state", state());
    const { keys, next } = await ask(`${path}/keys?${wanted}`);
    return { items: keys, next };
  },
  one: (key) => ask(`${path}/results/${encodeURIComponent(key)}`),
  facts: (key) => [
    [t("State", "状態"), h("span", { class: isGivenUp(key) ? "is-bad" : undefined }, key.state)],
    [t("Attempts", "回数"), whole(key.attempts)],
    ...(key.group ? [/** @type {[string, any]} */ ([t("Group", "グループ"), h("span", { class: "mono" }, key.group)])] : []),
    ...(key.dueAt ? [/** @type {[string, any]} */ ([t("Starts", "開始"), when(key.dueAt)])] : []),
    [t("Since", "時刻"), h("span", {}, when(changed(key)), h("small", {}, ago(changed(key), serverNow())))],
  ],
  body: (key) => (key.result === undefined && key.input === undefined && !key.reason ? null : h("div", { class: "stack" }, key.input === undefined ? null : pretty(key.input, t("Input", "入力")), key.reason ? pretty(key.reason, t("Why the last attempt brought no result", "失敗の理由")) : key.result === undefined ? null : pretty(key.result, t("Result", "結果")))),
  audit: ({ key }) => new URLSearchParams({ system: "queue", q: key, limit: "10" }),
  actions: [
    {
      name: "retry",
      label: t("Retry", "再試行"),
      needs,
      when: isGivenUp,
      question: (n, only) => t(n === 1 ? `Try ${only} once more?` : `Try ${whole(n)} keys once more?`, `${whole(n)} 件を再試行しますか。`),
      run: async (keys) => (await ask(`${path}/revive`, { method: "POST", body: { keys: keys.map(({ key }) => key) } })).revived,
      everything: async () => ({
        count: (await ask(path)).counts[state()],
        run: async () => (await ask(`${path}/revive`, { method: "POST", body: { state: state() } })).revived,
      }),
      done: (n) => t(`${whole(n)} tried once more.`, `${whole(n)} 件を再試行します。`),
    },
    {
      name: "remove",
      ends: true,
      label: t("Remove", "削除"),
      needs,
      question: (n, only) => t(n === 1 ? `Forget ${only}, and its result?` : `Forget ${whole(n)} keys, and their results?`, `${whole(n)} 件を削除しますか。`),
      run: async (keys) => (await ask(`${path}/remove`, { method: "POST", body: { keys: keys.map(({ key }) => key) } })).removed,
      everything: clearState,
      done: (n) => t(`${whole(n)} removed.`, `${whole(n)} 件を削除しました。`),
    },
  ],
  empty: t("No key is there.", "キーはありません。"),
  news: ["queue", "queue.result"],
});
