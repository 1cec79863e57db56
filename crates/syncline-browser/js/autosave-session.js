// One document that is open in this page, for all who use it here. The worker's half is autosave-worker.js.
//
// Guarantees: all users have the same text; a change is accepted only from one that has been handed what it changes, and only
// while this tab holds the project for sure; what was accepted is stored, or the state says that it is not; what a closing page
// had no time to store is put aside and found again by the next page. When the last user leaves, the project is given back;
// whoever comes meanwhile goes on where they left. The lock, the files, the pauses and the rules are the worker's.

import { Drafts } from "./autosave-draft.js";
import { SynclineError } from "./errors.js";
import { ProjectLockError, readNotes, revive } from "./lock.js";

const HISTORY_MAX = 200;
// Longer than any lease: by then the other tab has answered, or is no more.
const TAKE_OVER_MAX_MS = 75_000;
const FLUSH_MAX_MS = 30_000;
const CLOSE_MAX_MS = 5_000;
const WRITABLE = ["saved", "saving", "unsaved"];
const SETTLED = ["unsaved", "read-only", "taken-over", "lost", "conflict", "closed"];

export class Session {
  file;
  ready;
  #hub;
  #project;
  // Told apart from other pages, and from this page's sessions before.
  #id = crypto.getRandomValues(new Uint32Array(4)).join("-");
  #users = new Set();
  #waiters = new Set();
  #text = "";
  // Of the text; the versions of stored texts are the same in all tabs.
  #version = 0;
  // The stored text that it grew out of, by the worker's count, and which session stored that.
  #line = 0;
  #by;
  // The lease of this tab, while it has one.
  #leaseId;
  // How often the holder refused to give way.
  #refusals = 0;
  // The number of the last change made here, and of the last one stored.
  #edit = 0;
  #stored = 0;
  // The change that brought back what an earlier page had put aside.
  #recovered;
  #state = { status: "opening", holder: undefined, heldHere: false, savedAt: undefined, stamp: 0, problem: undefined };
  #trouble;
  #history = [];
  #drafts;
  #listening = new AbortController();
  #opened;
  #ended;
  #isOpen = false;
  #isOver = false;
  #isBroken = false;

