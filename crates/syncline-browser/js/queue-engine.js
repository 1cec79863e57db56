// Runs one queue in this realm: hands keys to the rules (WASM), makes the calls they start, tells them how these ended.
//
// Guarantees: a key runs at most once at a time; with a store, nothing is acted on before it is kept: a call is made
// after its start was written, a result is told after it was. Which key is next, when, and what follows from a failure is
// decided by the rules; keeping rows is the store's (queue-store.js), who may run at all the tabs' (queue-tabs.js).
//
// Fast because the border to WASM is crossed once for many tasks, and because a task that needs no promise gets none.

import { Failure, KeyNumbers, PacedQueue } from "./syncline_queue.js";
import { SynclineError } from "./errors.js";
import { badKey, isFailure, judge, noResult, unknownKey } from "./queue-answer.js";
import { Call, Context } from "./queue-call.js";
import { GroupNumbers } from "./queue-groups.js";
import { heap } from "./queue-wasm.js";

// Where a key is, in the numbers of the rules.
export const PLACES = ["unknown", "waiting", "running", "retrying", "done", "failed", "dead"];
const [UNKNOWN, , , , DONE, FAILED, DEAD] = PLACES.keys();
const KINDS = ["new", "retry", "priority", "again"];
const ROW = 7;
const GROUP_ROW = 5;
const GROUP_STATUS = 6;
// A key that is given no group.
const NO_GROUP = 0xffff_ffff;
const NO_GROUPS = new Uint32Array(0);
// As many keys go to the rules as one text.
const KEYS_AT_ONCE = 1_024;
// Half a character has no UTF-8.
const HALF = /\p{Cs}/u;
const BAD = /[\p{Cc}\p{Cs}]/u;

// How long tasks may follow each other without letting the page breathe, and after what pause they no longer do.
const BURST_MS = 12;
const BREATH_MS = 2;
// Numbers of forgotten keys are taken back once in so many turns.
const TURNS_BETWEEN_SWEEPS = 64;
// setTimeout fires at once when asked to wait longer than this.
const TIMER_MAX_MS = 2 ** 31 - 1;

const NOTHING = Object.freeze([]);
const encoder = new TextEncoder();
const soon = typeof setImmediate === "function" ? setImmediate : breathe;

export class Engine {
  // Whether anybody wants to hear what became of the keys.
  isHeard = false;

  #run;
  #rules;
  #store;
  #heard;
  #timeoutMs;
  #apartMs;
  // Whether the rules must hear when a call really began.
  #tellsBegin;

  // Keys by number; the number's value is its result or the reason why there is none.
  #numbers = new KeyNumbers(crypto.getRandomValues(new Uint32Array(4)));
  #keys = [];
  #values = [];
  #groups = new GroupNumbers();

  #running = [];
  #idleCalls = [];
  // No call runs out of time before this.
  #expiryAt = Infinity;
  // Calls that brought a result, by id, with the number of the key and the result; and how many they are: the lists
  // are used again and again.
  #doneIds = [];
  #doneNumbers = [];
  #doneValues = [];
  #doneCount = 0;
  #failed = [];
  #waiters = new Map();
  #whenKept = [];
  #whenIdle = [];

