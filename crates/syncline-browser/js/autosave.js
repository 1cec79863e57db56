// AutoSave in the page: a document that saves itself while this tab holds its project, and follows along while it does not.
//
// Guarantees: what the page types is stored, or the state says that it is not; a tab that does not hold the project
// changes nothing; changes that a closing page had no time to store are put aside at once and found again by the next
// page. The lock, the files and the pauses are the worker's (autosave-worker.js, lock-worker.js).

import { SynclineError } from "./errors.js";
import { hub, ProjectLockError, readNote, readOptions, revive } from "./lock.js";

const FILE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const DRAFT = "syncline.autosave.";
const HISTORY_MAX = 200;
const TEXT_MAX = 4 * 1024 * 1024;
// Longer than any lease: by then the other tab has answered, or is no more.
const TAKE_OVER_MAX_MS = 75_000;
const WRITABLE = ["saved", "saving", "unsaved", "lost", "conflict"];

export { SynclineError };

export function openAutoSave(options = {}) {
  const settings = readOptions(options);
  const { file = "document.json", allowTakeOver = true } = options;
  if (typeof file !== "string" || !FILE.test(file) || file.endsWith(".new")) {
    throw invalid("file must be 1 to 64 letters, digits or . _ - and begin with a letter or digit");
  }
  if (typeof allowTakeOver !== "boolean") throw invalid("allowTakeOver must be true or false");
  const saves = hub().saves;
  if (saves.has(settings.project)) throw invalid(`this page has the project ${settings.project} open already`);
  const save = new AutoSave(hub(), { ...settings, file, allowTakeOver });
  saves.set(settings.project, save);
  return save.handle;
}

class AutoSave {
  #hub;
  #settings;
  #text = "";
  // The number of the last change made here, and of the last one stored.
  #edit = 0;
  #stored = 0;
  #state = { status: "opening", holder: undefined, heldHere: false, savedAt: undefined, stamp: 0, problem: undefined };
  #history = [];
  #listeners = new Set();
  #listening = new AbortController();
  #ready;
  #opened;
  #closed = false;

