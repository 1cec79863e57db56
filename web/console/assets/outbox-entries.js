// The entries of this node's outbox.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { span, whole } from "./format.js";
import { t, translate } from "./language.js";
import { cut, openListing, pretty, when } from "./listing.js";

/** @typedef {{ id: number, entityType: string, entityId: string, bytes: number, createdAt: string | null, state: string, attempts: number, dueInMs: number | null, lastError: string | null, endedAt: string | null, payload?: unknown }} Entry */

translate();
const state = () => new URLSearchParams(location.search).get("state") ?? "pending";
const needs = () => "outbox:*:manage";
const moment = (/** @type {string | null} */ text) => when(text === null ? null : Date.parse(text));
const isDead = (/** @type {Entry | null} */ entry) => (entry?.state ?? state()) === "dead";

openListing({
  title: t("Entries", "項目"),
  tabs: {
    name: "state",
    values: [["pending", t("pending", "送信待ち")], ["dead", t("given up", "断念")], ["processed", t("delivered", "配達済み")]],
    counts: async () => {
      const { pending, dead } = await ask("/api/outbox");
      return { pending, dead };
    },
  },
  search: t("Entity or error", "対象またはエラー"),
  columns: [
    { label: t("Entry", "番号"), cell: ({ id }) => String(id) },
    { label: t("Entity", "対象"), cell: ({ entityType, entityId }) => h("span", { class: "mono" }, `${entityType} ${entityId}`) },
    { label: t("State", "状態"), cell: (entry) => h("span", { class: isDead(entry) ? "is-bad" : undefined }, entry.state) },
    { label: t("Last error", "最後のエラー"), wide: true, cell: ({ lastError }) => cut(lastError) },
    { label: t("Attempts", "回数"), number: true, cell: ({ attempts }) => whole(attempts) },
    { label: t("Written", "作成"), cell: ({ createdAt }) => moment(createdAt) },
  ],
  keyOf: ({ id }) => String(id),
  async ask(wanted) {
    wanted.set("state", state());
    const { entries, next } = await ask(`/api/outbox/entries?${wanted}`);
    return { items: entries, next };
  },
  one: (id) => ask(`/api/outbox/entries/${encodeURIComponent(id)}`),
  facts: (entry) => [
    [t("Entity", "対象"), `${entry.entityType} ${entry.entityId}`],
    [t("State", "状態"), h("span", { class: isDead(entry) ? "is-bad" : undefined }, entry.state)],
    [t("Attempts", "回数"), whole(entry.attempts)],
    [t("Written", "作成"), moment(entry.createdAt)],
    ...(entry.endedAt ? [/** @type {[string, any]} */ ([t("Ended", "終了"), moment(entry.endedAt)])] : []),
    ...(entry.dueInMs === null ? [] : [/** @type {[string, any]} */ ([t("Next look in", "次まで"), span(entry.dueInMs)])]),
  ],
  body: (entry) => h("div", { class: "stack" }, entry.lastError ? pretty(entry.lastError, t("Last error", "最後のエラー")) : "", pretty(entry.payload, t("Payload", "内容"))),
  audit: ({ id }) => new URLSearchParams({ system: "outbox", q: String(id), limit: "10" }),
  actions: [
    {
      name: "retry",
      label: t("Retry", "再試行"),
      needs,
      when: (entry) => isDead(entry) || entry?.state === "retrying",
      question: (n) => t(n === 1 ? "Send it once more?" : `Send ${whole(n)} entries once more?`, `${whole(n)} 件を再送しますか。`),
      run: async (entries) => (await ask("/api/outbox/retry", { method: "POST", body: { ids: entries.map(({ id }) => id) } })).entries,
      everything: async () => ({ count: (await ask("/api/outbox")).dead, run: async () => (await ask("/api/outbox/retry", { method: "POST", body: {} })).entries }),
      done: (n) => t(`${whole(n)} in line again.`, `${whole(n)} 件を再送します。`),
    },
    {
      name: "discard",
      ends: true,
      label: t("Discard", "破棄"),
      needs,
      when: isDead,
      question: (n) => t(`Remove ${n === 1 ? "it" : `${whole(n)} entries`} for good? The other side will never hear of ${n === 1 ? "it" : "them"}.`, `${whole(n)} 件を破棄しますか。相手には届きません。`),
      run: async (entries) => (await ask("/api/outbox/discard", { method: "POST", body: { ids: entries.map(({ id }) => id) } })).entries,
      everything: async () => ({ count: (await ask("/api/outbox")).dead, run: async () => (await ask("/api/outbox/discard", { method: "POST", body: {} })).entries }),
      done: (n) => t(`${whole(n)} removed for good.`, `${whole(n)} 件を破棄しました。`),
    },
  ],
  empty: t("No entry is there.", "項目はありません。"),
  news: ["outbox"],
});
