// A worker of a node's queue, for servers: Node.js, Bun, Deno. Types and documentation: run-worker.d.ts.
//
// Guarantees: a key's lease is extended while `run` works on it; when the lease is lost, `signal` of that task is aborted and its
// answer is dropped. A node that is away is asked again, ever more seldom; an answer is told until the node has taken it or
// the lease is over. `stop()` takes no more keys and waits for those under way.

import { SynclineError } from "./errors.js";

const WAIT_MS = 20_000;
const ANSWER_MS = 10_000;
const AGAIN_MS = 500;
const AGAIN_MAX_MS = 15_000;
const CLAIM_MAX = 100;

export { SynclineError };

/** Thrown by `run` to say what to make of a failure. */
export class TaskFailure extends Error {
  constructor(reason, { cause = "error", retryAfterMs } = {}) {
    super(reason);
    this.name = "TaskFailure";
    this.failure = { cause, retryAfterMs };
  }
}

export function runWorker({ url = "http://127.0.0.1:3000", token, queue, run, concurrency = 1, leaseMs, onError = () => {} } = {}) {
  if (typeof queue !== "string" || queue === "") throw new SynclineError("invalid-argument", "queue must be the name of a queue");
  if (typeof run !== "function") throw new SynclineError("invalid-argument", "run must be a function");
  if (!Number.isInteger(concurrency) || concurrency < 1) throw new SynclineError("invalid-argument", "concurrency must be a whole number above 0");
  const worker = new Worker({ url, token, queue, run, concurrency, leaseMs, onError });
  return { stop: worker.stop, ended: worker.ended };
}

class Worker {
  #options;
  #stopping = new AbortController();
  #underWay = new Set();

  constructor(options) {
    this.#options = options;
    this.ended = this.#loop();
    // Whoever does not ask for the end still hears of it, through onError.
    this.ended.catch(() => {});
  }

  stop = () => {
    this.#stopping.abort();
    return this.ended;
  };

  async #loop() {
    const { concurrency, leaseMs, onError } = this.#options;
    let failures = 0;
    while (!this.#stopping.signal.aborted) {
      const free = concurrency - this.#underWay.size;
      if (free <= 0) {
        await Promise.race(this.#underWay);
        continue;
      }
      try {
        const ask = { max: Math.min(free, CLAIM_MAX), waitMs: WAIT_MS, leaseMs };
        const { tasks } = await this.#post("claim", ask, WAIT_MS + ANSWER_MS, this.#stopping.signal);
        failures = 0;
        for (const task of tasks) this.#begin(task);
      } catch (error) {
        if (this.#stopping.signal.aborted) break;
        onError(error);
        if (!error.retryable) {
          await Promise.allSettled(this.#underWay);
          throw error;
        }
        await pause(backoff(failures++), this.#stopping.signal);
      }
    }
    await Promise.allSettled(this.#underWay);
  }

  #begin(task) {
    const work = this.#perform(task).finally(() => this.#underWay.delete(work));
    this.#underWay.add(work);
  }

  async #perform({ key, token, attempt, input, group, leaseMs }) {
    const lost = new AbortController();
    const done = new AbortController();
    const lease = { until: Date.now() + leaseMs };
    const kept = this.#keep(token, leaseMs, lease, lost, done.signal);
    let verb = "complete";
    let told;
    try {
      const result = await this.#options.run({ key, input, group, attempt, signal: lost.signal });
      told = { token, result: result === undefined ? null : result };
    } catch (error) {
      verb = "fail";
      const { cause = "error", retryAfterMs } = error?.failure ?? {};
      told = { token, reason: String(error?.message ?? error), cause, retryAfterMs };
    }
    done.abort();
    await kept;
    if (!lost.signal.aborted) await this.#tell(verb, told, lease);
  }

  /** Extends the lease until the work is done, or until it is lost. */
  async #keep(token, leaseMs, lease, lost, done) {
    while (await pause(leaseMs / 3, done)) {
      const asked = Date.now();
      try {
        await this.#post("extend", { tokens: [token] }, ANSWER_MS);
        lease.until = asked + leaseMs;
      } catch (error) {
        if (error.reason !== "lease-lost" && Date.now() < lease.until) continue;
        return lost.abort(new SynclineError("stopped", "the lease on this key is lost"));
      }
    }
  }

  async #tell(verb, told, lease) {
    for (let failures = 0; ; failures++) {
      try {
        return await this.#post(verb, { tasks: [told] }, ANSWER_MS);
      } catch (error) {
        this.#options.onError(error);
        if (!error.retryable || Date.now() >= lease.until) return;
        await pause(backoff(failures));
      }
    }
  }

  async #post(verb, body, timeoutMs, signal) {
    const { url, token, queue } = this.#options;
    const credential = typeof token === "function" ? await token() : token;
    const address = new URL(`api/queues/${encodeURIComponent(queue)}/${verb}`, url.toString().endsWith("/") ? url : `${url}/`);
    const timeout = AbortSignal.timeout(timeoutMs);
    let response, text;
    try {
      response = await fetch(address, {
        method: "POST",
        headers: { "content-type": "application/json", ...(credential ? { authorization: `Bearer ${credential}` } : {}) },
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
      });
      text = await response.text();
    } catch (cause) {
      throw new SynclineError("unreachable", `the node did not answer: ${cause.message}`, { retryable: true, cause });
    }
    if (response.ok) return JSON.parse(text);
    const { error = text, code } = parsed(text);
    const retryable = response.status === 429 || response.status >= 500;
    throw new SynclineError("refused", `${verb}: ${error} (${response.status})`, { retryable, reason: code });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

function backoff(failures) {
  const longest = Math.min(AGAIN_MAX_MS, AGAIN_MS * 2 ** Math.min(failures, 10));
  return longest / 2 + (Math.random() * longest) / 2;
}

/** Waits; false if it was cut short. */
function pause(ms, signal) {
  if (signal?.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const timer = setTimeout(() => end(true), ms);
    const stop = () => end(false);
    const end = (whole) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      resolve(whole);
    };
    signal?.addEventListener("abort", stop);
  });
}
