// The last words of a page that goes: put aside in the one kind of storage that is written at once, and found by the next page.
//
// Guarantees: a draft is kept until the text it became is stored. It is offered only where it grew out of what is stored: from
// the stored version itself, or from a later one of the page that stored it. Where localStorage is full or forbidden, the
// tab's own sessionStorage is used: then the words survive a reload, and not the end of the tab.

const KEY = "syncline.autosave.";

export class Drafts {
  key;

  constructor(project, file) {
    this.key = `${KEY}${project}/${file}`;
  }

  /** Whether words can be kept beyond the end of this tab. */
  get areLasting() {
    const probe = `${this.key}?`;
    try {
      localStorage.setItem(probe, "x".repeat(1_024));
      localStorage.removeItem(probe);
      return true;
    } catch {
      return false;
    }
  }

  /** `draft`: the `text` with its `version`, which page wrote it (`by`), and the `stamp` of the stored one it grew out of. */
  put(draft) {
    const words = JSON.stringify(draft);
    if (attempt(() => localStorage.setItem(this.key, words)) === undefined) attempt(() => sessionStorage.setItem(this.key, words));
  }

  /** The text that belongs on top of the stored version, or undefined. What belongs nowhere is dropped. */
  find({ stamp, by }) {
    for (const storage of [() => localStorage, () => sessionStorage]) {
      const draft = attempt(() => JSON.parse(storage().getItem(this.key) ?? "null"))?.value;
      if (typeof draft?.text !== "string") continue;
      const isNext = draft.stamp === stamp || (draft.by !== undefined && draft.by === by && draft.version > stamp);
      if (isNext) return draft.text;
      attempt(() => storage().removeItem(this.key));
    }
    return undefined;
  }

  drop() {
    attempt(() => localStorage.removeItem(this.key));
    attempt(() => sessionStorage.removeItem(this.key));
  }
}

// Undefined where storage is forbidden or full.
function attempt(work) {
  try {
    return { value: work() };
  } catch {
    return undefined;
  }
}
