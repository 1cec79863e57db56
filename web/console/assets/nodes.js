// The nodes that share this database.

import { ask, serverNow } from "./api.js";
import { h } from "./dom.js";
import { span, whole } from "./format.js";
import { t, translate } from "./language.js";
import { openListing, when } from "./listing.js";

/** @typedef {{ node: string, version: string, self: boolean, silentMs: number, uptimeMs: number, storeMs: number, standsStill: boolean }} Peer */

translate();
const word = (/** @type {Peer} */ { self, silentMs, standsStill }) =>
  h("span", { class: standsStill ? "is-bad" : undefined, "data-clock": "" }, self ? t("now", "今") : t(`${span(silentMs)} ago${standsStill ? ", does not answer" : ""}`, `${span(silentMs)} 前${standsStill ? "、応答なし" : ""}`));

openListing({
  title: t("Nodes", "ノード"),
  columns: [
    { label: t("Node", "ノード"), cell: ({ node, self }) => h("span", { class: "mono" }, node, self ? h("small", { class: "note" }, t(" this one", " これ")) : null) },
    { label: t("Version", "版"), cell: ({ version }) => h("span", { class: "mono" }, version) },
    { label: t("Up since", "起動"), cell: ({ uptimeMs }) => h("span", { "data-clock": "" }, when(serverNow() - uptimeMs)) },
    { label: t("Last word", "最後の知らせ"), cell: word },
    { label: t("Store answers in", "保存の応答"), number: true, cell: ({ storeMs }) => `${whole(storeMs)} ms` },
  ],
  keyOf: (/** @type {Peer} */ { node }) => node,
  async ask(wanted) {
    const { nodes } = await ask("/api/nodes");
    const text = (wanted.get("q") ?? "").toLowerCase();
    return { items: nodes.filter((/** @type {Peer} */ { node }) => node.toLowerCase().includes(text)), next: null };
  },
  isShort: true,
  empty: t("No node is known.", "ノードはありません。"),
});
