// The entities of one space.

import { ask } from "./api.js";
import { at, say } from "./dom.js";
import { whole } from "./format.js";
import { t, translate } from "./language.js";
import { cut, openListing, pretty, when } from "./listing.js";

/** @typedef {{ id: string, value: unknown, version: string, schema: number, changedAt: number }} Entity */

translate();
const space = new URLSearchParams(location.search).get("space") ?? "";
const path = (/** @type {string} */ id) => `/api/state/${encodeURIComponent(space)}/${encodeURIComponent(id)}`;
say(at("heading"), t(`Entities of ${space}`, `${space} の中身`));
document.title = `${space} · State · Syncline`;

openListing({
  title: space,
  search: t("Id or value", "番号または値"),
  columns: [
    { label: t("Id", "番号"), cell: ({ id }) => id },
    { label: t("Value", "値"), wide: true, cell: ({ value }) => cut(value) },
    { label: t("Changed", "変更"), cell: ({ changedAt }) => when(changedAt) },
  ],
  keyOf: (/** @type {Entity} */ { id }) => id,
  async ask(wanted) {
    wanted.delete("space");
    const { entities, next } = await ask(`/api/spaces/${encodeURIComponent(space)}/entities?${wanted}`);
    return { items: entities, next };
  },
  one: (id) => ask(path(id)),
  facts: ({ version, schema, changedAt }) => [
    [t("Changed", "変更"), when(changedAt)],
    [t("Version", "版"), version],
    [t("Schema", "スキーマ"), whole(schema)],
  ],
  body: ({ value }) => pretty(value, t("Value", "値")),
  actions: [
    {
      name: "remove",
      ends: true,
      label: t("Remove", "削除"),
      needs: () => `state:${space}:write`,
      question: (n, only) => t(`Remove ${n === 1 ? only : `${whole(n)} entities`} on every device?`, `${n === 1 ? only : `${whole(n)} 件`} をすべての端末から削除しますか。`),
      async run(entities) {
        let removed = 0;
        for (const { id } of entities) removed += (await ask(path(id), { method: "DELETE" })).deleted ? 1 : 0;
        return removed;
      },
      done: (n) => t(`${whole(n)} removed.`, `${whole(n)} 件を削除しました。`),
    },
  ],
  empty: t("The space is empty.", "スペースは空です。"),
  news: ["state"],
});
