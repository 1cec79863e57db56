// The project lock's facade in the page: checks the calls, starts the worker, watches over each lease.
//
// Guarantees: a lease that this page holds ends here first and everywhere else later: its signal fires on loss, looks at
// both clocks each time it is asked, and fires before the page is frozen or cached. A listener that throws harms nobody.
// One worker per page, however many copies of this package it has. When to ask, wait, renew and give up is decided by
// the rules, and carried out in the worker (lock-worker.js), where timers are not throttled in hidden tabs.

import { SynclineError, fromPlain } from "./errors.js";
import { HeldLease } from "./lock-held.js";
import { startWorker, workerError } from "./worker.js";

const REGISTRY = Symbol.for("syncline.locks.2");
const RETRY = { initialDelayMs: 200, maxDelayMs: 5_000, multiplier: 2, maxAttempts: Infinity };
const LEASE_MIN_MS = 1_000;
const LEASE_MAX_MS = 60_000;
const PROJECT = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;
const NOTE = "syncline.lock.released.";
const PROJECTS_MAX = 100;
// A network may be slow; one that says nothing for so long is none.
const START_MAX_MS = 30_000;
const LOCK_CODE = /^(web-lock|fallback|lease)-/;
const LOSSES = {
  expired: "the lease could not be renewed in time",
  "taken-over": "another tab took the project over",
  hidden: "the page went away and gave its lease back",
};

export { SynclineError };

export class ProjectLockError extends Error {
  constructor(message, { code, retryable, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "ProjectLockError";
    this.code = code;
    this.retryable = retryable;
  }
}

export async function acquireProjectLock(options) {
  const { lease, didFallback } = await hub().acquire(readOptions(options), false);
  return { lease, didFallback };
}

export async function renewProjectLock({ lease, extendByMs = 15_000 } = {}) {
  between("extendByMs", extendByMs, LEASE_MIN_MS, LEASE_MAX_MS);
  return hub().renew(readLease(lease), extendByMs);
}

export async function releaseProjectLock({ lease, reason = "completed" } = {}) {
  if (!["completed", "aborted", "expired"].includes(reason)) {
    throw invalid("reason must be completed, aborted or expired");
  }
  return hub().release(readLease(lease), reason);
}

export async function withProjectLock(options, work) {
  if (typeof work !== "function") throw invalid("work must be a function");
  const locks = hub();
  const { lease, held } = await locks.acquire(readOptions(options), true);
  let result;
  try {
    result = await work(lease, held.signal);
  } catch (error) {
    await locks.release(lease, "aborted").catch(() => {});
    throw error;
  }
  // What was done after the loss may have been done twice: the caller has to hear of it.
  if (held.signal.aborted) throw held.signal.reason;
  await locks.release(lease, "completed");
  return result;
}

export function subscribeLockEvents(listener) {
  if (typeof listener !== "function") throw invalid("listener must be a function");
  const { listeners } = hub();
  // An object of its own, so that the same function can be subscribed twice and each unsubscribed alone.
  const entry = { listener };
  listeners.add(entry);
  return { unsubscribe: () => void listeners.delete(entry) };
}

/** The page's one hub; AutoSave speaks to it too. */
export function hub() {
  if (typeof document === "undefined" || typeof Worker === "undefined") {
    throw new SynclineError(
      "unsupported-environment",
      "the project lock needs a page with workers: call it in the browser, not while rendering on a server",
    );
  }
  return (globalThis[REGISTRY] ??= new Hub());
}

class Hub {
  listeners = new Set();
  /** What AutoSave hears of, and by project what it keeps open. */
  news = new EventTarget();
  saves = new Map();
  #worker;
  #starting;
  #calls = new Map();
  #nextCall = 1;
  /** By lease id: what this page holds. */
  #held = new Map();
  /** By lease id, the newest last: which project it is or was for. */
  #projects = new Map();
  #channels = new Map();
  /** What was given back by word, and has still to be noted. */
  #left = [];
  /** The leases that the page gave up when it last went: what the worker said of them before is heard later. */
  #given = new Set();
  #listening = new AbortController();