  #paused;
  #closed = false;
  // Why it is.
  #why;
  #writing = false;
  #due = false;
  #turning = false;
  #idle = false;
  #turns = 0;
  #endedAt;
  #toldAt;
  // As many calls can be told to have ended at once.
  #concurrency;
  // What the last step left to do: what to tell, the number, call and attempt of each call to make and how many numbers
  // these are, and when to come back. Held here because a step is taken for every few tasks, and a list costs more than a task.
  #notices = [];
  #starts;
  #startsLength = 0;
  #wakeAt = NaN;
  #burstAt = 0;
  #lastAt = 0;
  #notBefore = 0;
  #timer;
  #timerAt = Infinity;
  #takeTurn = () => this.#turn();
  #goOn = () => {
    this.#burstAt = this.#lastAt = performance.now();
    this.#turn();
  };

  // `kept` is what a store read: `{ rows: [key, numbers, value, group][], pace, paused, groups: [name, numbers][] }`.
  constructor({ settings, run, store, kept, paused, heard }) {
    this.#run = run;
    this.#store = store;
    this.#heard = heard;
    this.#timeoutMs = settings.timeoutMs;
    this.#concurrency = settings.concurrency;
    this.#starts = new Float64Array(3 * settings.concurrency);
    // Writing takes time between the permission for a call and its begin: where several run at once, the rules
    // alone would then let the next begin too close to it.
    this.#apartMs = store !== undefined && settings.concurrency > 1 ? settings.intervalMs : 0;
    this.#tellsBegin = store !== undefined && settings.groupConcurrency > 1 && settings.groupIntervalMs > 0;
    this.#paused = kept?.paused ?? paused;
    this.#rules = this.#open(settingsInOrder(settings), kept);
    this.#groups.use(this.#rules);
    this.#groups.settle();
    // Where the rules read and write numbers; the memory moves when it grows, the places in it do not.
    this.#endedAt = this.#rules.endedAt / Float64Array.BYTES_PER_ELEMENT;
    this.#toldAt = this.#rules.toldAt / Float64Array.BYTES_PER_ELEMENT;
    this.#wake();
  }

  get isPaused() {
    return this.#paused;
  }

  // `groups` are the names of the keys' groups, in the same order, with nothing where a key is given none.
  enqueue(kind, keys, groups) {
    // A retry is of no use to a key nobody knows, so it gets no number.
    const numbers = this.#numbersOf(keys, kind !== "retry");
    const told = this.#rules.enqueue(KINDS.indexOf(kind), numbers, this.#groupsOf(groups));
    this.#groups.settle();
    if (told.length === 3) {
      this.#sweep(numbers);
      const [held, asked, limit] = told;
      throw new SynclineError("queue-full", `the queue holds ${held} keys and would take ${asked} more; ${limit} is the most`, {
        retryable: true,
      });
    }
    this.#wake();
    const [added, moved, again, ignored] = told;
    return { added, moved, again, ignored };
  }

  dequeue(results) {
    const numbers = this.#numbersOf(results.map(([key]) => key));
    const kept = this.#rules.dequeue(performance.now(), numbers);
    let count = 0;
    results.forEach(([, value], index) => {
      if (kept[index] === 0) return;
      this.#settle(numbers[index], DONE, value);
      count += 1;
    });
    this.#wake();
    return count;
  }

  revive(keys) {
    const numbers = keys === undefined ? this.#rules.list(DEAD, 0xffff_ffff) : this.#numbersOf(keys);
    let count = 0;
    for (const number of numbers) count += this.#rules.revive(number) ? 1 : 0;
    this.#wake();
    return count;
  }

  remove(keys) {
    let count = 0;
    for (const number of this.#numbersOf(keys)) {
      if (this.#rules.remove(number) === UNKNOWN) continue;
      count += 1;
      this.#answerWaiters(number, "reject", unknownKey(this.#keys[number]));
    }
    this.#wake();
    return count;
  }

  pause(paused, group) {
    if (group === undefined) this.#paused = paused;
    else this.#rules.holdGroup(performance.now(), this.#groups.number(group), paused);
    this.#groups.settle();
    this.#wake();
  }

  groups(limit) {
    const [numbers, groups] = [this.#rules.groups(limit), []];
    for (let at = 0; at < numbers.length; at += GROUP_STATUS) {
      const [number, waiting, running, held, failures, nextAt] = numbers.subarray(at, at + GROUP_STATUS);
      const nextCallAt = Number.isNaN(nextAt) ? null : Math.round(Date.now() + nextAt - performance.now());
      groups.push({ name: this.#groups.name(number), waiting, running, paused: held === 1, failures, nextCallAt });
    }
    return groups;
  }

  list(state, limit) {
    const place = PLACES.indexOf(state);
    return Array.from(this.#rules.list(place, limit), (number) => ({
      key: this.#keys[number],
      state,
      attempts: this.#rules.attempts(number),
      ...(this.#groups.isEmpty ? {} : { group: this.#groupOf(number) }),
      ...(place === DONE ? { result: this.#values[number] } : {}),
      ...(place === FAILED || place === DEAD ? { reason: this.#values[number] } : {}),
    }));
  }

  result(key) {
    const [number] = this.#numbersOf([key]);
    const place = this.#rules.place(number);
    if (place === UNKNOWN) return Promise.reject(unknownKey(key));
    if (place === DONE) return Promise.resolve(this.#values[number]);
    if (place === FAILED || place === DEAD) return Promise.reject(noResult(key, place === DEAD, this.#values[number]));
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(number);
      if (waiters === undefined) this.#waiters.set(number, [{ resolve, reject }]);
      else waiters.push({ resolve, reject });
    });
  }

  // Resolves when everything that has happened so far is kept.
  kept() {
    if (this.#store === undefined) return Promise.resolve();
    if (this.#closed) return Promise.reject(this.#why);
    return new Promise((resolve, reject) => {
      this.#whenKept.push({ resolve, reject });
      this.#wake();
    });
  }

  idle() {
    if (this.#idle && !this.#due) return Promise.resolve();
    if (this.#closed) return Promise.reject(this.#why);
    return new Promise((resolve, reject) => this.#whenIdle.push({ resolve, reject }));
  }

  status() {
    return this.#rules.status(performance.now());
  }

  // Ends the calls and keeps what there is to keep. With a store, what ran is first in line at the next start.
  async close(error) {
    await this.kept().catch(ignore);
    this.#end(error);
  }

  // Whatever waits for something is answered: nothing will happen any more.
  #end(error) {
    if (this.#closed) return;
    [this.#closed, this.#why] = [true, error];
    clearTimeout(this.#timer);
    for (const { reject } of [...this.#whenKept.splice(0), ...this.#whenIdle.splice(0)]) reject(error);
    for (const call of this.#running.splice(0)) {
      call.isRunning = false;
      call.context.abort(error);
    }
    for (const number of [...this.#waiters.keys()]) this.#answerWaiters(number, "reject", error);
  }

  // Called by Call when its promise ends. One that was given up meanwhile has nothing to say.
  ended(call, hasResult, value) {
    if (!call.isRunning) return;
    const { number, id } = call;
    this.#leave(call);
    this.#idleCalls.push(call);
    if (hasResult) this.#succeeded(number, id, value);
    else this.#failedWith(number, id, judge(value));
  }

  #succeeded(number, id, value) {
    if (isFailure(value)) return this.#failedWith(number, id, judge(value));
    if (this.#store !== undefined) {
      try {
        structuredClone(value);
      } catch (cause) {
        return this.#failedWith(number, id, judge(new Error(`the result cannot be kept: ${cause?.message ?? cause}`)));
      }
    }
    this.#doneIds[this.#doneCount] = id;
    this.#doneNumbers[this.#doneCount] = number;
    this.#doneValues[this.#doneCount++] = value;
    this.#wake();
  }

  #failedWith(number, id, judged) {
    this.#failed.push({ number, id, ...judged });
    this.#wake();
  }

  #open(settings, kept) {
    if (kept === undefined) return PacedQueue.fresh(settings, Math.random(), performance.now());
    const given = this.#numbersOf(kept.rows.map(([key]) => key), true);
    const rows = kept.rows.flatMap(([, numbers, value, group], index) => {
      this.#values[given[index]] = value;
      return [given[index], ...numbers, group === undefined ? 0 : this.#groups.number(group)];
    });
    const groups = (kept.groups ?? []).flatMap(([name, numbers]) => [this.#groups.number(name), ...numbers]);
    const rules = PacedQueue.open(settings, Math.random(), performance.now(), Date.now(), rows, kept.pace ?? [], groups);
    if (rules === undefined) {
      throw new SynclineError("storage-failed", "what was kept of the queue does not belong together; delete its database");
    }
    return rules;
  }

  // Something is new: a turn is taken soon, or goes on if one is being taken.
  #wake() {
    if (this.#due) return;
    this.#due = true;
    if (!this.#turning) queueMicrotask(this.#takeTurn);
  }

  #turn() {
    if (this.#closed || this.#writing) return;
    let now = performance.now();
    if (now - this.#lastAt > BREATH_MS) this.#burstAt = now;
    this.#turning = true;
    this.#idle = false;
    do {
      this.#due = false;
      this.#step(now);
      if (this.#store !== undefined) this.#keepThenAct();
      else this.#act(now, this.#takeNotices());
      now = performance.now();
    } while (this.#due && !this.#writing && !this.#closed && now - this.#burstAt <= BURST_MS);
    this.#turning = false;
    this.#lastAt = now;
    if (this.#due && !this.#writing) soon(this.#goOn);
  }

  // One crossing into the rules: what ended goes in, what to do comes out.
  #step(now) {
    const wall = Date.now();
    if (now >= this.#expiryAt) this.#expire(now);
    if (this.#failed.length > 0) this.#fail(now, wall);
    // More can have ended than can run: those that were given up meanwhile. The rest is told in the next step.
    const ended = Math.min(this.#doneCount, this.#concurrency);
    const mayStart = !this.#paused && now >= this.#notBefore;
    let numbers = heap();
    for (let index = 0; index < ended; index++) numbers[this.#endedAt + index] = this.#doneIds[index];
    const length = this.#rules.turn(now, wall, ended, mayStart);
    numbers = heap();
    let at = this.#toldAt;
    for (let index = 0; index < ended; index++, at++) {
      if (numbers[at] === DONE) this.#settle(this.#doneNumbers[index], DONE, this.#doneValues[index]);
      this.#doneValues[index] = undefined;
    }
    this.#doneCount -= ended;
    if (this.#doneCount > 0) {
      for (const list of [this.#doneIds, this.#doneNumbers, this.#doneValues]) list.splice(0, ended);
      this.#due = true;
    }
    this.#wakeAt = mayStart ? numbers[at] : this.#paused ? NaN : this.#notBefore;
    const lost = numbers[at + 1];
    at += 2;
    for (const end = at + 2 * lost; at < end; at += 2) this.#settle(numbers[at], numbers[at + 1], "no answer in time");
    this.#startsLength = 0;
    for (const end = this.#toldAt + length; at < end; at++) this.#starts[this.#startsLength++] = numbers[at];
    if (++this.#turns % TURNS_BETWEEN_SWEEPS === 0 && this.#store === undefined) {
      this.#sweep(this.#rules.takeFreed());
      this.#groups.takeBack(this.#rules.takeFreedGroups());
    }
  }

  #fail(now, wall) {
    for (const { number, id, failure, retryAfterMs, reason } of this.#failed.splice(0)) {
      const place = this.#rules.fail(now, wall, id, failure, retryAfterMs, reason);
      if (place !== UNKNOWN) this.#settle(number, place, place === FAILED || place === DEAD ? this.#rules.reason(number) : reason);
    }
  }

  #act(now, notices) {
    if (notices.length > 0) this.#tell(notices);
    if (this.#closed) return;
    const starts = this.#starts;
    for (let at = 0; at < this.#startsLength; at += 3) this.#begin(starts[at], starts[at + 1], starts[at + 2], now);
    this.#sleep(this.#wakeAt);
  }

  #keepThenAct() {
    const groups = this.#groupChanges();
    const { puts, deletes } = this.#changes();
    const [waiting, notices] = [this.#whenKept.splice(0), this.#takeNotices()];
    if (puts.length + deletes.length + groups.length + waiting.length === 0) return this.#act(performance.now(), notices);
    this.#writing = true;
    this.#store.write({ puts, deletes, groups, pace: this.#rules.pace(), paused: this.#paused }).then(
      () => {
        this.#writing = false;
        this.#act(performance.now(), notices);
        waiting.forEach(({ resolve }) => resolve());
        if (this.#due) this.#turn();
      },
      (error) => {
        // The rules are ahead of what is kept: whoever runs the queue must begin again from there.
        this.#end(error);
        waiting.forEach(({ reject }) => reject(error));
        this.#store.failed(error);
      },
    );
  }

  #changes() {
    const [rows, puts, deletes] = [this.#rules.changes(), [], []];
    for (let at = 0; at < rows.length; at += ROW) {
      const number = rows[at];
      const key = this.#keys[number];
      if (rows[at + 1] !== UNKNOWN) {
        const value = rows[at + 1] >= DONE ? this.#values[number] : undefined;
        const group = rows[at + ROW - 1];
        puts.push([key, Array.from(rows.subarray(at + 1, at + ROW - 1)), value, group === 0 ? undefined : this.#groups.name(group)]);
      } else {
        deletes.push(key);
        this.#sweep([number]);
      }
    }
    return { puts, deletes };
  }

  // The name of each group of which something else is to be kept than before, with its numbers, or without where nothing is.
  #groupChanges() {
    const numbers = this.#rules.groupChanges(performance.now(), Date.now());
    const changes = [];
    for (let at = 0; at < numbers.length; at += GROUP_ROW) {
      const kept = Number.isNaN(numbers[at + 1]) ? undefined : Array.from(numbers.subarray(at + 1, at + GROUP_ROW));
      changes.push([this.#groups.name(numbers[at]), kept]);
    }
    // Only now: what is forgotten is told by its name.
    if (!this.#groups.isEmpty) this.#groups.takeBack(this.#rules.takeFreedGroups());
    return changes;
  }

  #begin(number, id, attempt, now) {
    if (this.#tellsBegin) this.#rules.beginLate(performance.now(), id);
    if (this.#apartMs > 0) this.#notBefore = performance.now() + this.#apartMs;
    const context = new Context(attempt, this.#groups.isEmpty ? undefined : this.#groupOf(number));
    let returned;
    let isPromise;
    try {
      returned = this.#run(this.#keys[number], context);
      isPromise = typeof returned?.then === "function";
    } catch (error) {
      return this.#failedWith(number, id, judge(error));
    }
    if (!isPromise) return this.#succeeded(number, id, returned);
    const call = this.#idleCalls.pop() ?? new Call(this);
    call.begin(number, id, context, now + this.#timeoutMs);
    call.position = this.#running.push(call) - 1;
    if (this.#expiryAt === Infinity) this.#expiryAt = call.deadline;
    // What only looks like a promise may end twice.
    Promise.resolve(returned).then(call.resolved, call.rejected);
  }

  #leave(call) {
    const last = this.#running.pop();
    if (last !== call) {
      this.#running[call.position] = last;
      last.position = call.position;
    }
    call.isRunning = false;
  }

  #expire(now) {
    this.#expiryAt = Infinity;
    for (const call of [...this.#running]) {
      if (call.deadline > now) {
        this.#expiryAt = Math.min(this.#expiryAt, call.deadline);
      } else {
        const error = new DOMException("no answer in time", "TimeoutError");
        this.#leave(call);
        call.context.abort(error);
        this.#failed.push({ number: call.number, id: call.id, failure: Failure.Broken, reason: error.message });
      }
    }
  }

  #settle(number, place, value) {
    // Where there is nothing to hold, the list need not grow.
    if (place >= DONE && (value !== undefined || number < this.#values.length)) this.#values[number] = value;
    if (!this.isHeard && this.#waiters.size === 0) return;
    this.#notices.push({ number, key: this.#keys[number], place, value });
  }

  #takeNotices() {
    if (this.#notices.length === 0) return NOTHING;
    const notices = this.#notices;
    this.#notices = [];
    return notices;
  }

  #tell(notices) {
    for (const { number, key, place, value } of notices) {
      if (place === DONE) this.#answerWaiters(number, "resolve", value);
      else if (place === FAILED || place === DEAD) this.#answerWaiters(number, "reject", noResult(key, place === DEAD, value));
    }
    if (this.isHeard) this.#heard(notices);
  }

  #answerWaiters(number, how, value) {
    const waiters = this.#waiters.get(number);
    if (waiters === undefined) return;
    this.#waiters.delete(number);
    for (const waiter of waiters) waiter[how](value);
  }

  #sleep(wakeAt) {
    if (Number.isNaN(wakeAt) && this.#running.length === 0 && !this.#paused && !this.#due) {
      this.#idle = true;
      this.#expiryAt = Infinity;
      clearTimeout(this.#timer);
      this.#timerAt = Infinity;
      this.#whenIdle.splice(0).forEach(({ resolve }) => resolve());
    }
    const at = Math.min(Number.isNaN(wakeAt) ? Infinity : wakeAt, this.#expiryAt);
    // A timer that fires too early does no harm; setting one for each task would.
    if (at >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(
      () => {
        this.#timerAt = Infinity;
        this.#turn();
      },
      Math.min(Math.max(0, Math.ceil(at - performance.now())), TIMER_MAX_MS),
    );
  }

  #groupOf(number) {
    const group = this.#rules.group(number);
    return group === 0 ? undefined : this.#groups.name(group);
  }

  #groupsOf(names) {
    if (names === undefined) return NO_GROUPS;
    return Uint32Array.from(names, (name) => (name === undefined ? NO_GROUP : this.#groups.number(name)));
  }

  // The number of each key. One that has none gets one if `add`, else one that no key has.
  #numbersOf(keys, add = false) {
    const numbers = new Uint32Array(keys.length);
    if (add) this.#numbers.expect(keys.length);
    for (let from = 0; from < keys.length; from += KEYS_AT_ONCE) {
      const some = keys.slice(from, from + KEYS_AT_ONCE);
      const text = some.join("\n");
      // No character takes more bytes than this.
      const room = 3 * text.length;
      const at = this.#numbers.room(room);
      const { written } = encoder.encodeInto(text, new Uint8Array(heap().buffer, at, room));
      if (HALF.test(text) || !this.#numbers.number(written, some.length, add)) {
        this.#sweep(numbers.subarray(0, from));
        throw badKey(from + some.findIndex((key) => BAD.test(key)));
      }
      numbers.set(new Uint32Array(heap().buffer, this.#numbers.toldAt, some.length), from);
    }
    for (let index = 0; add && index < keys.length; index++) this.#keys[numbers[index]] ??= keys[index];
    return numbers;
  }

  // Takes back the numbers of keys that the rules do not know any more.
  #sweep(numbers) {
    for (const number of numbers) {
      // There are no rules yet while they are being opened.
      if (this.#rules?.place(number) === UNKNOWN && this.#numbers.takeBack(number)) {
        this.#keys[number] = this.#values[number] = undefined;
      }
    }
  }
}

function settingsInOrder(settings) {
  const { concurrency, intervalMs, retryDelayMs, maxAttempts, timeoutMs, breakerAfter, maxKeys, maxResults } = settings;
  const { groupConcurrency, groupIntervalMs } = settings;
  return [
    ...[concurrency, intervalMs, retryDelayMs, maxAttempts, timeoutMs, breakerAfter, maxKeys, maxResults],
    ...[groupConcurrency, groupIntervalMs],
  ];
}

function ignore() {}

// A message is a task of its own, as a timer is, but comes without the delay that timers have.
function breathe(work) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    work();
  };
  port2.postMessage(undefined);
}
