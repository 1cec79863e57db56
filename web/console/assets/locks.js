// Locks that are held.

import { ask, serverNow } from "./api.js";
import { h } from "./dom.js";
import { span, whole } from "./format.js";
import { t, translate } from "./language.js";
import { openListing, when } from "./listing.js";

/** @typedef {{ name: string, holder: string, token: number, ageMs: number, expiresInMs: number }} Lock */

translate();
// A lease that has been renewed for so long may be one that nobody means to end.
const LONG_MS = 3_600_000;
const held = (/** @type {Lock} */ { ageMs }) => h("span", { class: ageMs > LONG_MS ? "is-warn" : undefined, "data-clock": "" }, span(ageMs));

openListing({
  title: t("Locks", "ロック"),
  search: t("Name or holder", "名前または保持者"),
  columns: [
    { label: t("Name", "名前"), cell: ({ name }) => name },
    { label: t("Holder", "保持者"), cell: ({ holder }) => h("span", { class: "mono" }, holder) },
    { label: t("Held for", "保持時間"), cell: held },
    { label: t("Ends in", "残り"), cell: ({ expiresInMs }) => h("span", { "data-clock": "" }, span(expiresInMs)) },
    { label: t("Token", "トークン"), number: true, cell: ({ token }) => h("span", { class: "mono" }, String(token)) },
  ],
  keyOf: (/** @type {Lock} */ { name }) => name,
  async ask(wanted) {
    const { locks, next } = await ask(`/api/locks?${wanted}`);
    return { items: locks, next };
  },
  async one(name) {
    const { locks } = await ask(`/api/locks?${new URLSearchParams({ prefix: name, limit: "1" })}`);
    return locks[0]?.name === name ? locks[0] : Promise.reject(Object.assign(new Error("gone"), { status: 404 }));
  },
  facts: (lock) => [
    [t("Holder", "保持者"), lock.holder],
    [t("Held since", "開始"), h("span", {}, when(serverNow() - lock.ageMs), h("small", {}, span(lock.ageMs)))],
    [t("Ends unless renewed", "更新されなければ終了"), when(serverNow() + lock.expiresInMs)],
    [t("Fencing token", "フェンシングトークン"), String(lock.token)],
  ],
  audit: ({ name }) => new URLSearchParams({ system: "lock", q: name, limit: "10" }),
  actions: [
    {
      name: "release",
      ends: true,
      label: t("Release", "解放"),
      needs: (name) => `lock:${name ?? "?"}:force`,
      question: (n, only) => t(`Take ${n === 1 ? only : `${whole(n)} locks`} away from ${n === 1 ? "its holder" : "their holders"}? Whoever works under it finds out when it renews; the next who waits gets it at once.`, `${n === 1 ? only : `${whole(n)} 件のロック`} を解放しますか。`),
      async run(locks) {
        let released = 0;
        for (const { name } of locks) released += (await ask(`/api/locks/${encodeURIComponent(name)}/release`, { method: "POST", body: { force: true } })).released ? 1 : 0;
        return released;
      },
      done: (n) => t(`${whole(n)} released.`, `${whole(n)} 件を解放しました。`),
    },
  ],
  empty: t("No lock is held.", "保持されているロックはありません。"),
  news: ["lock.acquired", "lock.released"],
});
