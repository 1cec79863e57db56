// The worker's half of the project lock: carries out what the rules (WASM) ask for.
//
// Guarantees: the record is changed between open and close alone (lock-record.js); every call is answered once; nothing
// that takes time is begun while the page goes. The order of things, the pauses and who may hold what are decided by the
// rules.

import { Saver } from "./autosave-worker.js";
import { SynclineError, deadline, toPlain } from "./errors.js";
import { explain, failure } from "./lock-failure.js";
import { keepLifeline, whenGone } from "./lifeline.js";
import { openRecord, usesFiles } from "./lock-record.js";
import instantiate, {
  AcquireOptions,
  LockDo,
  LockMachine,
  LockNews,
  initSync as instantiateSync,
  lastPanic,
  version,
} from "./syncline_lock.js";
import { wasmModule } from "./wasm.js";

const STORAGE_CHECK_MS = 60_000;
// A browser that takes so long to open its storage will not open it at all.
const STORAGE_MAX_MS = 4_000;
// Leases that ended by a word of their holder; the oldest are forgotten, and end by themselves.
const RELEASED_MAX = 64;
// The worker's own calls are numbered apart from those of the page.
const OWN_CALLS = 0x8000_0000;

const { init } = wasmModule({
  instantiate,
  instantiateSync,
  version,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_lock_bg.wasm", import.meta.url),
});

let ready;
let files;
let ownCalls = 0;
const locks = new Map();
// By the number of the call: what the page asked, for its answer.
const calls = new Map();

postMessage({ type: "started" });
self.addEventListener("message", ({ data }) => {
  if (data.op === "start") ready = prepare(data);
  else ready.then(() => guarded(() => receive(data)), () => {});
});

// Without the rules, or a place for leases, this worker is of no use: the page is told why, ends it, and may start another.
async function prepare({ wasmUrl }) {
  try {
    // Throws at once where the user forbids storage.
    new BroadcastChannel("syncline-lock").close();
    const place = deadline(usesFiles(), STORAGE_MAX_MS, "fallback-open-failed", "this browser's storage");
    [files] = await Promise.all([place, init(wasmUrl)]);
  } catch (cause) {
    const error = cause instanceof SynclineError ? cause : failure("fallback-open-failed", false, cause);
    postMessage({ type: "failed", error: toPlain(error) });
    throw cause;
  }
}

function receive({ op, id, project, ...facts }) {
  if (id !== undefined) calls.set(id, { project, ...facts });
  if (facts.mechanism === "idb-lock" && files) return refuse(op, id, { project, ...facts });
  switch (op) {
    case "hide":
      for (const lock of locks.values()) lock.hide();
      break;
    case "show":
      for (const lock of locks.values()) lock.show();
      break;
    case "open-save":
      lockOf(project, facts.mechanism).open({ project, ...facts });
      break;
    case "save":
      locks.get(project)?.tellSaver(facts);
      break;
    case "released":
      locks.get(project)?.overhear({ type: "released", ...facts });
      break;
    case "abort":
      locks.get(calls.get(facts.call)?.project)?.abort(facts.call);
      break;
    default:
      lockOf(project, facts.mechanism)[op](id, facts);
  }
}

function lockOf(project, mechanism) {
  const known = locks.get(project);
  if (known !== undefined && (mechanism === undefined || mechanism === known.mechanism || !known.replaceable)) {
    return known;
  }
  known?.end();
  const lock = new Lock(project, mechanism);
  locks.set(project, lock);
  return lock;
}

class Lock {
  saver;
  /** Settles when the saver before has ended. */
  #saversEnd;
  #project;
  #machine;
  #record;
  #channel;
  #timer;
  #web = new Map();
  #drafts = new Map();
  #released = new Set();
  /** The lease of this tab, what it keeps for those who wait for it, and the lease that it waits for itself. */
  #held;
  #lifeline;
  #watched;
  #away = false;
  #storageAt = -Infinity;
  #cause;

  constructor(project, mechanism) {
    this.#project = project;
    this.mechanism = mechanism;
    const webLocks = navigator.locks !== undefined && (mechanism ?? "web-lock") === "web-lock";
    this.#machine = new LockMachine(webLocks, files);
    this.#record = openRecord(project, files);
    this.#channel = new BroadcastChannel(`syncline-lock:${project}`);
    this.#channel.onmessage = ({ data }) => guarded(() => this.overhear(data));
  }

