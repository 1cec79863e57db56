// Saved searches: what they look for, how far they are, and the books they found.

import { ask } from "/assets/api.js";
import { at, h, keyed, say } from "/assets/dom.js";
import { count } from "/assets/format.js";
import { merge } from "/assets/news.js";
import { cover } from "./shelf-books.js";

const FOUND_SHOWN = 24;
const WORDS = { title: "title", creator: "author", publisher: "publisher", any: "anywhere", ndc: "class", from: "from", until: "until" };

/** @typedef {{ id: number, search: Record<string, string | null>, state: "searching" | "found", count: number, total: number | null, ending: string | null }} Search */

export function openSearches() {
  /** @type {Map<number, Search>} */
  let searches = new Map();
  const form = /** @type {HTMLFormElement} */ (at("search"));
  const trouble = at("search-trouble");

  function show() {
    keyed(at("searches"), [...searches.values()], ({ id }) => id, (search) => createSearch(search, remove));
    at("searches-empty").hidden = searches.size > 0;
  }

  async function attempt(/** @type {() => Promise<void>} */ work) {
    trouble.hidden = true;
    try {
      await work();
    } catch (error) {
      say(trouble, error.message);
      trouble.hidden = false;
    }
  }

  const remove = (/** @type {number} */ id) =>
    attempt(async () => {
      await ask(`/api/shelf/searches/${id}`, { method: "DELETE" });
      searches.delete(id);
      show();
    });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      const wanted = Object.fromEntries([...new FormData(form)].filter(([, text]) => String(text).trim() !== ""));
      if (Object.keys(wanted).length === 0) throw new Error("Fill in a title, an author or a publisher.");
      await merge(ask("/api/shelf/search", { method: "POST", body: wanted }), (saved) => {
        searches.set(saved.id, saved);
        show();
      });
      form.reset();
    });
  });

  return {
    async read() {
      await merge(ask("/api/shelf/searches"), (all) => {
        searches = new Map(all.searches.map((/** @type {Search} */ search) => [search.id, search]));
        show();
      });
    },
    put(/** @type {Search} */ search) {
      searches.set(search.id, search);
      show();
    },
  };
}

/**
 * @param {Search} first
 * @param {(id: number) => void} remove
 */
function createSearch(first, remove) {
  const state = h("span", { class: "note" });
  const found = h("ul", { class: "found" });
  let search = first;
  const details = /** @type {HTMLDetailsElement} */ (h("details", {}, h("summary", {}, h("span", { class: "wanted" }, inWords(first)), " ", state), found));
  const button = h("button", { class: "button small", type: "button", "data-needs": "shelf:*:write", on: { click: () => remove(first.id) } }, "Remove");
  button.setAttribute("aria-label", `Remove the search for ${inWords(first)}`);
  const list = async () => {
    try {
      const { books } = await ask(`/api/shelf/searches/${first.id}?limit=${FOUND_SHOWN}`);
      found.replaceChildren(
        ...books.map((/** @type {any} */ book) => h("li", {}, h("div", { class: "cover small" }, cover(book.cover ?? undefined)), h("p", {}, book.title || book.isbn))),
        ...(search.count > books.length ? [h("li", { class: "note" }, `and ${count(search.count - books.length, "more book").replace("more books", "more")}`)] : []),
      );
    } catch (error) {
      found.replaceChildren(h("li", { class: "note" }, error.message));
    }
  };
  details.addEventListener("toggle", () => details.open && list());
  return {
    node: h("li", {}, details, button),
    update(/** @type {Search} */ next) {
      search = next;
      const of = next.total !== null && next.total > next.count ? ` of ${next.total}` : "";
      const part = next.ending === "cap" ? ", the first part" : "";
      say(state, next.state === "searching" ? "searching" : `${count(next.count, "book")}${of}${part}`);
      if (details.open) list();
    },
  };
}

function inWords(/** @type {Search} */ { search }) {
  const parts = Object.entries(search).filter(([, value]) => value !== null && value !== "");
  return parts.map(([name, value]) => `${/** @type {Record<string, string>} */ (WORDS)[name] ?? name} “${value}”`).join(", ") || "everything";
}
