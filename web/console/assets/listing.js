// A list of one system's things: searched, filtered and paged on the node, with a page for one thing and actions on one, on a selection, or on
// everything found. The address holds the filter and the thing that is open, so that a finding can be handed on.
//
// Guarantees: what is shown is always a whole answer of the node, and never an older one than what was shown before: news only make the list ask
// again, and one question is under way at a time. On an older page nothing moves under the reader's eyes. Nothing is loaded whole: a search goes on
// page by page until it has found something or reached the end.

import { ask, serverNow } from "./api.js";
import { openPage } from "./app.js";
import { at, h, keyed, say } from "./dom.js";
import { exact, moment, whole } from "./format.js";
import { t } from "./language.js";
import { may, mayPress } from "./session.js";

const PAGE_ROWS = 50;
// Most things that one action is done to at once, and most that "everything found" gathers.
const CHUNK = 500;
const EVERYTHING_MAX = 100_000;
// A list that changes all the time is read again this often.
const AGAIN_MS = 1_000;
// What ends by itself, or changed through another node, is no news here: a list without a search is read again this often.
const LOOK_MS = 5_000;

/**
 * @template T
 * @typedef {{
 *   title: string,
 *   filters?: { name: string, label: string, options: [value: string, words: string][] }[],
 *   fixed?: string[],
 *   tabs?: { name: string, values: [value: string, words: string][] , counts?: () => Promise<Record<string, number>> },
 *   columns: { label: string, wide?: boolean, number?: boolean, cell: (item: T) => any }[],
 *   keyOf: (item: T) => string,
 *   ask: (params: URLSearchParams) => Promise<{ items: T[], next: string | number | null }>,
 *   one?: (key: string) => Promise<T>,
 *   facts?: (item: T) => [string, any][],
 *   body?: (item: T) => Node | null,
 *   audit?: (item: T) => URLSearchParams,
 *   actions?: Action<T>[],
 *   empty: string,
 *   news?: string[],
 *   search?: string,
 *   isShort?: boolean,
 * }} Listing
 */
/**
 * @template T
 * @typedef {{ name: string, label: string, needs: (key?: string) => string, when?: (item: T | null) => boolean, question?: (n: number, only: string) => string,
 *   ends?: boolean, run: (items: T[]) => Promise<number>, done: (n: number) => string, everything?: () => Promise<{ count: number, run: () => Promise<number> } | null> }} Action
 * `ends`: what it is done to is gone afterwards. `everything` is how the node itself does it to all of the tab: nothing is gathered then. `null`: it cannot.
 */

/**
 * Brings a list to life in `#listing`.
 * @template T
 * @param {Listing<T>} list
 */