  get replaceable() {
    return this.saver === undefined && ["idle", "faulted"].includes(this.#machine.state);
  }

  end() {
    clearTimeout(this.#timer);
    this.#lifeline?.letGo();
    this.#channel.close();
  }

  /** A document is opened. The one before may be on its way out, with the lock still in its hands. */
  open(facts) {
    this.#endSaver();
    this.saver = new Saver(this, facts, postMessage.bind(self), this.#saversEnd);
  }

  tellSaver({ session, what, ...facts }) {
    if (this.saver?.session !== session) return;
    if (what === "close") this.#endSaver();
    else this.saver.receive({ what, ...facts });
  }

  #endSaver() {
    const { saver } = this;
    if (saver === undefined) return;
    this.saver = undefined;
    this.#saversEnd = Promise.all([this.#saversEnd, saver.end()]);
  }

  acquire(id, { maxWaitMs, retryPolicy, leaseMs, keep, comeBack, released }) {
    for (const leaseId of released ?? []) this.#forget(leaseId);
    const options = Object.assign(new AcquireOptions(), { maxWaitMs, ...retryPolicy, leaseMs, keep, comeBack });
    this.#tell("acquire", id, ...randomBits(), options);
    options.free();
    this.#checkStorage();
  }

  renew(id, { leaseId, extendByMs }) {
    this.#tell("renew", id, leaseId, extendByMs);
  }

  release(id, { leaseId }) {
    this.#tell("release", id, leaseId);
  }

  abort(id) {
    this.#tell("abort", id);
  }

  /** Nobody wants what the page would ask for by itself, because it was away. */
  forget() {
    this.#tell("happened", LockNews.Forget);
  }

  /** One of the above, asked by the worker itself. */
  ask(op, facts) {
    const id = OWN_CALLS + (ownCalls = (ownCalls + 1) % OWN_CALLS);
    const answer = new Promise((resolve, reject) => {
      calls.set(id, { project: this.#project, resolve, reject });
      this[op](id, facts);
    });
    return Object.assign(answer, { abort: () => this.abort(id) });
  }

  /** Puts a draft in place of its document while the lease is surely ours. */
  commit(id, { leaseId, draft }) {
    this.#drafts.set(id, { leaseId, ...draft });
    this.#tell("commit", id, leaseId);
  }

  get record() {
    return this.#record;
  }

  get certain() {
    this.#machine.clock(performance.now(), Date.now());
    return this.#machine.certain;
  }

  /** Says something to the other tabs. */
  say(message) {
    this.#channel.postMessage(message);
  }

  hide() {
    this.#away = true;
    this.#tell("happened", LockNews.Hide);
  }

  show() {
    this.#away = false;
    this.#tell("show", ...randomBits());
  }

  /** From the other tabs. */
  overhear(message) {
    if (message.type === "free") this.#tell("happened", LockNews.Woken);
    else if (message.type === "released") {
      this.#forget(message.leaseId);
      this.#tell("happened", LockNews.Woken);
    } else if (message.type === "waiting") void this.#reassure();
    else if (message.type === "alive") void this.#watch(message.leaseId);
    else this.saver?.overhear(message);
  }

  // Somebody waits for what is held here: it can watch this tab by a lifeline, and need not wait for the lease to end.
  async #reassure() {
    const leaseId = this.#held;
    if (leaseId === undefined) return;
    if (this.#lifeline?.leaseId !== leaseId) {
      const lifeline = { leaseId, letGo: () => (lifeline.over = true) };
      this.#lifeline?.letGo();
      this.#lifeline = lifeline;
      const letGo = await keepLifeline(leaseId, () => guarded(() => this.#giveUp(leaseId)));
      if (letGo === undefined) return;
      if (lifeline.over) return letGo();
      Object.assign(lifeline, { letGo, kept: true });
    }
    if (this.#lifeline?.kept) this.say({ type: "alive", leaseId });
  }

  // Others may believe this tab gone: it lets go as a page does that is hidden, and asks again.
  #giveUp(leaseId) {
    if (this.#held !== leaseId || this.#away) return;
    this.hide();
    this.show();
  }

  // Held no more, or held anew.
  #hold(leaseId) {
    if (leaseId === this.#held) return;
    this.#held = leaseId;
    this.#lifeline?.letGo();
    this.#lifeline = undefined;
  }

  async #watch(leaseId) {
    if (this.#watched === leaseId) return;
    this.#watched = leaseId;
    await whenGone(leaseId);
    guarded(() => this.overhear({ type: "released", leaseId }));
  }

  // A lease that its holder gave up by a word, because it had no time to do so in the record.
  #forget(leaseId) {
    this.#released.add(leaseId);
    if (this.#released.size > RELEASED_MAX) this.#released.delete(this.#released.values().next().value);
  }

  #tell(what, ...facts) {
    const machine = this.#machine;
    machine.clock(performance.now(), Date.now());
    if (machine[what](...facts) === false) {
      const [id] = facts;
      answerError(id, failure("lease-mismatch", false));
    }
    for (let next = machine.next(); next !== LockDo.Nothing; next = machine.next()) this.#do(next);
    clearTimeout(this.#timer);
    const { wakeAt } = machine;
    if (wakeAt === undefined) return;
    const wait = Math.max(0, Math.ceil(wakeAt - performance.now()));
    this.#timer = setTimeout(() => guarded(() => this.#tell("happened", LockNews.Timer)), wait);
  }

  #do(what) {
    const machine = this.#machine;
    switch (what) {
      case LockDo.RequestWeb:
        return this.#requestWeb(machine.number, false);
      case LockDo.StealWeb:
        return this.#requestWeb(machine.number, true);
      case LockDo.AbortWeb:
      case LockDo.ReleaseWeb:
        return this.#dropWeb(machine.number);
      case LockDo.Open:
        return void this.#open();
      case LockDo.Write:
        return void this.#write(machine.leaseId, machine.expiresAt);
      case LockDo.Commit:
        return void this.#commit(machine.number);
      case LockDo.Close:
        return this.#record.close();
      case LockDo.Announce:
        return this.#channel.postMessage({ type: "free" });
      case LockDo.Resolve:
        return this.#resolve(machine.number);
      case LockDo.Reject:
        return this.#reject(machine.number, this.#failure());
      case LockDo.Emit:
        return this.#emit();
      case LockDo.Lost:
        return this.#lost(machine.leaseId, machine.loss);
      case LockDo.Report:
        // To lose a race is no defect.
        return postMessage({ type: "log", level: this.#cause?.step === "busy" ? "info" : machine.level, error: this.#failure() });
    }
  }

  #requestWeb(number, steal) {
    const request = { abort: new AbortController(), granted: false, dropped: false, letGo() {} };
    this.#web.set(number, request);
    const hold = () => {
      request.granted = true;
      return new Promise((resolve) => {
        request.letGo = resolve;
        if (request.dropped) resolve();
        else guarded(() => this.#tell("webGranted", number));
      });
    };
    const options = steal ? { steal: true } : { signal: request.abort.signal };
    // Some browsers throw where others reject.
    const ask = async () => navigator.locks.request(`syncline-lock:${this.#project}`, options, hold);
    ask()
      .catch((cause) => {
        if (request.dropped) return;
        this.#cause = cause;
        guarded(() => this.#tell(request.granted ? "webLost" : "webRefused", number));
      })
      .finally(() => this.#web.delete(number));
  }

  #dropWeb(number) {
    const request = this.#web.get(number);
    if (request === undefined) return;
    request.dropped = true;
    request.abort.abort();
    request.letGo();
  }

  async #open() {
    // The page goes, and with it what it held, by word: there is no time to look at the record.
    if (this.#away) {
      queueMicrotask(() => guarded(() => this.#tell("opened", undefined, 0)));
      return;
    }
    let text;
    try {
      text = await this.#record.open();
    } catch (error) {
      this.#cause = error;
      const news = { busy: LockNews.OpenBusy, read: LockNews.ReadFailed }[error.step] ?? LockNews.OpenFailed;
      guarded(() => this.#tell("happened", news));
      return;
    }
    this.#cause = undefined;
    const { leaseId, expiresAt } = parse(text);
    guarded(() => this.#tell("opened", this.#released.has(leaseId) ? undefined : leaseId, expiresAt));
  }

  async #write(leaseId, expiresAt) {
    const text = leaseId === undefined ? "" : JSON.stringify({ leaseId, expiresAt });
    let news = LockNews.Written;
    try {
      const [draft] = [...this.#drafts.values()].filter((draft) => draft.leaseId === leaseId);
      await this.#record.write(text, draft);
    } catch (error) {
      this.#cause = error;
      news = LockNews.WriteFailed;
    }
    guarded(() => this.#tell("happened", news));
  }

  async #commit(id) {
    try {
      await this.#record.commit(this.#drafts.get(id));
    } catch (error) {
      calls.get(id).failed = explain(error, "fallback-write-failed");
    }
    guarded(() => this.#tell("happened", LockNews.Committed));
  }

  #resolve(id) {
    const failed = calls.get(id)?.failed;
    if (failed !== undefined) return this.#reject(id, failed);
    this.#drafts.delete(id);
    const { didFallback, marginMs } = this.#machine;
    answer(id, { lease: this.#lease(), didFallback, marginMs });
  }

  #reject(id, error) {
    const draft = this.#drafts.get(id);
    this.#drafts.delete(id);
    if (draft !== undefined) this.#record.discard(draft).catch(() => {});
    answerError(id, error);
  }

  #emit() {
    const { event, attempt, delayMs, code, marginMs } = this.#machine;
    const news = { type: event, project: this.#project, at: Date.now() };
    const lease = this.#lease();
    if (lease !== undefined) news.lease = lease;
    if (event === "acquired" || event === "renewed") this.#hold(lease.leaseId);
    else if (event === "released" || event === "expired") this.#hold(undefined);
    if (code !== undefined) news.error = this.#failure();
    if (attempt !== undefined) Object.assign(news, { attempt, delayMs });
    postMessage({ type: "event", event: news, marginMs });
    if (event === "renewed") this.#checkStorage();
    if (event === "backoff") this.say({ type: "waiting" });
    const cause = this.#cause;
    queueMicrotask(() => guarded(() => this.saver?.note(news, cause)));
  }

  #lost(leaseId, loss) {
    this.#hold(undefined);
    postMessage({ type: "lost", project: this.#project, leaseId, loss });
    queueMicrotask(() => guarded(() => this.saver?.lost(loss)));
  }

  #lease() {
    const { leaseId, expiresAt, source } = this.#machine;
    return source === undefined ? undefined : { leaseId, expiresAt, source };
  }

  #failure() {
    const { code, retryable } = this.#machine;
    return failure(code, retryable, this.#cause);
  }

  async #checkStorage() {
    if (navigator.storage?.estimate === undefined || performance.now() - this.#storageAt < STORAGE_CHECK_MS) return;
    this.#storageAt = performance.now();
    try {
      const { usage = 0, quota = 0 } = await navigator.storage.estimate();
      guarded(() => this.#tell("storage", usage, quota));
    } catch {
      guarded(() => this.#tell("happened", LockNews.StorageDenied));
    }
  }
}

/** What the record says. A text that is no record has an id that is none: the rules take it for somebody unknown. */
function parse(text) {
  if (text === "") return {};
  try {
    const { leaseId, expiresAt } = JSON.parse(text);
    if (typeof leaseId === "string" && typeof expiresAt === "number") return { leaseId, expiresAt };
  } catch {
    // Cut short by a crash, or written by somebody else.
  }
  return { leaseId: "?", expiresAt: 0 };
}

// getRandomValues exists on plain http:// as well; randomUUID does not.
function randomBits() {
  return crypto.getRandomValues(new BigUint64Array(2));
}

function answer(id, value) {
  const call = calls.get(id);
  calls.delete(id);
  if (call?.resolve !== undefined) call.resolve(value);
  else postMessage({ type: "answer", id, value });
}

function answerError(id, error) {
  const call = calls.get(id);
  calls.delete(id);
  if (call?.reject !== undefined) call.reject(error);
  else postMessage({ type: "answer", id, error });
}

// A tab that looked at another place than the others would see no lease of theirs.
function refuse(op, id, { project, session }) {
  const error = toPlain(new SynclineError("invalid-argument", "idb-lock is for origins without OPFS; this one has it"));
  if (op === "open-save") postMessage({ type: "save", what: "failed", project, session, error });
  else answerError(id, error);
}

// A panic leaves the machine unusable; the page is told why and ends this worker.
function guarded(work) {
  try {
    work();
  } catch (cause) {
    const error = new SynclineError("internal", `the rules of the lock failed: ${lastPanic() ?? cause}`, { cause });
    postMessage({ type: "failed", error: toPlain(error) });
  }
}
