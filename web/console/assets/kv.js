// Keys and their values.

import { ask, serverNow } from "./api.js";
import { at, h, say } from "./dom.js";
import { span, whole } from "./format.js";
import { t, translate } from "./language.js";
import { cut, openListing, pretty, when } from "./listing.js";

/** @typedef {{ key: string, value?: string, ttlMs: number | null }} Stored */

translate();
const path = (/** @type {string} */ key) => `/api/kv/${encodeURIComponent(key)}`;

const page = openListing({
  title: t("Keys", "キー"),
  search: t("Key", "キー"),
  columns: [
    { label: t("Key", "キー"), cell: ({ key }) => key },
    { label: t("Value", "値"), wide: true, cell: ({ value }) => cut(value) },
    { label: t("Lives for", "残り"), cell: ({ ttlMs }) => h("span", { "data-clock": "" }, ttlMs === null ? t("ever", "無期限") : span(ttlMs)) },
  ],
  keyOf: (/** @type {Stored} */ { key }) => key,
  async ask(wanted) {
    const { entries, next } = await ask(`/api/kv?${wanted}`);
    return { items: entries, next };
  },
  one: (key) => ask(path(key)),
  facts: ({ value, ttlMs }) => [
    [t("Bytes", "バイト"), whole(new TextEncoder().encode(value ?? "").length)],
    [t("Ends", "終了"), ttlMs === null ? t("never", "なし") : when(serverNow() + ttlMs)],
  ],
  body: ({ value }) => pretty(value ?? "", t("Value", "値")),
  audit: ({ key }) => new URLSearchParams({ system: "kv", q: key, limit: "10" }),
  actions: [
    {
      name: "remove",
      ends: true,
      label: t("Remove", "削除"),
      needs: (key) => `kv:${key ?? "?"}:write`,
      question: (n, only) => t(`Remove ${n === 1 ? only : `${whole(n)} keys`}?`, `${n === 1 ? only : `${whole(n)} 件`} を削除しますか。`),
      async run(entries) {
        let removed = 0;
        for (const { key } of entries) removed += (await ask(path(key), { method: "DELETE" })).deleted ? 1 : 0;
        return removed;
      },
      done: (n) => t(`${whole(n)} removed.`, `${whole(n)} 件を削除しました。`),
    },
  ],
  empty: t("No key is stored.", "キーはありません。"),
});

at("kv-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (at(id)).value;
  try {
    const ttl = text("kv-ttl");
    await ask(path(text("kv-key")), { method: "PUT", body: { value: text("kv-value"), ...(ttl ? { ttlSec: Number(ttl) } : {}) } });
    say(at("kv-told"), t(`${text("kv-key")} is written.`, `${text("kv-key")} を書きました。`));
    page.refresh();
  } catch (error) {
    say(at("kv-told"), error.message);
  }
});