  async acquire({ signal, workerUrl, wasmUrl, ...wanted }, keep, comeBack = false) {
    if (signal?.aborted) return this.#refuseAborted(wanted.project);
    this.#start(workerUrl, wasmUrl);
    const { id, answer } = this.#call("acquire", { ...wanted, keep, comeBack, released: readNotes(wanted.project) });
    const abort = () => this.#worker?.postMessage({ op: "abort", call: id });
    signal?.addEventListener("abort", abort);
    try {
      const { lease, didFallback, marginMs } = await answer;
      return { lease, didFallback, held: this.hold(wanted.project, { lease, marginMs }) };
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  async renew(lease, extendByMs) {
    const { project } = this.#heldOf(lease);
    const renewed = await this.#call("renew", { project, leaseId: lease.leaseId, extendByMs }).answer;
    this.#held.get(lease.leaseId)?.extend(renewed);
    return renewed.lease;
  }

  async release(lease, reason) {
    const held = this.#heldOf(lease);
    // Certain no longer, whatever becomes of the release.
    held.free?.();
    try {
      await this.#call("release", { project: held.project, leaseId: lease.leaseId, reason }).answer;
      this.#held.delete(lease.leaseId);
    } catch (error) {
      // A release that failed may be tried again; one that came too late may not.
      if (!error.retryable) this.#held.delete(lease.leaseId);
      throw error;
    }
  }

  /** A word to the worker that needs no answer. */
  send(message, workerUrl, wasmUrl) {
    this.#start(workerUrl, wasmUrl);
    this.#worker.postMessage(message);
  }

  /** Whether this lease is held here and certain on both clocks, right now. */
  isSure(leaseId) {
    return this.#held.get(leaseId)?.isOver() === false;
  }

  /** Watches over a lease that was granted to this page. */
  hold(project, granted) {
    const { leaseId } = granted.lease;
    this.#projects.set(leaseId, project);
    if (this.#projects.size > PROJECTS_MAX) this.#projects.delete(this.#projects.keys().next().value);
    // Open before it is needed: Firefox loses what is said on a channel that a closing page has just opened.
    this.#channel(project);
    if (!this.#held.has(leaseId)) {
      this.#held.set(leaseId, new HeldLease(project, granted, expired, () => this.#held.delete(leaseId)));
    }
    return this.#held.get(leaseId);
  }

  // A lease this page knows nothing of may have ended long ago, or be another tab's: the rules say which.
  #heldOf({ leaseId }) {
    return this.#held.get(leaseId) ?? { project: this.#projects.get(leaseId) ?? "project" };
  }

  #refuseAborted(project) {
    const error = new ProjectLockError("the request was aborted", { code: "web-lock-aborted", retryable: false });
    console.info(error);
    this.#emit({ type: "acquire-failed", project, at: Date.now(), error });
    throw error;
  }

  #start(workerUrl, wasmUrl) {
    if (this.#worker !== undefined) return;
    this.#worker = startWorker(() => spawn(workerUrl), workerBlocked);
    const late = () => this.#fail(workerBlocked(undefined, `its script did not load within ${START_MAX_MS / 1_000} s`));
    this.#starting = setTimeout(late, START_MAX_MS);
    this.#worker.addEventListener("message", ({ data }) => this.#receive(data));
    this.#worker.addEventListener("error", (event) => this.#fail(workerError(event, "the lock's worker", workerBlocked)));
    this.#worker.postMessage({ op: "start", wasmUrl });
    const { signal } = this.#listening;
    // Firefox drops a message of a closing page that follows a write to localStorage. So all of a page's messages go out
    // while the event is on its way down, and all its notes (AutoSave's too) are written after.
    addEventListener("pagehide", () => this.#leave("went away"), { signal, capture: true });
    addEventListener("pagehide", () => this.#writeNotes(), { signal });
    document.addEventListener("freeze", () => (this.#leave("was frozen"), this.#writeNotes()), { signal });
    // Whoever left is heard of by its note as well, should its message be lost.
    addEventListener("storage", ({ key, newValue }) => this.#readNote(key, newValue), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.#return(), { signal });
    document.addEventListener("resume", () => this.#return(), { signal });
  }

  #call(op, facts) {
    this.#start();
    const id = this.#nextCall++;
    const answer = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
    this.#worker.postMessage({ op, id, ...facts });
    return { id, answer };
  }

  #receive(message) {
    clearTimeout(this.#starting);
    switch (message.type) {
      case "answer": {
        const call = this.#calls.get(message.id);
        this.#calls.delete(message.id);
        if (message.error === undefined) call?.resolve(message.value);
        else call?.reject(revive(message.error));
        break;
      }
      case "event": {
        const { event, marginMs } = message;
        if (event.error !== undefined) event.error = revive(event.error);
        if (event.type === "renewed") this.#held.get(event.lease.leaseId)?.extend({ lease: event.lease, marginMs });
        // Acquired by the worker itself, for AutoSave: it ends with the page like any other. A page that was busy for longer
        // than the lease has lost sight of it, and finds it again.
        if (["acquired", "renewed"].includes(event.type) && this.saves.has(event.project) && !this.#given.has(event.lease.leaseId)) {
          this.hold(event.project, { lease: event.lease, marginMs });
        }
        if (event.type === "released") {
          this.#held.get(event.lease.leaseId)?.free();
          this.#held.delete(event.lease.leaseId);
        }
        this.#emit(event);
        break;
      }
      case "lost":
        this.#held.get(message.leaseId)?.lose(lost(message.loss));
        this.#tellSaves("lost", message);
        break;
      case "log":
        console[message.level](revive(message.error));
        break;
      case "failed":
        this.#fail(revive(message.error));
        break;
      case "save":
        this.#tellSaves("save", message);
        break;
    }
  }

  #tellSaves(type, detail) {
    this.news.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #emit(event) {
    this.#tellSaves("lock", { event });
    for (const { listener } of [...this.listeners]) {
      try {
        listener(event);
      } catch (error) {
        // As if it had been thrown in a task of its own: the page hears of it, the other listeners are not harmed.
        reportError(error);
      }
    }
  }

  // The page is about to stand still or to go. What it holds ends here and now, and the others are told by the two means
  // that need no time: a message for those who listen, a note for those who come.
  #leave(how) {
    const all = [...this.#held.values()];
    // Before anything else: Firefox tears the tab down meanwhile, and every moment counts. Nobody is told of a loss yet, but
    // whoever asks is.
    for (const { lease, project, doubt } of all) {
      doubt();
      this.#channel(project).postMessage({ type: "released", leaseId: lease.leaseId });
    }
    this.#given = new Set(all.map(({ lease }) => lease.leaseId));
    for (const held of all) {
      this.#left.push([held.project, held.lease.leaseId]);
      held.lose(ended(`the page ${how} and gave its lease back`));
    }
    this.#worker.postMessage({ op: "hide" });
    // Before the page stands still, so that it is shown as it is when it goes on.
    this.#tellSaves("left", {});
  }

  #writeNotes() {
    for (const [project, leaseId] of this.#left.splice(0)) writeNote(project, leaseId);
  }

  #readNote(key, leaseId) {
    if (!key?.startsWith(NOTE) || leaseId === null) return;
    this.#worker.postMessage({ op: "released", project: key.slice(NOTE.length), leaseId });
  }

  #return() {
    for (const held of [...this.#held.values()]) held.isOver();
    this.#worker.postMessage({ op: "show" });
  }

  #channel(project) {
    if (!this.#channels.has(project)) this.#channels.set(project, new BroadcastChannel(`syncline-lock:${project}`));
    return this.#channels.get(project);
  }

  // The worker is of no use any more; the next call starts a new one.
  #fail(error) {
    if (globalThis[REGISTRY] === this) delete globalThis[REGISTRY];
    this.#listening.abort();
    clearTimeout(this.#starting);
    this.#worker?.terminate();
    for (const channel of this.#channels.values()) channel.close();
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
    for (const held of [...this.#held.values()]) held.lose(error);
    this.#tellSaves("failed", { error });
  }
}

function ended(message) {
  return new ProjectLockError(message, { code: "lease-expired", retryable: false });
}

function expired() {
  return ended(LOSSES.expired);
}

function lost(loss) {
  return ended(LOSSES[loss]);
}

// Errors cross from the worker as plain values; the lock's own have codes that no other error has.
export function revive(error) {
  const { code, retryable, message, cause } = error;
  return LOCK_CODE.test(code) ? new ProjectLockError(message, { code, retryable, cause }) : fromPlain(error);
}

function spawn(workerUrl) {
  if (workerUrl !== undefined) return new Worker(workerUrl, { type: "module", name: "syncline-lock" });
  // Written out like this, bundlers find the worker and ship it.
  return new Worker(new URL("./lock-worker.js", import.meta.url), { type: "module", name: "syncline-lock" });
}

function workerBlocked(cause, why) {
  return new SynclineError(
    "worker-blocked",
    `the lock's worker could not start: ${why ?? "lock-worker.js must be on the page's own origin, and allowed by worker-src in its Content-Security-Policy"}`,
    { cause },
  );
}

// The one kind of storage that is written at once, even by a page that is being closed. Where all tabs' is full or forbidden,
// that of this tab serves for a reload. Without any, a lease ends by itself.
function writeNote(project, leaseId) {
  for (const storage of [() => localStorage, () => sessionStorage]) {
    try {
      return storage().setItem(NOTE + project, leaseId);
    } catch {
      // Forbidden or full.
    }
  }
}

/** The leases that were given up by a note. */
export function readNotes(project) {
  const notes = [];
  for (const storage of [() => localStorage, () => sessionStorage]) {
    try {
      const note = storage().getItem(NOTE + project);
      if (note !== null) notes.push(note);
    } catch {
      // Forbidden.
    }
  }
  return notes;
}

export function readOptions(options = {}) {
  if (typeof options !== "object" || options === null) throw invalid("options must be an object");
  const { signal, maxWaitMs = 5_000, retryPolicy = {}, project = "project", leaseMs = 15_000, mechanism } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid("signal must be an AbortSignal");
  between("maxWaitMs", maxWaitMs, 0, 3_600_000);
  if (typeof retryPolicy !== "object" || retryPolicy === null) throw invalid("retryPolicy must be an object");
  const retry = { ...RETRY };
  for (const name of Object.keys(RETRY)) if (retryPolicy[name] !== undefined) retry[name] = retryPolicy[name];
  between("retryPolicy.initialDelayMs", retry.initialDelayMs, 0, 3_600_000);
  between("retryPolicy.maxDelayMs", retry.maxDelayMs, 0, 3_600_000);
  between("retryPolicy.multiplier", retry.multiplier, 1, 1_000);
  between("retryPolicy.maxAttempts", retry.maxAttempts, 1, Infinity);
  between("leaseMs", leaseMs, LEASE_MIN_MS, LEASE_MAX_MS);
  if (typeof project !== "string" || !PROJECT.test(project)) {
    throw invalid("project must be 1 to 64 letters, digits or . _ @ - and begin with a letter or digit");
  }
  checkMechanism(mechanism);
  return {
    signal,
    maxWaitMs,
    retryPolicy: retry,
    project,
    leaseMs,
    mechanism,
    // The worker would resolve relative addresses against its own place, not against the page.
    workerUrl: address(options.workerUrl),
    wasmUrl: address(options.wasmUrl),
  };
}

// Whether an origin that could have files uses them is known to the worker.
function checkMechanism(mechanism) {
  if (mechanism === undefined) return;
  if (!["web-lock", "opfs-lock", "idb-lock"].includes(mechanism)) {
    throw invalid("mechanism must be web-lock, opfs-lock or idb-lock");
  }
  const files = typeof navigator.storage?.getDirectory === "function";
  if (mechanism === "opfs-lock" && !files) throw invalid("opfs-lock needs OPFS, which exists on https and localhost only");
}

function readLease(lease) {
  if (typeof lease?.leaseId !== "string") throw invalid("lease must be a lease that acquireProjectLock() returned");
  return lease;
}

function between(name, value, least, most) {
  if (typeof value === "number" && value >= least && value <= most) return;
  throw invalid(`${name} must be a number from ${least} to ${most}`);
}

function address(value) {
  if (value === undefined) return undefined;
  try {
    return new URL(value, document.baseURI).href;
  } catch (cause) {
    throw invalid(`not a valid address: ${value}`, cause);
  }
}

function invalid(message, cause) {
  return new SynclineError("invalid-argument", message, { cause });
}
