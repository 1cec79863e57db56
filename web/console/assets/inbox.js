// Entities of one kind that came from elsewhere.

import { ask } from "./api.js";
import { at, say } from "./dom.js";
import { t, translate } from "./language.js";
import { cut, openListing, pretty, when } from "./listing.js";

/** @typedef {{ entityType: string, entityId: string, payload: unknown, version: string, changedAt: string, receivedAt: string, sender?: string }} Entity */

translate();
const kind = new URLSearchParams(location.search).get("type") ?? "";
const path = `/api/entities/${encodeURIComponent(kind)}`;
say(at("heading"), t(`Inbox: ${kind}`, `受信: ${kind}`));
document.title = `${kind} · Inbox · Syncline`;

openListing({
  title: kind,
  columns: [
    { label: t("Id", "番号"), cell: ({ entityId }) => entityId },
    { label: t("Value", "内容"), wide: true, cell: ({ payload }) => cut(payload) },
    { label: t("From", "送り手"), cell: ({ sender }) => sender ?? "–" },
    { label: t("Received", "受信"), cell: ({ receivedAt }) => when(Date.parse(receivedAt)) },
  ],
  keyOf: (/** @type {Entity} */ { entityId }) => entityId,
  async ask(wanted) {
    wanted.delete("type");
    const { entities, next } = await ask(`${path}?${wanted}`);
    return { items: entities, next };
  },
  one: (id) => ask(`${path}/${encodeURIComponent(id)}`),
  facts: ({ changedAt, receivedAt, sender, version }) => [
    [t("Changed", "変更"), when(Date.parse(changedAt))],
    [t("Received", "受信"), when(Date.parse(receivedAt))],
    [t("From", "送り手"), sender ?? "–"],
    [t("Version", "版"), version],
  ],
  body: ({ payload }) => pretty(payload, t("Value", "内容")),
  empty: t("Nothing of this kind has come yet.", "まだ届いていません。"),
  news: ["entity.changed"],
});