  constructor(hub, settings) {
    const { project, file } = settings;
    this.file = file;
    this.#hub = hub;
    this.#project = project;
    this.#drafts = new Drafts(project, file);
    this.ready = new Promise((resolve, reject) => (this.#opened = { resolve, reject }));
    this.ready.catch(() => {});
    const { signal } = this.#listening;
    const listen = (type, receive) => hub.news.addEventListener(type, ({ detail }) => receive(detail), { signal });
    listen("save", (message) => this.#receive(message));
    listen("lock", ({ event }) => this.#note(event));
    listen("lost", (loss) => this.#lose(loss));
    listen("left", () => this.#hold(undefined));
    listen("failed", ({ error }) => this.#fail(error));
    document.addEventListener("visibilitychange", () => document.hidden && this.#tell("flush"), { signal });
    addEventListener("pagehide", () => this.#putAside(), { signal });
    // A frozen page may be discarded without another word.
    document.addEventListener("freeze", () => this.#putAside(), { signal });
    // The last words of a page that has just closed may be known later than its lease is free.
    addEventListener("storage", ({ key }) => key === this.#drafts.key && this.#isIdle && this.#recover(), { signal });
    const { allowTakeOver, leaseMs, retryPolicy, mechanism, workerUrl, wasmUrl } = settings;
    const facts = { project, file, allowTakeOver, leaseMs, retryPolicy, mechanism, released: readNotes(project) };
    hub.send({ op: "open-save", session: this.#id, ...facts }, workerUrl, wasmUrl);
    if (!this.#drafts.areLasting) this.#warn();
  }

  /** Whether nobody can join any more. */
  get isOver() {
    return this.#isOver;
  }

  get isOpen() {
    return this.#isOpen;
  }

  get history() {
    return [...this.#history];
  }

  /**
   * Somebody uses the document: `seen` and `since` are the version it was handed last, and the newest made by others. What an
   * editor changes is no news to its `owner`, who bound it.
   */
  join(listeners, owner) {
    const user = { listeners, owner, seen: this.#version, since: this.#version };
    this.#users.add(user);
    return user;
  }

  /** Settles when what was typed is stored, and with the last user when the project is given back. */
  async leave(user) {
    if (!this.#users.delete(user) || this.#users.size > 0 || this.#isOver) return;
    // In the same task somebody may come again, as in a React effect that is run twice.
    await null;
    if (this.#dirty && this.#isSure) await this.flush().catch(() => {});
    if (this.#users.size > 0 || this.#isOver) return;
    this.#putAside();
    await this.#end();
  }

  textFor(user) {
    user.seen = this.#version;
    return this.#text;
  }

  stateFor(user, event) {
    const state = { ...this.#state, status: this.#status, version: this.#version, unstored: this.#dirty };
    // Not to be had by the way, as in a copy of the state: whoever reads the text has seen it.
    const text = { get: () => this.textFor(user) };
    Object.defineProperty(state, "text", text);
    if (event === undefined) return state;
    if (event.type !== "saved") state.adopted = true;
    state.event = event.type === "saved" ? event : Object.defineProperty({ ...event }, "text", text);
    return state;
  }

  get isWritable() {
    return WRITABLE.includes(this.#status);
  }

  /** False: this tab may not change it, or `base` is not what it is now, or grew into by this user alone. */
  change(user, text, base = user.seen) {
    if (!this.#users.has(user) || !this.isWritable) return false;
    if (base < user.since || base > this.#version) {
      this.#refuse(user, base);
      return false;
    }
    this.#edited(text, user);
    return true;
  }

  async flush() {
    this.#tell("flush");
    const done = () => (this.#dirty ? SETTLED.includes(this.#status) : this.#edit === 0 || !["saving", "opening"].includes(this.#status));
    await this.#until(() => done() || undefined, FLUSH_MAX_MS);
    if (this.#dirty) throw this.#trouble ?? unavailable(`the changes are not stored: ${this.#status}`);
  }

  async takeOver() {
    if (this.#isSure) return;
    this.#tell("take-over");
    const before = this.#refusals;
    const had = await this.#until(() => this.#isSure || (this.#refusals > before ? false : undefined), TAKE_OVER_MAX_MS);
    if (!had) throw unavailable("the tab that holds the project keeps it");
  }

  resolve(which) {
    if (which === "theirs") this.#stored = this.#edit;
    this.#tell(which === "mine" ? "keep-mine" : "take-theirs");
  }

  #receive(message) {
    if (message.project !== this.#project || message.session !== this.#id) return;
    switch (message.what) {
      case "document":
        return this.#adopt(message);
      case "status":
        return this.#follow(message.status);
      case "saved":
        return this.#keep(message);
      case "conflict":
        return this.#record({ type: "conflict", at: Date.now() });
      case "holder":
        return this.#set({ holder: message.holder });
      case "refused":
        this.#refusals += 1;
        return this.#set({});
      case "unread":
        return this.#opened.reject(revive(message.error));
      case "failed":
        return this.#fail(revive(message.error));
      case "trouble":
        this.#trouble = revive(message.error);
        return this.#set({ problem: this.#trouble.message });
      case "closed":
        return this.#ended?.();
    }
  }

  #adopt({ text, stamp, line, by }) {
    const isNew = this.#isOpen;
    [this.#text, this.#line, this.#by, this.#stored] = [text, line, by, this.#edit];
    this.#version = isNew ? Math.max(stamp, this.#version + 1) : stamp;
    this.#isOpen = true;
    // What the document was when it was opened is handed to all by `ready`.
    for (const user of this.#users) Object.assign(user, { since: this.#version }, isNew ? {} : { seen: this.#version });
    this.#set({ stamp }, { type: "adopted" });
    this.#opened.resolve();
  }

  #follow(status) {
    if (status === "saved") this.#trouble = undefined;
    this.#set({ status, problem: status === "saved" ? undefined : this.#state.problem });
    if (this.#isIdle) this.#recover();
  }

  #keep({ edit, at, stamp, by, text }) {
    [this.#stored, this.#by] = [edit, by];
    // After storage was cleared the versions go on far above.
    this.#version = Math.max(this.#version, this.#dirty ? stamp + 1 : stamp);
    if (this.#recovered !== undefined && edit >= this.#recovered) {
      this.#recovered = undefined;
      this.#drafts.drop();
    }
    this.#record({ type: "saved", at, stamp });
    this.#set({ savedAt: at, stamp }, { type: "saved", text, version: stamp });
  }

  // This tab holds the project and has its newest version: what a page before it could not store belongs here.
  #recover() {
    const text = this.#drafts.find({ stamp: this.#state.stamp, by: this.#by });
    if (text === undefined) return;
    if (text === this.#text) return this.#drafts.drop();
    this.#record({ type: "recovered", at: Date.now() });
    this.#edited(text, undefined);
    this.#recovered = this.#edit;
  }

  get #isIdle() {
    return this.#status === "saved" && !this.#dirty;
  }

  get #dirty() {
    return this.#edit !== this.#stored;
  }

  // Whether the lease is certain on both clocks, right now.
  get #isSure() {
    return this.#leaseId !== undefined && this.#hub.isSure(this.#leaseId);
  }

  // What the worker said last may have been said before the page stood still.
  get #status() {
    const { status } = this.#state;
    return WRITABLE.includes(status) && !this.#isSure ? "lost" : status;
  }

  // `author`: the user who knows the text; all others are handed it.
  #edited(text, author) {
    this.#text = text;
    this.#version += 1;
    this.#edit += 1;
    this.#tell("change", { text, edit: this.#edit, line: this.#line, version: this.#version });
    for (const user of this.#users) {
      if (user === author) user.seen = this.#version;
      else user.since = this.#version;
    }
    this.#set({}, { type: "adopted" }, author);
  }

  #refuse(user, base) {
    if (!user.isWarned) {
      user.isWarned = true;
      console.warn(
        `A change of the project ${this.#project} was refused: it is based on version ${base}, and version ${user.since} is there. ` +
          "Use bind(), or take the text of each state with `adopted` into the editor.",
      );
    }
    this.#tellUser(user, { type: "refused", version: this.#version });
  }

  #note(event) {
    if (event.project !== this.#project) return;
    this.#record(event);
    if (event.type === "acquired" || event.type === "renewed") {
      const since = this.#state.holder?.leaseId === event.lease.leaseId ? this.#state.holder.since : event.at;
      this.#hold(event.lease.leaseId, { ...event.lease, since });
    } else if (event.type === "released" || event.type === "expired") this.#hold(undefined);
    else this.#set({});
  }

  #hold(leaseId, holder) {
    this.#leaseId = leaseId;
    this.#set({ heldHere: leaseId !== undefined, holder });
  }

  #lose({ project, loss }) {
    if (project !== this.#project) return;
    this.#record({ type: "lost", at: Date.now(), loss });
    this.#hold(undefined);
  }

  #fail(error) {
    [this.#isBroken, this.#trouble, this.#leaseId] = [true, error, undefined];
    this.#opened.reject(error);
    this.#set({ status: "lost", heldHere: false, problem: error.message });
    this.#ended?.();
  }

  async #end() {
    this.#isOver = true;
    if (this.#hub.saves.get(this.#project) === this) this.#hub.saves.delete(this.#project);
    this.#opened.reject(new SynclineError("stopped", "the document was closed"));
    await new Promise((resolve) => {
      if (this.#isBroken) return resolve();
      this.#ended = resolve;
      setTimeout(resolve, CLOSE_MAX_MS);
      this.#send("close");
    });
    this.#listening.abort();
  }

  // A page that is closed has no time to store anything in the right place.
  #putAside() {
    if (!this.#dirty) return;
    this.#drafts.put({ stamp: this.#state.stamp, by: this.#id, version: this.#version, text: this.#text });
  }

  #warn() {
    this.#record({ type: "drafts-off", at: Date.now() });
    console.warn(
      `localStorage is full or forbidden: what is typed into the project ${this.#project} in the last moments before its tab is ` +
        "closed may be lost, and the next tab may have to wait for the lease to end.",
    );
  }

  #record(entry) {
    this.#history.push(entry);
    if (this.#history.length > HISTORY_MAX) this.#history.shift();
  }

  #set(changes, event, author) {
    Object.assign(this.#state, changes);
    const told = event?.type === "adopted" ? { type: "adopted", version: this.#version } : event;
    const isNews = (user) => author === undefined || (user !== author && user !== author.owner);
    for (const user of [...this.#users]) this.#tellUser(user, isNews(user) ? told : undefined);
    for (const look of [...this.#waiters]) look();
  }

  #tellUser(user, event) {
    for (const { listener } of [...user.listeners]) {
      try {
        listener(this.stateFor(user, event));
      } catch (error) {
        reportError(error);
      }
    }
  }

  // Resolves with the first value other than undefined that `find` comes to; false when time is up.
  #until(find, timeoutMs) {
    return new Promise((resolve) => {
      const end = (value) => {
        clearTimeout(timer);
        this.#waiters.delete(look);
        resolve(value);
      };
      const look = () => {
        const found = find();
        if (found !== undefined) end(found);
      };
      const timer = setTimeout(() => end(false), timeoutMs);
      this.#waiters.add(look);
      look();
    });
  }

  #tell(what, facts) {
    if (!this.#isOver) this.#send(what, facts);
  }

  #send(what, facts) {
    this.#hub.send({ op: "save", project: this.#project, session: this.#id, what, ...facts });
  }
}

function unavailable(message) {
  return new ProjectLockError(message, { code: "web-lock-unavailable", retryable: true });
}
