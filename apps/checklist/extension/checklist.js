// The checklist on a page of the extension: add, tick, rename, remove, in step with every other context.
//
// Guarantees that a change touches its own row and no other, that nothing somebody is typing is overwritten, and that
// no more than WINDOW rows are in the page until somebody asks for more. What an operation comes to is said in a line.

import { element, icon } from "./dom.js";
import { Entries, compare, entryOf } from "./entries.js";
import { sentenceOf } from "./words.js";

const WINDOW = 100;
// Fewer are seen at a glance.
const FILTER_FROM = 20;
const TITLE_MAX_CHARS = 300;

/** Fills `root` with the checklist of `state`. `changed({ size, checked })` hears how many entries there are. */
export function mountChecklist(root, state, changed = () => {}) {
  return new Checklist(root, state, changed);
}

class Checklist {
  #state;
  #changed;
  #entries = new Entries();
  #rows = new Map();
  #limit = WINDOW;
  #words = "";
  #isLoaded = false;
  #isCounting = false;

  #title = element("input", {
    class: "entry-title",
    "aria-label": "New entry",
    placeholder: "What is to be done?",
    maxlength: TITLE_MAX_CHARS,
    autocomplete: "off",
    enterkeyhint: "done",
  });
  #filter = element("input", {
    type: "search",
    class: "filter",
    "aria-label": "Find an entry",
    placeholder: "Find",
    hidden: true,
    oninput: () => this.#narrow(),
  });
  #list = element("ul", { class: "entries", "aria-label": "Entries" });
  #empty = element("p", { class: "empty", hidden: true });
  #more = element("button", { class: "button small", type: "button", hidden: true, onclick: () => this.#showMore() });
  #done = element("span", { class: "note" });
  #clear = element(
    "button",
    { class: "link", type: "button", hidden: true, onclick: () => this.#removeChecked() },
    "Remove done",
  );
  #message = element("p", { class: "message", role: "status" });

  constructor(root, state, changed) {
    this.#state = state;
    this.#changed = changed;
    root.append(
      element(
        "form",
        { class: "row", onsubmit: (event) => this.#add(event) },
        this.#title,
        element("button", { class: "button primary", type: "submit" }, "Add"),
      ),
      this.#filter,
      this.#list,
      this.#empty,
      this.#more,
      element("div", { class: "row between" }, this.#done, this.#clear),
      this.#message,
    );
    state.subscribe((event) => this.#hear(event));
    if (state.isReady) this.#load();
    else this.#say("Loading");
  }

  focus() {
    this.#title.focus();
  }

  #hear(event) {
    if (event.type === "ready") return this.#load();
    if (event.type === "closed" && event.reason === "failed") return this.#say(sentenceOf(event.error), "bad");
    // What is loaded arrives entity by entity, and is shown as a whole after the last.
    if (!this.#isLoaded) return;
    if (event.type === "cleared") this.#load();
    else if (event.type === "entity") this.#apply(event.id, event.value);
  }

  #load() {
    const { ids, get } = this.#state;
    this.#isLoaded = true;
    this.#entries.load(ids().map((id) => entryOf(id, get(id))));
    this.#say("");
    this.#render();
  }

  #apply(id, value) {
    const before = this.#entries.get(id);
    if (value === undefined) {
      this.#entries.delete(id);
      this.#removeRow(id);
    } else {
      const entry = entryOf(id, value);
      this.#entries.put(entry);
      const row = this.#rows.get(id);
      if (row !== undefined && before.createdAt === entry.createdAt && this.#isWanted(entry)) row.show(entry);
      else {
        this.#removeRow(id);
        if (this.#isWanted(entry)) this.#insertRow(entry);
      }
    }
    this.#countSoon();
  }

  // Everything again, for what concerns everything: loading, another filter, a longer window.
  #render() {
    this.#rows.clear();
    for (const entry of this.#entries) {
      if (this.#rows.size >= this.#limit) break;
      if (this.#isWanted(entry)) this.#rows.set(entry.id, this.#makeRow(entry));
    }
    this.#list.replaceChildren(...[...this.#rows.values()].map((row) => row.element));
    this.#count();
  }

  #isWanted({ title }) {
    return this.#words === "" || title.toLowerCase().includes(this.#words);
  }

  #makeRow(entry) {
    return new Row(entry, {
      tick: (checked) => this.#change(entry.id, { checked }),
      rename: (title) => this.#change(entry.id, { title }),
      remove: () => this.#remove(entry.id),
    });
  }

  #insertRow(entry) {
    const isBefore = (child) => compare(entry, this.#rows.get(child.dataset.id).entry) < 0;
    const last = this.#list.lastElementChild;
    const isFull = this.#rows.size >= this.#limit;
    // Most of ten thousand that arrive at once.
    if (isFull && !isBefore(last)) return;
    let next = this.#list.firstElementChild;
    while (next !== null && !isBefore(next)) next = next.nextElementSibling;
    const row = this.#makeRow(entry);
    this.#rows.set(entry.id, row);
    this.#list.insertBefore(row.element, next);
    if (isFull) this.#dropRow(last.dataset.id);
  }

  #removeRow(id) {
    const row = this.#rows.get(id);
    if (row === undefined) return;
    const hadFocus = row.element.contains(document.activeElement);
    const neighbour = row.element.nextElementSibling ?? row.element.previousElementSibling;
    const last = this.#list.lastElementChild.dataset.id;
    this.#dropRow(id);
    // Keyboard users stay where they were.
    if (hadFocus) (neighbour?.querySelector("input[type=checkbox]") ?? this.#title).focus();
    this.#fill(id === last ? row.entry : this.#rows.get(last).entry);
  }

  #dropRow(id) {
    this.#rows.get(id).element.remove();
    this.#rows.delete(id);
  }

  // A row has gone: one that was beyond the window comes in.
  #fill(last) {
    if (this.#rows.size !== this.#limit - 1) return;
    const entry = this.#entries.next(last, (entry) => this.#isWanted(entry) && !this.#rows.has(entry.id));
    if (entry === undefined) return;
    const row = this.#makeRow(entry);
    this.#rows.set(entry.id, row);
    this.#list.append(row.element);
  }

  // Once for all changes that come together.
  #countSoon() {
    if (this.#isCounting) return;
    this.#isCounting = true;
    queueMicrotask(() => {
      this.#isCounting = false;
      this.#count();
    });
  }

  #count() {
    const { size, checked } = this.#entries;
    const hasFilter = size > FILTER_FROM;
    if (!hasFilter && this.#words !== "") {
      this.#filter.value = "";
      return this.#narrow();
    }
    this.#filter.hidden = !hasFilter;
    const isAll = this.#rows.size === size || this.#rows.size < this.#limit;
    this.#more.hidden = isAll;
    this.#more.textContent = this.#words === "" ? `Show more of ${size.toLocaleString("en")}` : "Show more";
    this.#empty.hidden = this.#rows.size > 0;
    this.#empty.textContent =
      size > 0 ? "No entry has these words." : "Nothing to do. What you add here is on every page, in the popup and in the settings.";
    this.#done.textContent = size === 0 ? "" : `${checked.toLocaleString("en")} of ${size.toLocaleString("en")} done`;
    this.#clear.hidden = checked === 0;
    this.#changed({ size, checked });
  }

  #narrow() {
    this.#words = this.#filter.value.trim().toLowerCase();
    this.#limit = WINDOW;
    this.#render();
  }

  #showMore() {
    const last = this.#list.lastElementChild;
    this.#limit += WINDOW;
    this.#render();
    const next = this.#rows.get(last?.dataset.id)?.element.nextElementSibling;
    next?.querySelector("input[type=checkbox]").focus();
  }

  #add(event) {
    event.preventDefault();
    const title = this.#title.value.trim();
    if (title === "") return this.#say("Write what is to be done, then press Enter.");
    const now = Date.now();
    this.#title.value = "";
    const value = { title, checked: false, timestamp: now, createdAt: now };
    this.#do(this.#state.put(crypto.randomUUID(), value), "", () => {
      // What was typed is not lost with it, unless something else is being typed by now.
      if (this.#title.value === "") this.#title.value = title;
    });
  }

  #change(id, changes) {
    const value = this.#state.get(id);
    // Removed elsewhere in the meantime: nothing is left to be changed.
    if (value === undefined) return;
    const row = this.#rows.get(id);
    this.#do(this.#state.put(id, { ...value, ...changes, timestamp: Date.now() }), "", () => row?.show(this.#entries.get(id) ?? row.entry));
  }

  #remove(id) {
    const value = this.#state.get(id);
    const { title } = entryOf(id, value);
    const back = element("button", { class: "link", type: "button", onclick: () => this.#do(this.#state.put(id, value), "") }, "Undo");
    this.#do(this.#state.remove(id), [`Removed “${shorten(title)}”. `, back]);
  }

  #removeChecked() {
    const ids = [...this.#entries].filter(({ checked }) => checked).map(({ id }) => id);
    const values = ids.map((id) => [id, this.#state.get(id)]);
    const undo = () => this.#do(Promise.all(values.map(([id, value]) => this.#state.put(id, value))), "");
    const back = element("button", { class: "link", type: "button", onclick: undo }, "Undo");
    this.#title.focus();
    this.#do(this.#state.remove(ids), [`Removed ${ids.length === 1 ? "one entry" : `${ids.length.toLocaleString("en")} entries`}. `, back]);
  }

  async #do(work, words, failed = () => {}) {
    this.#say(...[words].flat());
    try {
      await work;
    } catch (error) {
      failed();
      // The page is about to go; there is nobody to tell.
      if (error.code !== "stopped") this.#tell(sentenceOf(error), "bad");
    }
  }

  #say(...words) {
    this.#tell(words, "quiet");
  }

  #tell(words, tone) {
    this.#message.replaceChildren(...[words].flat());
    this.#message.dataset.tone = tone;
  }
}

