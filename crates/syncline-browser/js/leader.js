// Elects one context of an origin (a tab, a worker, a page of an extension) as the leader for a name, and replaces it when
// it stands still.
//
//     const member = lead({ name, onLead, onLose });   `name` is used as it is, also for the Web Lock
//     member.leads         whether this context leads now
//     member.stepDown()    gives the lead up, lets the others go first, and then asks for it again
//     member.close()       gives it up for good; settles when onLose() has
//
// onLead() and onLose() are called in turns, never two at once, and each is awaited. onLose() follows every onLead(), also one
// that rejected, which ends the term: report such a failure yourself. Nothing is thrown.
//
// The leader holds a Web Lock; on plain http:// it has the newest row in a small database, and a lifeline (lifeline.js). So a
// leader that is closed or crashes is followed at once. The others also ask the leader every second whether it is there. It
// answers in a task of its own, as hidden tabs do too, whose timers are slow, but not a tab that is frozen, busy, in a dialog or
// in the back/forward cache: whoever gets no answer for MISSES_MAX ticks, 4.3 s at most, takes the lead away. A tab that was
// hidden for minutes has its timers once a minute: it notices when it is shown again, or some minutes later.
//
// Two leaders for a moment are possible: one that stands still does not know that it was replaced, and may still run a few lines
// when it goes on, before it hears of it. So what a leader does must be harmless when done twice, or fenced by its storage. The
// kept queue is fenced: every write of its database has a number that is used once (queue-store.js).
// The bridge of the state is harmless: sending and merging a change twice is the same as once.

import { pause } from "./errors.js";
import { keepLifeline, whenGone } from "./lifeline.js";

const TICK_MS = 850;
const MISSES_MAX = 4;
// Of several that notice at the same time, the first one tells the others before they act.
const SPREAD_MS = 200;
// One that stepped down or could not begin lets the others go first.
const PAUSE_MS = 1_000;
const DATABASE = "syncline-lead";
const TERMS = "terms";
const NEVER = new Promise(() => {});

export function lead(options) {
  return new Member(options);
}

class Member {
  #name;
  #onLead;
  #onLose;
  #id = uniqueName();
  #channel;
  // Chromium hands messages of other tabs to a frozen page, which does nothing else: a message to itself is not.
  #hop = new MessageChannel();
  #leads = false;
  // Ends the present term.
  #over = () => {};
  // Whether the leader was heard since the last tick, and which one it was.
  #heard = false;
  #leader;
  #closed = false;
  // Ends when the page goes, perhaps into the back/forward cache.
  #present = new AbortController();
  #listening = new AbortController();
  #turns;