export function openListing(list) {
  const root = at("listing");
  const asked = () => new URLSearchParams(location.search);
  const names = ["q", ...(list.filters ?? []).map(({ name }) => name)];
  /** @type {Map<string, T>} */
  let shown = new Map();
  /** @type {Set<string>} */
  const chosen = new Set();
  let again = 0;

  const tabs = h("ul", { class: "tabs" });
  const search = /** @type {HTMLInputElement} */ (h("input", { id: "q", name: "q", type: "search", maxlength: "200", autocomplete: "off", spellcheck: "false" }));
  const selects = (list.filters ?? []).map(({ name, label, options }) => {
    const select = /** @type {HTMLSelectElement} */ (h("select", { id: `f-${name}`, name }, ...options.map(([value, words]) => h("option", { value }, words))));
    select.addEventListener("change", () => form.requestSubmit());
    return { name, select, field: h("p", {}, h("label", { for: `f-${name}` }, label), select) };
  });
  const clear = h("a", { class: "button", href: location.pathname, hidden: true }, t("Clear", "消す"));
  const form = /** @type {HTMLFormElement} */ (
    h("form", { class: "filters", role: "search", on: { submit } }, h("p", { class: "wide" }, h("label", { for: "q" }, list.search ?? t("Search", "検索")), search), ...selects.map(({ field }) => field), h("p", { class: "actions" }, h("button", { class: "button", type: "submit" }, t("Find", "探す")), clear))
  );
  const told = h("p", { class: "quiet told", role: "status" });
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  const all = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": t("Select all on this page", "このページをすべて選ぶ"), on: { change: () => selectPage(all.checked) } }));
  const bulk = h("div", { class: "bulk", hidden: true });
  const rows = h("tbody");
  const acts = list.actions ?? [];
  const table = h(
    "table",
    { class: "stacks listed", hidden: true },
    h("thead", {}, h("tr", {}, acts.length > 0 ? h("th", { scope: "col", class: "pick" }, all) : null, ...list.columns.map(({ label, number }) => h("th", { scope: "col", class: number ? "number" : undefined }, label)))),
    rows,
  );
  const empty = h("p", { class: "empty", hidden: true });
  const first = /** @type {HTMLButtonElement} */ (h("button", { class: "button small", type: "button", on: { click: () => go((params) => params.delete("after")) } }, t("First page", "最初")));
  const older = /** @type {HTMLButtonElement} */ (h("button", { class: "button small", type: "button" }, t("Next page", "次へ")));
  const place = h("span", { class: "note", "aria-live": "polite" });
  const one = h("section", { class: "card one", "aria-labelledby": "one-title", hidden: true });
  root.before(one);
  root.append(list.tabs ? h("nav", { "aria-label": t("State", "状態") }, tabs) : "", form, trouble, told, bulk, table, empty, h("div", { class: "paging" }, first, place, older));

  const page = openPage({
    async read() {
      const params = asked();
      for (const name of names) {
        const field = name === "q" ? search : selects.find((each) => each.name === name)?.select;
        if (field && document.activeElement !== field) field.value = params.get(name) ?? "";
      }
      clear.hidden = names.every((name) => !params.get(name));
      clear.setAttribute("href", address((kept) => [...names, "after", "one"].forEach((name) => kept.delete(name))));
      const [, found] = await Promise.all([showTabs(), gather(PAGE_ROWS, params.get("after"))]);
      show(found.items, found.next);
      await showOne();
    },
    on: Object.fromEntries((list.news ?? []).map((name) => [name, heard])),
  });

  /** News say that something changed; what it is now is asked for, at most once a second, and only where the newest are shown. */
  function heard() {
    if (again !== 0 || asked().has("after")) return;
    again = window.setTimeout(() => ((again = 0), page.refresh()), AGAIN_MS);
  }

  /** Reads until there is something to show, or nothing left. */
  async function gather(/** @type {number} */ limit, /** @type {string | null} */ after) {
    /** @type {T[]} */
    const items = [];
    /** @type {string | null} */
    let next = after;
    do {
      const wanted = new URLSearchParams(asked());
      for (const name of ["after", "one"]) wanted.delete(name);
      wanted.set("limit", String(Math.min(limit - items.length, 1_000)));
      if (next !== null) wanted.set("after", next);
      const answer = await list.ask(wanted);
      items.push(...answer.items);
      next = answer.next === null ? null : String(answer.next);
      if (limit > PAGE_ROWS) say(told, t(`${whole(items.length)} found so far`, `${whole(items.length)} 件見つかりました`));
    } while (next !== null && (items.length === 0 || (limit > PAGE_ROWS && items.length < limit)));
    return { items, next };
  }

  async function showTabs() {
    if (!list.tabs) return;
    const { name, values } = list.tabs;
    const counts = (await list.tabs.counts?.()) ?? {};
    const present = asked().get(name) ?? values[0][0];
    tabs.replaceChildren(
      ...values.map(([value, words]) =>
        h("li", {}, h("a", { href: address((params) => (params.set(name, value), params.delete("after"), params.delete("one"))), "aria-current": value === present ? "page" : undefined }, words, value in counts ? h("span", { class: "note" }, ` ${whole(counts[value])}`) : null)),
      ),
    );
  }

  function show(/** @type {T[]} */ items, /** @type {string | null} */ next) {
    shown = new Map(items.map((item) => [list.keyOf(item), item]));
    for (const key of [...chosen]) if (!shown.has(key)) chosen.delete(key);
    table.hidden = items.length === 0;
    empty.hidden = items.length > 0;
    say(empty, clear.hidden ? list.empty : t("Nothing fits: all of them were looked at.", "一致するものはありません。すべて調べました。"));
    keyed(rows, items, list.keyOf, createRow);
    older.disabled = next === null;
    first.disabled = !asked().has("after");
    older.onclick = () => go((params) => params.set("after", String(next)));
    say(place, items.length > 0 ? t(`${whole(items.length)} shown${next === null && first.disabled ? ", all there are" : ""}`, `${whole(items.length)} 件`) : "");
    showBulk();
  }

  function createRow(/** @type {T} */ item) {
    const key = list.keyOf(item);
    const pick = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": t(`Select ${key}`, `${key} を選ぶ`), on: { change: () => (pick.checked ? chosen.add(key) : chosen.delete(key), showBulk()) } }));
    const cells = list.columns.map(({ label, wide, number }, index) => h(index === 0 ? "th" : "td", { "data-label": index === 0 ? undefined : label, scope: index === 0 ? "row" : undefined, class: [wide ? "wide" : "", number ? "number" : ""].join(" ").trim() || undefined }));
    const node = h("tr", {}, acts.length > 0 ? h("td", { class: "pick" }, pick) : null, ...cells);
    let last = "";
    return {
      node,
      update(/** @type {T} */ next) {
        pick.checked = chosen.has(key);
        const now = JSON.stringify(next);
        if (now === last && !hasClock(cells)) return;
        last = now;
        list.columns.forEach(({ cell }, index) => {
          const words = cell(next);
          if (index > 0 || !list.one) return cells[index].replaceChildren(h("div", {}, words));
          cells[index].replaceChildren(h("a", { class: "mono", href: address((params) => params.set("one", key)) }, words));
        });
      },
    };
  }

  function selectPage(/** @type {boolean} */ isOn) {
    chosen.clear();
    if (isOn) for (const key of shown.keys()) chosen.add(key);
    for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (rows.querySelectorAll("input[type=checkbox]"))) box.checked = isOn;
    showBulk();
  }

  function showBulk() {
    all.checked = shown.size > 0 && chosen.size === shown.size;
    all.indeterminate = chosen.size > 0 && chosen.size < shown.size;
    const usable = acts.filter(({ needs, when }) => mayPress(needs()) && (when?.(null) ?? true));
    bulk.hidden = shown.size === 0 || usable.length === 0;
    // What nothing can be done to is not chosen either.
    table.classList.toggle("no-pick", usable.length === 0);
    const some = chosen.size > 0;
    bulk.replaceChildren(
      h("p", { class: "note" }, some ? t(`${whole(chosen.size)} selected`, `${whole(chosen.size)} 件選択`) : t("Everything found", "見つかったすべて")),
      h("p", { class: "actions" }, ...usable.map((action) => h("button", { class: "button small", type: "button", on: { click: () => act(action, some ? [...chosen].map((key) => /** @type {T} */ (shown.get(key))) : null) } }, some ? action.label : t(`${action.label} all`, `すべて${action.label}`)))),
    );
  }

  /**
   * Does something to these, or to everything that the filter finds, once somebody has said yes to the number.
   * @param {Action<T>} action
   * @param {T[] | null} items
   */
  async function act(action, items) {
    trouble.hidden = true;
    try {
      const isAll = items === null && names.every((name) => !asked().get(name));
      const all = isAll ? await action.everything?.() : null;
      if (all) return await actOnAll(action, all);
      const meant = items ?? (await gather(EVERYTHING_MAX, null)).items;
      const question = action.question?.(meant.length, meant.length === 1 ? list.keyOf(meant[0]) : "");
      if (meant.length === 0 || (question && !confirm(question))) return say(told, "");
      let done = 0;
      for (let from = 0; from < meant.length; from += CHUNK) {
        done += await action.run(meant.slice(from, from + CHUNK));
        say(told, action.done(done));
      }
      ended(action, meant.map(list.keyOf));
    } catch (error) {
      say(trouble, error.message);
      trouble.hidden = false;
    }
    page.refresh();
  }

  /** The same, left to the node. */
  async function actOnAll(/** @type {Action<T>} */ action, /** @type {{ count: number, run: () => Promise<number> }} */ all) {
    const question = action.question?.(all.count, [...shown.keys()][0] ?? "");
    if (all.count === 0 || (question && !confirm(question))) return say(told, "");
    say(told, action.done(await all.run()));
    ended(action, null);
    page.refresh();
  }

  /** What is gone is neither chosen nor open any more. */
  function ended(/** @type {Action<T>} */ { ends }, /** @type {string[] | null} */ keys) {
    chosen.clear();
    const open = asked().get("one");
    if (ends && open !== null && (keys === null || keys.includes(open))) history.replaceState(null, "", address((params) => params.delete("one")));
  }

  /** The one thing that the address names, with its facts, what it holds, and what the audit knows of it. */
  async function showOne() {
    const key = asked().get("one");
    if (!list.one || key === null) {
      one.hidden = true;
      return;
    }
    const item = await list.one(key).catch((error) => {
      if (error.status === 404) return null;
      throw error;
    });
    const close = h("a", { class: "button small", href: address((params) => params.delete("one")) }, t("Close", "閉じる"));
    const buttons = item ? acts.filter(({ needs, when }) => mayPress(needs(key)) && (when?.(item) ?? true)).map((action) => h("button", { class: "button small", type: "button", on: { click: () => act(action, [item]) } }, action.label)) : [];
    const facts = item ? (list.facts?.(item) ?? []) : [];
    const hasAudit = (document.documentElement.dataset.parts ?? "").split(" ").includes("access");
    const past = item && list.audit && hasAudit && may("audit", "read", "*") ? await ask(`/api/audit?${list.audit(item)}`).then(({ entries }) => entries, () => []) : [];
    // A list that changes all the time takes nobody's place in it: the keyboard goes on where it was.
    const places = () => [...one.querySelectorAll("a[href], button, [tabindex]")];
    const focused = one.hidden ? -1 : places().indexOf(/** @type {Element} */ (document.activeElement));
    one.replaceChildren(
      h("div", { class: "card-head" }, h("h2", { id: "one-title", class: "mono" }, key), h("p", { class: "actions" }, ...buttons, close)),
      item ? h("dl", { class: "facts" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))) : h("p", { class: "empty" }, t("It is not there any more.", "もうありません。")),
      (item && list.body?.(item)) ?? "",
      past.length > 0 ? h("h3", {}, t("Who did what to it", "操作の記録")) : "",
      past.length > 0 ? h("ul", { class: "entries" }, ...past.map((/** @type {any} */ entry) => h("li", {}, h("span", {}, `${entry.verb}: ${entry.outcome}`), h("span", { class: "note" }, `${entry.subject ?? entry.name ?? entry.kind}, `, when(entry.at))))) : "",
    );
    one.hidden = false;
    if (focused >= 0) /** @type {HTMLElement | undefined} */ (places()[focused])?.focus({ preventScroll: true });
  }

  function submit(/** @type {Event} */ event) {
    event.preventDefault();
    go((params) => {
      params.delete("after");
      params.delete("one");
      for (const [name, field] of /** @type {[string, HTMLInputElement | HTMLSelectElement][]} */ ([["q", search], ...selects.map(({ name, select }) => [name, select])])) {
        if (field.value.trim()) params.set(name, field.value.trim());
        else params.delete(name);
      }
    });
  }

  function address(/** @type {(params: URLSearchParams) => unknown} */ change) {
    const params = asked();
    change(params);
    const query = params.toString();
    return query ? `${location.pathname}?${query}` : location.pathname;
  }

  /** Goes to another address of this page, which the browser's back button leaves again. */
  function go(/** @type {(params: URLSearchParams) => unknown} */ change) {
    history.pushState(null, "", address(change));
    chosen.clear();
    say(told, "");
    page.refresh();
  }

  // Links within the page need no new page.
  document.addEventListener("click", (event) => {
    const link = /** @type {HTMLElement} */ (event.target).closest?.("a");
    if (!link || link.closest("header, footer") || link.pathname !== location.pathname || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go((params) => {
      for (const name of [...params.keys()]) params.delete(name);
      new URLSearchParams(link.search).forEach((value, name) => params.set(name, value));
    });
  });
  addEventListener("popstate", () => page.refresh());
  // A search may look at thousands of rows; one in a short list costs nothing.
  setInterval(() => document.hidden || (asked().get("q") && !list.isShort) || heard(), LOOK_MS);
  return page;
}

/** A moment, exact on hover. */
export function when(/** @type {number | null | undefined} */ ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  return h("time", { datetime: new Date(ms).toISOString(), title: exact(ms) }, moment(ms, serverNow(), true));
}

/** JSON as people read it. */
export function pretty(/** @type {unknown} */ value, /** @type {string} */ label) {
  return h("pre", { tabindex: "0", role: "region", "aria-label": label }, h("code", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2)));
}

/** A long text, cut for a row of a table. */
export function cut(/** @type {unknown} */ value, most = 80) {
  const text = value === undefined || value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Whether a row shows something that goes on without news. */
function hasClock(/** @type {Element[]} */ cells) {
  return cells.some((cell) => cell.querySelector("[data-clock]"));
}
