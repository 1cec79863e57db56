// The audit page: what was done that cannot be undone, who signed in, and what was refused. Searched, filtered and paged on the node; the address holds
// the filter, so that a finding can be handed on. New entries come by themselves on the newest page only, so that nothing moves under
// the eyes of somebody who is reading an older one.

import { ask, serverNow } from "./api.js";
import { openPage } from "./app.js";
import { at, h, keyed, say } from "./dom.js";
import { exact, moment, whole } from "./format.js";
import { t, translate } from "./language.js";
import { may } from "./session.js";

const PAGE_ROWS = 50;
const FILTERS = /** @type {const} */ (["q", "system", "who", "outcome"]);
const SYSTEMS = ["state", "lock", "queue", "viewer", "job", "outbox", "entity", "ingest", "kv", "key", "token", "issuer", "audit", "session", "node"];
const OUTCOMES = /** @type {Record<string, string>} */ ({ done: t("done", "完了"), refused: t("refused", "拒否"), failed: t("failed", "失敗"), begun: t("begun", "不明") });

/**
 * @typedef {{ id: number, at: number, node: string, kind: string, name: string, subject: string | null, system: string, verb: string, thing: string,
 *   action: string, address: string | null, origin: string | null, outcome: string, code: string, count: number }} Entry
 */

translate();
at("system").append(...SYSTEMS.map((system) => h("option", { value: system }, system)));

const field = (/** @type {string} */ name) => /** @type {HTMLInputElement | HTMLSelectElement} */ (at(name));
const asked = () => new URLSearchParams(location.search);

const page = openPage({
  async read() {
    showFilters();
    if (!may("audit", "read", "*")) return show([], null);
    const { entries, next } = await ask(`/api/audit?${question()}`);
    show(entries, next);
  },
  on: { audit: () => asked().has("after") || page.refresh() },
});

/** What the address asks for, as the node is asked. */
function question() {
  const wanted = new URLSearchParams({ limit: String(PAGE_ROWS) });
  for (const name of [...FILTERS, "after"]) {
    const value = asked().get(name);
    if (value) wanted.set(name, value);
  }
  return wanted;
}

function showFilters() {
  for (const name of FILTERS) {
    const value = asked().get(name) ?? "";
    if (document.activeElement !== field(name)) field(name).value = value;
  }
  at("clear").hidden = FILTERS.every((name) => !asked().get(name));
}

function show(/** @type {Entry[]} */ entries, /** @type {number | null} */ next) {
  at("audit-table").hidden = entries.length === 0;
  const isFiltered = !at("clear").hidden;
  at("audit-empty").hidden = entries.length > 0;
  say(
    at("audit-empty"),
    !may("audit", "read", "*")
      ? t("Reading the audit needs the grant audit:*:read.", "監査を読むには許可 audit:*:read が必要です。")
      : isFiltered
      ? t("Nothing fits. Older entries may: go on, or clear the filter.", "一致するものはありません。古い記録を見るか、条件を消してください。")
      : t("Nothing has been recorded yet. Refusals, sign-ins and what cannot be undone appear here.", "まだ記録はありません。拒否、サインイン、取り消せない操作がここに現れます。"),
  );
  keyed(at("entries"), entries, ({ id }) => id, createRow);
  const older = /** @type {HTMLButtonElement} */ (at("older"));
  const newest = /** @type {HTMLButtonElement} */ (at("newest"));
  older.disabled = next === null;
  newest.disabled = !asked().has("after");
  older.onclick = () => go((params) => params.set("after", String(next)));
  newest.onclick = () => go((params) => params.delete("after"));
  const last = entries.at(-1);
  say(at("place"), last ? t(`back to ${moment(last.at, serverNow())}`, `${moment(last.at, serverNow())} まで`) : "");
}

/** Goes to another address of this page, which the browser's back button leaves again. */
function go(/** @type {(params: URLSearchParams) => void} */ change) {
  const params = asked();
  change(params);
  const query = params.toString();
  history.pushState(null, "", query ? `/audit?${query}` : "/audit");
  page.refresh();
}

at("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  go((params) => {
    params.delete("after");
    for (const name of FILTERS) {
      const value = field(name).value.trim();
      if (value) params.set(name, value);
      else params.delete(name);
    }
  });
});
for (const name of ["system", "outcome"]) field(name).addEventListener("change", () => /** @type {HTMLFormElement} */ (at("filters")).requestSubmit());
addEventListener("popstate", () => page.refresh());

function createRow(/** @type {Entry} */ first) {
  const outcome = h("span", { class: "outcome" });
  const code = h("small", { class: "note" });
  const who = first.kind === "owner" ? t("owner", "所有者") : first.kind === "nobody" ? t("nobody", "不明な人") : (first.subject ?? first.name);
  const facts = [
    [t("Operation", "操作"), first.action],
    [t("Acted as", "名前"), [...new Set([first.kind, first.name])].join(" ") + (first.subject ? ` / ${first.subject}` : "")],
    [t("Origin", "オリジン"), first.origin ?? "–"],
    [t("Node", "ノード"), first.node],
    [t("Number", "番号"), String(first.id)],
  ];
  const node = h(
    "tr",
    {},
    h("td", { "data-label": t("When", "時刻") }, h("time", { datetime: new Date(first.at).toISOString(), title: exact(first.at) }, moment(first.at, serverNow(), true))),
    h("td", { "data-label": t("Who", "誰") }, h("div", {}, h("span", { class: "mono" }, who), first.kind === "key" || first.kind === "person" ? h("small", { class: "note" }, ` ${first.kind === "key" ? t("key", "鍵") : first.name}`) : null)),
    h(
      "td",
      { "data-label": t("What", "何を") },
      h("details", {}, h("summary", {}, h("span", { class: "mono" }, [first.system, first.thing, first.verb].filter(Boolean).join(":"))), h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]))),
    ),
    h("td", { "data-label": t("Outcome", "結果") }, h("div", {}, outcome, " ", code)),
    h("td", { "data-label": t("From", "どこから") }, h("span", { class: "mono" }, first.address ?? "–")),
  );
  return {
    node,
    update(/** @type {Entry} */ entry) {
      outcome.dataset.outcome = entry.outcome;
      say(outcome, OUTCOMES[entry.outcome] ?? entry.outcome);
      say(code, `${entry.code}${entry.count > 1 ? ` × ${whole(entry.count)}` : ""}`);
    },
  };
}