  constructor({ name, onLead, onLose }) {
    this.#name = name;
    this.#onLead = onLead;
    this.#onLose = onLose;
    this.#channel = openChannel(`syncline-lead:${name}`);
    this.#channel.onmessage = ({ data }) => this.#receive(data);
    this.#hop.port1.onmessage = () => this.#leads && this.#say("leads");
    const { signal } = this.#listening;
    globalThis.addEventListener?.("pagehide", () => this.#present.abort(), { signal });
    globalThis.addEventListener?.("pageshow", () => this.#return(), { signal });
    globalThis.document?.addEventListener("freeze", () => this.#present.abort(), { signal });
    globalThis.document?.addEventListener("resume", () => this.#return(), { signal });
    this.#turns = this.#compete(this.#present.signal);
  }

  get leads() {
    return this.#leads;
  }

  stepDown() {
    this.#over();
  }

  async close() {
    this.#closed = true;
    this.#listening.abort();
    if (this.#leads) this.#over();
    else this.#present.abort();
    await this.#turns;
    this.#channel.close();
    this.#hop.port1.close();
  }

  #return() {
    if (!this.#present.signal.aborted || this.#closed) return;
    this.#present = new AbortController();
    const { signal } = this.#present;
    this.#turns = this.#turns.then(() => this.#compete(signal));
  }

  async #compete(signal) {
    while (!signal.aborted && !this.#closed) {
      const term = await this.#claim(signal);
      if (term === undefined) return;
      await this.#serve(term, signal);
      if (!this.#closed) await pause(PAUSE_MS, signal);
    }
  }

  // Waits for the lead, and takes it where the leader is silent; undefined: the page goes, or this member was closed.
  #claim(signal) {
    return new Promise((resolve) => {
      const asking = new AbortController();
      let misses = 0;
      let isOver = false;
      const end = (term) => {
        if (isOver) return term?.release();
        isOver = true;
        clearInterval(ticking);
        asking.abort();
        resolve(term);
      };
      const ask = (steal) => take(this.#name, steal, asking.signal).then(end, () => {});
      const ticking = setInterval(() => {
        if (this.#heard) [this.#heard, misses] = [false, 0];
        else if (++misses < MISSES_MAX) this.#say("ask");
        else {
          misses = 0;
          setTimeout(() => this.#heard || isOver || ask(true), SPREAD_MS * Math.random());
        }
      }, TICK_MS);
      signal.addEventListener("abort", () => end(undefined), { once: true });
      ask(false);
    });
  }

  async #serve(term, signal) {
    if (signal.aborted) return term.release();
    const over = new Promise((resolve) => {
      this.#over = () => {
        this.#leads = false;
        resolve();
      };
    });
    // A page that goes has no time to end its work first.
    const leave = () => (this.#over(), term.release());
    signal.addEventListener("abort", leave);
    term.whenLost.then(this.#over);
    this.#leads = true;
    const ticking = this.#watchOver(term);
    this.#say("leads", { instead: this.#leader });
    await call(this.#onLead).catch(this.#over);
    await over;
    clearInterval(ticking);
    this.#heard = false;
    await call(this.#onLose).catch(() => {});
    signal.removeEventListener("abort", leave);
    term.release();
  }

  // A leader that stood still may have been replaced without a word.
  #watchOver(term) {
    const over = this.#over;
    let last = performance.now();
    return setInterval(async () => {
      const stood = performance.now() - last;
      last = performance.now();
      if (stood > MISSES_MAX * TICK_MS && !(await term.check())) over();
    }, TICK_MS);
  }

  #receive({ type, from, instead }) {
    if (type === "ask" && this.#leads) this.#hop.port2.postMessage(undefined);
    if (type !== "leads") return;
    [this.#heard, this.#leader] = [true, from];
    if (instead === this.#id) this.#over();
  }

  #say(type, more) {
    if (this.#closed && type === "ask") return;
    this.#channel.postMessage({ type, from: this.#id, ...more });
  }
}

// Settles when the lead is held: `release()`, `whenLost`, and `check()` whether it is held still. Rejects when aborted.
async function take(name, steal, signal) {
  try {
    if (globalThis.navigator?.locks !== undefined) return await takeLock(name, steal, signal);
  } catch (error) {
    if (signal.aborted || error?.name === "AbortError") throw error;
    // Forbidden here, as in a frame without an origin.
  }
  try {
    return await takeRow(name, steal, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    // A context without Web Locks and without a database shares no storage with others.
    return { release() {}, whenLost: NEVER, check: async () => true };
  }
}

function takeLock(name, steal, signal) {
  return new Promise((resolve, reject) => {
    let lose;
    const whenLost = new Promise((lost) => (lose = lost));
    const hold = () => new Promise((release) => resolve({ release, whenLost, check: async () => true }));
    navigator.locks.request(name, steal ? { steal } : { signal }, hold).catch((error) => {
      reject(error);
      lose();
    });
  });
}

// The terms of a name are numbered rows; `add` refuses a number that was used, so one context alone begins each term.
async function takeRow(name, steal, signal) {
  const database = await openDatabase();
  try {
    return await beginTerm(database, name, steal, signal);
  } catch (error) {
    database.close();
    throw error;
  }
}

async function beginTerm(database, name, steal, signal) {
  const aborted = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
  aborted.catch(() => {});
  for (let gone; ; ) {
    signal.throwIfAborted();
    const newest = await newestTerm(database, name);
    if (newest !== undefined && !steal && newest.holder !== gone) {
      await Promise.race([newest.hasLifeline ? whenGone(newest.holder) : NEVER, aborted]);
      gone = newest.holder;
      continue;
    }
    const holder = uniqueName();
    let lose;
    const whenLost = new Promise((lost) => (lose = lost));
    // First the lifeline: whoever reads the row may watch it at once.
    const letGo = await keepLifeline(holder, lose);
    const value = { holder, hasLifeline: letGo !== undefined };
    if (!signal.aborted && (await begin(database, name, (newest?.term ?? 0) + 1, value))) {
      const release = () => (letGo?.(), database.close());
      const check = async () => (await newestTerm(database, name).catch(() => undefined))?.holder === holder;
      return { release, whenLost, check };
    }
    letGo?.();
    // Somebody was faster: that one leads now.
    steal = false;
  }
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TERMS);
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
  });
}

function newestTerm(database, name) {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction([TERMS], "readonly");
    const request = transaction.objectStore(TERMS).openCursor(IDBKeyRange.bound([name, 0], [name, Infinity]), "prev");
    // Or it would stay open, and keep writers out, until its page has heard the answer.
    transaction.commit();
    request.onsuccess = () => resolve(request.result === null ? undefined : { term: request.result.key[1], ...request.result.value });
    transaction.onabort = () => reject(transaction.error);
  });
}

// False: the number was used. `add` comes last: Firefox commits a transaction in which a request failed if others followed it.
function begin(database, name, term, value) {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction([TERMS], "readwrite");
    const terms = transaction.objectStore(TERMS);
    terms.delete(IDBKeyRange.bound([name, 0], [name, Math.max(0, term - 2)]));
    const added = terms.add(value, [name, term]);
    let isUsed = false;
    added.onerror = () => (isUsed = added.error?.name === "ConstraintError");
    transaction.commit();
    transaction.oncomplete = () => resolve(!isUsed);
    transaction.onabort = () => (isUsed ? resolve(false) : reject(transaction.error));
  });
}

// Throws where storage is forbidden: then nobody shares it, and there is nobody to talk to.
export function openChannel(name) {
  try {
    return new BroadcastChannel(name);
  } catch {
    return { postMessage() {}, close() {} };
  }
}

async function call(work) {
  await work();
}

function uniqueName() {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}
