// Rooms of viewers, and who is in one.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { whole } from "./format.js";
import { t, translate } from "./language.js";
import { openListing } from "./listing.js";
import { may } from "./session.js";

/** @typedef {{ user: string, sessions: number, visible: number, verified: boolean }} Person */
/** @typedef {{ room: string, sessions: number, visible: number, people: number, named?: Person[], next?: string | null }} Room */

translate();
const PEOPLE_SHOWN = 50;
const mayName = (/** @type {string} */ room) => may("viewer", "see", room);
const room = (/** @type {string} */ name) => `/api/viewer/rooms/${encodeURIComponent(name)}`;

/** Which people of a room are shown: those behind a name. The address says of which room that is. */
const place = {
  of(/** @type {string} */ name) {
    const [of, ...after] = (new URLSearchParams(location.search).get("people") ?? "").split("/");
    return of === encodeURIComponent(name) && after.length > 0 ? after.join("/") : null;
  },
  link(/** @type {string} */ name, /** @type {string | null} */ after) {
    const params = new URLSearchParams(location.search);
    if (after === null) params.delete("people");
    else params.set("people", `${encodeURIComponent(name)}/${after}`);
    return `${location.pathname}?${params}`;
  },
};

openListing({
  title: t("Rooms", "ルーム"),
  search: t("Name", "名前"),
  columns: [
    { label: t("Room", "ルーム"), cell: ({ room }) => room },
    { label: t("People", "人数"), number: true, cell: ({ people }) => whole(people) },
    { label: t("Sessions", "セッション"), number: true, cell: ({ sessions }) => whole(sessions) },
    { label: t("In sight", "表示中"), number: true, cell: ({ visible }) => whole(visible) },
  ],
  keyOf: (/** @type {Room} */ { room }) => room,
  async ask(wanted) {
    wanted.delete("people");
    const { rooms, next } = await ask(`/api/viewer/rooms?${wanted}`);
    return { items: rooms, next };
  },
  async one(name) {
    const after = place.of(name);
    const wanted = new URLSearchParams({ limit: String(PEOPLE_SHOWN), ...(after === null ? {} : { after }) });
    const [counts, listed] = await Promise.all([ask(room(name)), mayName(name) ? ask(`${room(name)}/people?${wanted}`) : null]);
    return { ...counts, named: listed?.people, next: listed?.next };
  },
  facts: ({ people, sessions, visible }) => [
    [t("People", "人数"), whole(people)],
    [t("Sessions", "セッション"), whole(sessions)],
    [t("Page in sight", "表示中"), whole(visible)],
    [t("In the background", "背後"), whole(Math.max(0, sessions - visible))],
  ],
  body: showPeople,
  empty: t("Nobody is in a room. A page says where its viewer is with startViewer({ room, user }).", "ルームには誰もいません。ページは startViewer({ room, user }) で居場所を知らせます。"),
  news: ["room", "people.joined", "people.left"],
});

/** Who is in a room by name; sessions that name nobody are counted alone. */
function showPeople(/** @type {Room} */ { room, sessions, named, next }) {
  if (sessions === 0) return h("p", { class: "empty" }, t("Nobody is in it any more.", "もう誰もいません。"));
  if (!named) return h("p", { class: "note" }, t("Who they are is for those with the grant to see it.", "誰がいるかを見る権限がありません。"));
  const after = place.of(room);
  if (named.length === 0 && after === null) return h("p", { class: "note" }, t("None of them says who it is.", "名乗っている人はいません。"));
  const row = (/** @type {Person} */ { user, sessions, visible, verified }) =>
    h("tr", {}, h("th", { scope: "row", class: "mono" }, user), cell(t("Sessions", "セッション"), whole(sessions)), cell(t("In sight", "表示中"), whole(visible)), h("td", { "data-label": t("Name", "名前") }, h("div", {}, verified ? t("proved by a token", "トークンで確認済み") : t("as the page says", "ページの申告"))));
  const cell = (/** @type {string} */ label, /** @type {string} */ value) => h("td", { class: "number", "data-label": label }, h("div", {}, value));
  const head = [t("Person", "人"), t("Sessions", "セッション"), t("In sight", "表示中"), t("Name", "名前")];
  return h(
    "div",
    {},
    h("table", { class: "stacks listed" }, h("thead", {}, h("tr", {}, ...head.map((label, index) => h("th", { scope: "col", class: index === 1 || index === 2 ? "number" : undefined }, label)))), h("tbody", {}, ...named.map(row))),
    h(
      "p",
      { class: "paging" },
      after === null ? h("span") : h("a", { class: "button small", href: place.link(room, null) }, t("First people", "最初")),
      h("span", { class: "note" }, t(`${named.length === 1 ? "1 person" : `${whole(named.length)} people`} shown`, `${whole(named.length)} 人`)),
      next ? h("a", { class: "button small", href: place.link(room, next) }, t("Next people", "次へ")) : h("span"),
    ),
  );
}
