// Spaces of shared state.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { whole } from "./format.js";
import { t, translate } from "./language.js";
import { openListing } from "./listing.js";

/** @typedef {{ space: string, entities: number, bytes: number, number: number }} Space */

translate();
let most = { entities: Infinity, bytes: Infinity };
const share = (/** @type {Space} */ { entities, bytes }) => Math.max(entities / most.entities, bytes / most.bytes);
const size = (/** @type {number} */ bytes) => (bytes < 1024 ? `${whole(bytes)} B` : bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`);

openListing({
  title: t("Spaces", "スペース"),
  filters: [{ name: "state", label: t("Which", "絞り込み"), options: [["", t("all", "すべて")], ["full", t("nearly full", "ほぼ満杯")]] }],
  columns: [
    { label: t("Space", "スペース"), cell: ({ space }) => space },
    { label: t("Entities", "数"), number: true, cell: ({ entities }) => whole(entities) },
    { label: t("Size", "大きさ"), number: true, cell: (space) => h("span", { class: share(space) >= 0.9 ? "is-bad" : undefined }, size(space.bytes)) },
    { label: t("Changes", "変更"), number: true, cell: ({ number }) => whole(number) },
    { label: t("Open", "開く"), cell: ({ space }) => h("a", { href: `/state/entities?space=${encodeURIComponent(space)}` }, t("Entities", "中身")) },
  ],
  keyOf: (/** @type {Space} */ { space }) => space,
  async ask(wanted) {
    const { spaces, next, entitiesMax, bytesMax } = await ask(`/api/state?${wanted}`);
    most = { entities: entitiesMax, bytes: bytesMax };
    return { items: spaces, next };
  },
  async one(name) {
    const { spaces } = await ask(`/api/state?${new URLSearchParams({ q: name, limit: "1000" })}`);
    return spaces.find((/** @type {Space} */ { space }) => space === name) ?? Promise.reject(Object.assign(new Error("gone"), { status: 404 }));
  },
  facts: (space) => [
    [t("Entities", "数"), h("span", {}, whole(space.entities), h("small", {}, t(`of ${whole(most.entities)}`, `最大 ${whole(most.entities)}`)))],
    [t("Size", "大きさ"), h("span", { class: share(space) >= 0.9 ? "is-bad" : undefined }, size(space.bytes), h("small", {}, t(`of ${size(most.bytes)}`, `最大 ${size(most.bytes)}`)))],
    [t("Changes so far", "変更"), whole(space.number)],
  ],
  body: ({ space }) => h("p", {}, h("a", { href: `/state/entities?space=${encodeURIComponent(space)}` }, t("What is in it", "中身を見る"))),
  audit: ({ space }) => new URLSearchParams({ system: "state", q: space, limit: "10" }),
  actions: [
    {
      name: "remove",
      ends: true,
      label: t("Remove", "削除"),
      needs: (name) => `state:${name ?? "?"}:reset`,
      question: (n, only) => t(`Remove ${n === 1 ? `the space ${only}` : `${whole(n)} spaces`} with everything in ${n === 1 ? "it" : "them"}? Devices that still have something of it send that again when they are linked.`, `${n === 1 ? only : `${whole(n)} 件`} を中身ごと削除しますか。`),
      async run(spaces) {
        let removed = 0;
        for (const { space } of spaces) removed += (await ask(`/api/state/${encodeURIComponent(space)}`, { method: "DELETE" })).deleted ? 1 : 0;
        return removed;
      },
      done: (n) => t(`${whole(n)} removed.`, `${whole(n)} 件を削除しました。`),
    },
  ],
  empty: t("No space has anything yet: the first change that a device or a server sends makes one.", "まだスペースはありません。"),
  news: ["state"],
});