// One entry: a box to tick, its title, and what can be done with it.
class Row {
  element;
  entry;
  #tools;
  #box;
  #label;
  #input = null;

  constructor(entry, tools) {
    this.#tools = tools;
    this.#box = element("input", { type: "checkbox", onchange: () => tools.tick(this.#box.checked) });
    this.#label = element("span", { class: "entry-label" });
    const edit = () => this.#edit();
    this.element = element(
      "li",
      { class: "entry", "data-id": entry.id },
      element("label", {}, this.#box, this.#label),
      element("button", { class: "tool", type: "button", title: "Rename", onclick: edit }, icon("edit")),
      element("button", { class: "tool", type: "button", title: "Remove", onclick: tools.remove }, icon("remove")),
    );
    this.show(entry);
  }

  show(entry) {
    this.entry = entry;
    this.#box.checked = entry.checked;
    this.element.toggleAttribute("data-checked", entry.checked);
    if (this.#label.textContent === entry.title) return;
    this.#label.textContent = entry.title;
    const [edit, remove] = this.element.querySelectorAll(".tool");
    edit.setAttribute("aria-label", `Rename ${entry.title}`);
    remove.setAttribute("aria-label", `Remove ${entry.title}`);
  }

  #edit() {
    if (this.#input !== null) return;
    this.#input = element("input", {
      class: "entry-title",
      "aria-label": "Title",
      maxlength: TITLE_MAX_CHARS,
      onblur: () => this.#finish(true, false),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        this.#finish(event.key === "Enter", true);
      },
    });
    this.#input.value = this.entry.title;
    this.element.querySelector("label").replaceWith(this.#input);
    this.#input.focus();
    this.#input.select();
  }

  #finish(isKept, keepsFocus) {
    const input = this.#input;
    if (input === null) return;
    // First, because taking the field out of the page takes the focus from it, which ends up here again.
    this.#input = null;
    const title = input.value.trim();
    input.replaceWith(element("label", {}, this.#box, this.#label));
    if (keepsFocus) this.element.querySelector(".tool").focus();
    if (isKept && title !== "" && title !== this.entry.title) this.#tools.rename(title);
  }
}

function shorten(title) {
  return title.length <= 40 ? title : `${title.slice(0, 39)}…`;
}
