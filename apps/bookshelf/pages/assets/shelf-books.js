// The books on the shelf: covers, titles, removal with a way back. Covers seen once are shown at once the next time.

import { ask } from "/assets/api.js";
import { at, h, icon, keyed, say } from "/assets/dom.js";
import { count, whole } from "/assets/format.js";
import { merge } from "/assets/news.js";
import { openSearch } from "/assets/search-on.js";

const PAGE = 60;
const UNDO_MS = 10_000;
const FILTER_MAX_CHARS = 100;

/** @typedef {{ isbn: string, title: string, authors: string[], publisher: string | null, published: string | null, state: "searching" | "found", cover: string | null, cover_state: "waiting" | "found" | "none", added_at?: number }} Book */

export function openBooks() {
  /** @type {Map<string, Book>} newest first */
  let books = new Map();
  let total = 0;
  /** @type {string | null} */
  let next = null;
  /** @type {import("/pkg/bookshelf/covers.js").CoverCache | undefined} */
  let covers;
  const filter = /** @type {HTMLInputElement} */ (at("books-filter"));
  const more = /** @type {HTMLButtonElement} */ (at("books-more"));

  // Without the cache everything works, only later.
  import("/pkg/bookshelf/covers.js")
    .then(({ openCoverCache }) => openCoverCache())
    .then((opened) => {
      covers = opened;
      show();
    })
    .catch((error) => console.warn(error));

  // What is shown is the newest part of the shelf; what is looked for may be further back.
  const searchOn = openSearch(at("books-search-on"), {
    found: () => visible().length > 0,
    isWhole: () => next === null,
    readMore,
    failed: (error) => say(at("books-count"), error.message),
  });
  filter.addEventListener("input", () => (searchOn.stop(), show()));
  more.addEventListener("click", () => readMore().catch((error) => say(at("books-count"), error.message)));

  const wanted = () => filter.value.slice(0, FILTER_MAX_CHARS).toLowerCase().split(/\s+/).filter(Boolean);
  const visible = (words = wanted()) => [...books.values()].filter((book) => matches(book, words));
  const missing = () =>
    next === null ? "No book on the shelf has these words." : `Not among the newest ${whole(books.size)} of ${count(total, "book")}.`;

  function show() {
    const words = wanted();
    const shown = visible(words);
    keyed(at("books"), shown, ({ isbn }) => isbn, (book) => createBook(book, coverOf, remove));
    const empty = at("books-empty");
    empty.hidden = shown.length > 0;
    say(empty, books.size > 0 ? missing() : "The shelf is empty. Add an ISBN above and watch the book pass through the pipeline.");
    say(at("books-count"), total > 0 ? count(total, "book") : "");
    more.hidden = next === null || words.length > 0;
    searchOn.show(words.length > 0 && next !== null);
  }

  /** Where a book's cover is, as far as anybody knows. */
  function coverOf(/** @type {Book} */ book) {
    if (book.cover === null) return book.cover_state === "none" ? undefined : covers?.get(book.isbn);
    if (covers?.get(book.isbn) !== book.cover) covers?.set(book.isbn, book.cover);
    return book.cover;
  }

  async function readMore() {
    const after = next;
    await merge(ask(`/api/shelf/books?limit=${PAGE}&after=${encodeURIComponent(after ?? "")}`), (page) => {
      // The shelf was read afresh meanwhile.
      if (after !== next) return;
      for (const book of page.books) books.set(book.isbn, book);
      next = page.next;
      total = page.total;
      show();
    });
  }

  function drop(/** @type {string} */ isbn) {
    if (!books.delete(isbn)) return;
    total = Math.max(0, total - 1);
    show();
  }

  async function remove(/** @type {Book} */ book) {
    const name = book.title || book.isbn;
    try {
      await ask(`/api/shelf/books/${book.isbn}`, { method: "DELETE" });
      drop(book.isbn);
      toast(`Removed ${name}.`, "Undo", async () => {
        await ask("/api/shelf/scan", { method: "POST", body: { isbn: book.isbn } });
      });
    } catch (error) {
      toast(`${name} stays on the shelf: ${error.message}`);
    }
  }

  return {
    async read() {
      await merge(ask(`/api/shelf/books?limit=${PAGE}`), (page) => {
        books = new Map(page.books.map((/** @type {Book} */ book) => [book.isbn, book]));
        total = page.total;
        next = page.next;
        show();
      });
    },
    put(/** @type {Book} */ book) {
      const known = books.get(book.isbn);
      if (known && isOlder(book, known)) return;
      if (known) books.set(book.isbn, book);
      else {
        books = new Map([[book.isbn, book], ...books]);
        total += 1;
      }
      show();
    },
    drop,
  };
}

/** Whether news tell of an earlier time than what is known: a book that was put on the shelf once only ever learns more. */
function isOlder(/** @type {Book} */ book, /** @type {Book} */ known) {
  const steps = (/** @type {Book} */ { state, cover_state: cover }) => Number(state === "found") + Number(cover !== "waiting");
  return book.added_at === known.added_at && steps(book) < steps(known);
}

/**
 * The picture of a cover, or a placeholder. Only plain web addresses are asked for.
 * @param {string | undefined} url
 */
export function cover(url) {
  if (url === undefined || !/^https?:\/\//i.test(url)) return icon("queue", "no-cover");
  const picture = /** @type {HTMLImageElement} */ (h("img", { alt: "", loading: "lazy", decoding: "async", referrerpolicy: "no-referrer" }));
  picture.addEventListener("error", () => picture.replaceWith(icon("queue", "no-cover")));
  picture.src = url;
  return picture;
}

function matches(/** @type {Book} */ book, /** @type {string[]} */ words) {
  if (words.length === 0) return true;
  const text = [book.isbn, book.title, ...book.authors, book.publisher ?? ""].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/**
 * @param {Book} first
 * @param {(book: Book) => string | undefined} coverOf
 * @param {(book: Book) => void} remove
 */
function createBook(first, coverOf, remove) {
  let book = first;
  /** @type {string | undefined | null} */
  let shown = null;
  const picture = h("div", { class: "cover" });
  const title = h("h3");
  const authors = h("p", { class: "quiet" });
  const facts = h("p", { class: "note" });
  const button = h("button", { class: "button small remove", type: "button", "data-needs": "shelf:*:write", on: { click: () => remove(book) } }, "Remove");
  const node = h("li", { class: "book" }, picture, title, authors, facts, button);
  return {
    node,
    update(/** @type {Book} */ next) {
      book = next;
      const url = coverOf(book);
      if (url !== shown) picture.replaceChildren(cover(url));
      shown = url;
      node.dataset.cover = url === undefined ? book.cover_state : "found";
      say(title, book.title || (book.state === "searching" ? "Looking it up" : "Without a title"));
      say(authors, book.authors.join(", "));
      say(facts, [book.publisher, book.published, book.isbn].filter(Boolean).join(" · "));
      button.setAttribute("aria-label", `Remove ${book.title || book.isbn}`);
    },
  };
}

let hiding = 0;

/**
 * Says something for a while, with a way back where there is one.
 * @param {string} words
 * @param {string} [action]
 * @param {() => Promise<void>} [act]
 */
function toast(words, action, act) {
  const place = at("toast");
  clearTimeout(hiding);
  const hide = () => (place.hidden = true);
  const click = () => act?.().then(hide, (/** @type {any} */ error) => toast(error.message));
  place.replaceChildren(words, ...(action ? [h("button", { class: "button small", type: "button", on: { click } }, action)] : []));
  place.hidden = false;
  hiding = window.setTimeout(hide, UNDO_MS);
}