  constructor(lock, settings) {
    this.#hub = lock;
    this.#settings = settings;
    this.#ready = new Promise((resolve, reject) => (this.#opened = { resolve, reject }));
    this.#ready.catch(() => {});
    const { signal } = this.#listening;
    lock.news.addEventListener("save", ({ detail }) => this.#hear(detail), { signal });
    lock.news.addEventListener("lock", ({ detail }) => this.#note(detail), { signal });
    lock.news.addEventListener("lost", ({ detail }) => this.#lose(detail), { signal });
    lock.news.addEventListener("failed", ({ detail }) => this.#fail(detail.error), { signal });
    document.addEventListener("visibilitychange", () => document.hidden && this.#tell("flush"), { signal });
    addEventListener("pagehide", () => this.#putAside(), { signal });
    settings.signal?.addEventListener("abort", () => this.#close(), { signal });
    const { project, file, allowTakeOver, leaseMs, retryPolicy, mechanism, workerUrl, wasmUrl } = settings;
    const facts = { project, file, allowTakeOver, leaseMs, retryPolicy, mechanism, released: readNote(project) };
    lock.send({ op: "open-save", ...facts }, workerUrl, wasmUrl);
  }

  // An object of its own, so that its methods need no `this`.
  get handle() {
    const save = this;
    return {
      ready: this.#ready,
      get text() {
        return save.#text;
      },
      get state() {
        return { ...save.#state };
      },
      get history() {
        return [...save.#history];
      },
      change: (text) => this.#change(text),
      flush: () => this.#flush(),
      takeOver: () => this.#takeOver(),
      resolve: (which) => this.#resolve(which),
      subscribe: (listener) => this.#subscribe(listener),
      close: () => this.#close(),
    };
  }

  #change(text) {
    if (typeof text !== "string") throw invalid("text must be a string");
    if (text.length > TEXT_MAX) throw invalid(`text must have at most ${TEXT_MAX} characters`);
    if (this.#closed || !WRITABLE.includes(this.#state.status)) return false;
    this.#edited(text);
    return true;
  }

  async #flush() {
    this.#tell("flush");
    const settled = ["unsaved", "read-only", "taken-over", "lost", "conflict", "closed"];
    await this.#until(({ status }) => !this.#dirty || settled.includes(status) || undefined);
    if (this.#dirty) throw unavailable(`the changes are not stored: ${this.#state.problem ?? this.#state.status}`);
  }

  async #takeOver() {
    if (this.#state.heldHere) return;
    this.#tell("take-over");
    const had = await this.#until(({ heldHere, refused }) => (heldHere ? true : refused ? false : undefined), TAKE_OVER_MAX_MS);
    if (!had) throw unavailable("the tab that holds the project keeps it");
  }

  #resolve(which) {
    if (!["mine", "theirs"].includes(which)) throw invalid("which must be mine or theirs");
    if (which === "theirs") this.#stored = this.#edit;
    this.#tell(which === "mine" ? "keep-mine" : "take-theirs");
  }

  #subscribe(listener) {
    if (typeof listener !== "function") throw invalid("listener must be a function");
    const entry = { listener };
    this.#listeners.add(entry);
    return { unsubscribe: () => void this.#listeners.delete(entry) };
  }

  async #close() {
    if (this.#closed) return;
    if (this.#state.heldHere) await this.#flush().catch(() => this.#putAside());
    this.#tell("close");
    this.#closed = true;
    this.#listening.abort();
    this.#hub.saves.delete(this.#settings.project);
    this.#opened.reject(new SynclineError("stopped", "the document was closed"));
    this.#set({ status: "closed", heldHere: false });
  }

  #hear(message) {
    if (message.project !== this.#settings.project) return;
    switch (message.what) {
      case "document":
        this.#adopt(message);
        break;
      case "status":
        this.#set({ status: message.status, problem: message.status === "saved" ? undefined : this.#state.problem });
        if (message.status === "saved" && !this.#dirty) this.#recover();
        break;
      case "saved":
        this.#stored = message.edit;
        this.#record({ type: "saved", at: message.at, stamp: message.stamp });
        this.#set({ savedAt: message.at, stamp: message.stamp });
        break;
      case "conflict":
        this.#record({ type: "conflict", at: Date.now() });
        break;
      case "holder":
        this.#set({ holder: message.holder });
        break;
      case "refused":
        this.#set({ refused: true });
        this.#set({ refused: undefined });
        break;
      case "failed":
        this.#fail(revive(message.error));
        break;
      case "trouble":
        this.#set({ problem: message.message });
        break;
    }
  }

  #adopt({ text, stamp }) {
    this.#text = text;
    this.#set({ stamp, adopted: true });
    this.#set({ adopted: undefined });
    this.#opened.resolve();
  }

  get #dirty() {
    return this.#edit !== this.#stored;
  }

  #edited(text) {
    this.#text = text;
    this.#edit += 1;
    this.#tell("change", { text, edit: this.#edit });
  }

  // This tab holds the project and has its newest version: what a page before it could not store belongs here.
  #recover() {
    const draft = this.#takeDraft(this.#state.stamp);
    if (draft === undefined || draft === this.#text) return;
    this.#record({ type: "recovered", at: Date.now() });
    this.#edited(draft);
    this.#set({ adopted: true });
    this.#set({ adopted: undefined });
  }

  #note({ event }) {
    if (event.project !== this.#settings.project) return;
    this.#record(event);
    if (event.type === "acquired" || event.type === "renewed") {
      const since = this.#state.holder?.leaseId === event.lease.leaseId ? this.#state.holder.since : event.at;
      this.#set({ heldHere: true, holder: { ...event.lease, since } });
    } else if (event.type === "released" || event.type === "expired") {
      this.#set({ heldHere: false, holder: undefined });
    } else this.#set({});
  }

  #lose({ project, loss }) {
    if (project !== this.#settings.project) return;
    this.#record({ type: "lost", at: Date.now(), loss });
    this.#set({ heldHere: false, holder: undefined });
  }

  #fail(error) {
    this.#opened.reject(error);
    this.#set({ status: "lost", heldHere: false, problem: error.message });
  }

  // A page that is closed has no time to store anything in the right place.
  #putAside() {
    if (!this.#dirty) return;
    try {
      localStorage.setItem(this.#draftKey, JSON.stringify({ stamp: this.#state.stamp, text: this.#text }));
    } catch {
      // Forbidden, or too large.
    }
  }

  // Only what grew out of the stored version may replace it.
  #takeDraft(stamp) {
    try {
      const draft = JSON.parse(localStorage.getItem(this.#draftKey) ?? "null");
      if (draft === null) return undefined;
      localStorage.removeItem(this.#draftKey);
      return draft.stamp === stamp && typeof draft.text === "string" ? draft.text : undefined;
    } catch {
      return undefined;
    }
  }

  get #draftKey() {
    return `${DRAFT}${this.#settings.project}/${this.#settings.file}`;
  }

  #record(entry) {
    this.#history.push(entry);
    if (this.#history.length > HISTORY_MAX) this.#history.shift();
  }

  #set(changes) {
    Object.assign(this.#state, changes);
    for (const { listener } of [...this.#listeners]) {
      try {
        listener({ ...this.#state });
      } catch (error) {
        reportError(error);
      }
    }
  }

  // Resolves with the first value other than undefined that `find` makes of the state; false when time is up.
  #until(find, timeoutMs = 30_000) {
    return new Promise((resolve) => {
      const end = (value) => {
        clearTimeout(timer);
        unsubscribe();
        resolve(value);
      };
      const look = (state) => {
        const found = find(state);
        if (found !== undefined) end(found);
      };
      const timer = setTimeout(() => end(false), timeoutMs);
      const { unsubscribe } = this.#subscribe(look);
      look(this.#state);
    });
  }

  #tell(what, facts) {
    if (!this.#closed) this.#hub.send({ op: "save", project: this.#settings.project, what, ...facts });
  }
}

function invalid(message) {
  return new SynclineError("invalid-argument", message);
}

function unavailable(message) {
  return new ProjectLockError(message, { code: "web-lock-unavailable", retryable: true });
}
