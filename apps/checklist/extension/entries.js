// The entries of the checklist in the order in which they are shown: newest first.
//
// Guarantees that a change costs the search for its place and not a look at all others, so that ten thousand entries are
// no problem. Anything that was stored by somebody else is an entry as well: without a title its id is shown.

/** What is shown of an entity. */
export function entryOf(id, value) {
  const { title, checked, createdAt } = Object(value);
  return {
    id,
    title: typeof title === "string" && title.trim() !== "" ? title : id,
    checked: checked === true,
    createdAt: Number.isFinite(createdAt) ? createdAt : 0,
  };
}

export class Entries {
  #sorted = [];
  #byId = new Map();
  #checked = 0;

  get size() {
    return this.#sorted.length;
  }

  get checked() {
    return this.#checked;
  }

  get(id) {
    return this.#byId.get(id);
  }

  /** In order, from the first. */
  [Symbol.iterator]() {
    return this.#sorted[Symbol.iterator]();
  }

  /** Replaces everything. */
  load(entries) {
    this.#sorted = [...entries].sort(compare);
    this.#byId = new Map(this.#sorted.map((entry) => [entry.id, entry]));
    this.#checked = this.#sorted.filter(({ checked }) => checked).length;
  }

  put(entry) {
    this.delete(entry.id);
    this.#sorted.splice(this.#placeOf(entry), 0, entry);
    this.#byId.set(entry.id, entry);
    if (entry.checked) this.#checked++;
  }

  delete(id) {
    const entry = this.#byId.get(id);
    if (entry === undefined) return;
    this.#byId.delete(id);
    this.#sorted.splice(this.#placeOf(entry), 1);
    if (entry.checked) this.#checked--;
  }

  /** The first entry that is not before this one and for which `wanted` holds. */
  next(entry, wanted) {
    for (let place = this.#placeOf(entry) + 1; place < this.#sorted.length; place++) {
      if (wanted(this.#sorted[place])) return this.#sorted[place];
    }
    return undefined;
  }

  // Of the entry itself, or where it would be.
  #placeOf(entry) {
    let [low, high] = [0, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.#sorted[middle], entry) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Negative if `one` is shown before `other`. */
export function compare(one, other) {
  if (one.createdAt !== other.createdAt) return other.createdAt - one.createdAt;
  return one.id < other.id ? -1 : Number(one.id > other.id);
}
