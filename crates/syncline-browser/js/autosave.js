// AutoSave in the page: a document that saves itself while this tab holds its project, and follows along while it does not.
// Types and documentation: autosave.d.ts.
//
// Guarantees: every call is checked; close and open again work in any order and at any moment; several users in one page share
// one document, each with listeners, editors and an end of its own. What the document does is the session's
// (autosave-session.js).

import { bindEditor, isEditor } from "./autosave-bind.js";
import { Session } from "./autosave-session.js";
import { SynclineError } from "./errors.js";
import { hub, readOptions } from "./lock.js";

const FILE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const TEXT_MAX = 4 * 1024 * 1024;

export { SynclineError };

export function openAutoSave(options = {}) {
  const settings = readOptions(options);
  const { file = "document.json", allowTakeOver = true } = options;
  if (typeof file !== "string" || !FILE.test(file) || file.endsWith(".new")) {
    throw invalid("file must be 1 to 64 letters, digits or . _ - and begin with a letter or digit");
  }
  if (typeof allowTakeOver !== "boolean") throw invalid("allowTakeOver must be true or false");
  const { saves } = hub();
  const { project, signal } = settings;
  if (!saves.has(project)) saves.set(project, new Session(hub(), { ...settings, file, allowTakeOver }));
  const session = saves.get(project);
  if (session.file !== file) throw invalid(`this page has another file of the project ${project} open: ${session.file}`);
  return openHandle(session, signal);
}

// One user's hold on the document. Its methods need no `this`.
function openHandle(session, signal) {
  const listeners = new Set();
  const user = session.join(listeners);
  const unbinds = new Set();
  let closing;

  const close = () => {
    closing ??= (() => {
      signal?.removeEventListener("abort", close);
      for (const unbind of [...unbinds]) unbind(true);
      const left = session.leave(user);
      for (const { listener } of [...listeners]) notify(listener, stateOf());
      return left;
    })();
    return closing;
  };
  const stateOf = () => {
    const state = session.stateFor(user);
    if (closing !== undefined || session.isOver) Object.assign(state, { status: "closed", heldHere: false });
    return state;
  };
  signal?.addEventListener("abort", close);
  if (signal?.aborted) close();

  return {
    ready: session.ready,
    get text() {
      return session.textFor(user);
    },
    get version() {
      return stateOf().version;
    },
    get state() {
      return stateOf();
    },
    get history() {
      return session.history;
    },
    change(text, { base } = {}) {
      if (typeof text !== "string") throw invalid("text must be a string");
      if (text.length > TEXT_MAX) throw invalid(`text must have at most ${TEXT_MAX} characters`);
      if (base !== undefined && !Number.isSafeInteger(base)) throw invalid("base must be a version");
      return session.change(user, text, base);
    },
    bind(target) {
      if (!isEditor(target)) throw invalid("target must be a textarea, an input, or { read, write, setReadOnly, onInput }");
      if (closing !== undefined) throw new SynclineError("stopped", "the document was closed");
      const unbind = bindEditor(target, editorUser(session, user));
      const once = (isOver) => void (unbinds.delete(once) && unbind(isOver));
      unbinds.add(once);
      return () => once(false);
    },
    flush: () => session.flush(),
    takeOver: () => session.takeOver(),
    resolve(which) {
      if (!["mine", "theirs"].includes(which)) throw invalid("which must be mine or theirs");
      session.resolve(which);
    },
    subscribe: (listener) => subscribe(listeners, listener),
    close: () => close(),
  };
}

// Each bound editor is a user of its own: it has seen what it shows.
function editorUser(session, owner) {
  const listeners = new Set();
  const user = session.join(listeners, owner);
  return {
    get isOpen() {
      return session.isOpen;
    },
    get isWritable() {
      return session.isWritable;
    },
    get text() {
      return session.textFor(user);
    },
    change: (text) => text.length <= TEXT_MAX && session.change(user, text),
    subscribe: (listener) => subscribe(listeners, listener),
    close: () => session.leave(user),
  };
}

function subscribe(listeners, listener) {
  if (typeof listener !== "function") throw invalid("listener must be a function");
  // An object of its own, so that the same function can be subscribed twice and each unsubscribed alone.
  const entry = { listener };
  listeners.add(entry);
  return { unsubscribe: () => void listeners.delete(entry) };
}

function notify(listener, state) {
  try {
    listener(state);
  } catch (error) {
    reportError(error);
  }
}

function invalid(message) {
  return new SynclineError("invalid-argument", message);
}
