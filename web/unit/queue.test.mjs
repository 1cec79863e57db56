// The paced queue of the package where no browser is needed: order, pace, failures and cost, in memory.
// Needs `cargo xtask wasm` first.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { createQueue, initSync, RetryLater } from "../pkg/queue.js";

initSync(await readFile(new URL("../pkg/syncline_queue_bg.wasm", import.meta.url)));

/** A queue whose calls end when the test says so. */
function byHand(t, options) {
  const calls = [];
  const queue = createQueue({
    run: (key, context) => new Promise((resolve, reject) => calls.push({ key, context, resolve, reject })),
    ...options,
  });
  t.after(() => queue.close());
  const begun = async (count) => {
    while (calls.length < count) await new Promise((resolve) => setTimeout(resolve, 1));
    return calls;
  };
  return { queue, calls, begun };
}

test("qu_01 distinct keys in order, priority right after the head, nothing asked twice", async (t) => {
  const order = [];
  const queue = createQueue({ paused: true, run: (key) => order.push(key) });
  t.after(() => queue.close());
  assert.deepEqual(await queue.enqueue(["a", "b", "c", "b"]), { added: 3, moved: 0, again: 0, ignored: 1 });
  assert.deepEqual(await queue.enqueue(new Set(["c"]), { kind: "priority" }), { added: 0, moved: 1, again: 0, ignored: 0 });
  assert.deepEqual(await queue.enqueue("nobody", { kind: "retry" }), { added: 0, moved: 0, again: 0, ignored: 1 });
  assert.deepEqual((await queue.keys("waiting")).map(({ key }) => key), ["a", "c", "b"]);
  assert.deepEqual(queue.status().paused, { until: null, reason: "asked" });
  await queue.resume();
  await queue.idle();
  assert.deepEqual(order, ["a", "c", "b"]);
  assert.equal((await queue.enqueue(["a", "b"])).ignored, 2, "they have their results");
  assert.equal(await queue.result("c"), 2);
  await assert.rejects(queue.result("nobody"), { name: "SynclineError", code: "unknown-key" });
});

test("qu_01 what cannot be a key is refused with its place in the list, and leaves nothing behind", async (t) => {
  const queue = createQueue({ paused: true, run: () => {} });
  t.after(() => queue.close());
  const many = Array.from({ length: 3_000 }, (_, index) => `k${index}`);
  for (const bad of ["a\nb", "\0", "\u0085", "\ud800", "", "x".repeat(1_025), 7]) {
    const list = [...many, bad, "z"];
    await assert.rejects(queue.enqueue(list), ({ code, message }) => code === "invalid-argument" && /number 3001 is not/.test(message));
  }
  assert.equal(queue.status().waiting, 0);
  const odd = ["図書", "😀", "é", "a b", "__proto__", "\ufffd"];
  assert.equal((await queue.enqueue([...many, ...odd, ...odd])).added, 3_006);
  assert.deepEqual((await queue.keys("waiting", { limit: 1 })).map(({ key }) => key), ["k0"]);
  assert.equal(await queue.remove([...many, "nobody"]), 3_000);
  assert.deepEqual((await queue.keys("waiting")).map(({ key }) => key), odd);
});

test("qu_02 results from elsewhere end keys that are in line, and no others", async (t) => {
  const queue = createQueue({ paused: true, run: () => "from here" });
  t.after(() => queue.close());
  await queue.enqueue(["a", "b"]);
  const waits = queue.result("a");
  assert.equal(await queue.dequeue({ a: "from there", x: "nobody asked" }), 1);
  assert.equal(await waits, "from there");
  await queue.resume();
  assert.equal(await queue.result("b"), "from here");
  assert.equal(await queue.remove("b"), 1);
  await assert.rejects(queue.result("b"), { code: "unknown-key" });
});

test("qu_03 no call starts sooner than the interval after the end of the last", async (t) => {
  const [starts, ends] = [[], []];
  const queue = createQueue({
    intervalMs: 20,
    run: async () => {
      starts.push(performance.now());
      await new Promise((resolve) => setTimeout(resolve, 5));
      ends.push(performance.now());
    },
  });
  t.after(() => queue.close());
  await queue.enqueue(["a", "b", "c", "d"]);
  await queue.idle();
  assert.equal(starts.length, 4);
  for (let call = 1; call < 4; call++) assert.ok(starts[call] - ends[call - 1] >= 20, `${starts[call] - ends[call - 1]} ms`);
});

test("qu_03 never more at once than allowed, and all of them used", async (t) => {
  const { queue, calls, begun } = byHand(t, { concurrency: 3 });
  await queue.enqueue(Array.from({ length: 10 }, (_, index) => `k${index}`));
  await begun(3);
  assert.equal(queue.status().running, 3);
  for (let ended = 0; ended < 10; ended++) {
    calls[ended].resolve(ended);
    await queue.result(`k${ended}`);
    assert.ok(queue.status().running <= 3);
  }
  assert.equal(calls.length, 10);
});

test("qu_04 qu_26 a 429 holds the whole queue and comes back; other failures end with a reason", async (t) => {
  const runs = [];
  const queue = createQueue({
    retryDelayMs: 1,
    run: (key, { attempt }) => {
      runs.push([key, attempt, performance.now()]);
      if (key === "busy" && attempt === 1) throw new RetryLater(60);
      if (key === "header" && attempt === 1) return new Response("", { status: 429, headers: { "retry-after": "0" } });
      if (key === "gone") return new Response("", { status: 404 });
      if (key === "broken") throw new Error("cannot read the answer");
      return key;
    },
  });
  t.after(() => queue.close());
  const events = [];
  queue.subscribe((event) => events.push(event));
  await queue.enqueue(["busy", "gone", "broken", "header"]);
  await queue.idle();
  const at = (key, attempt) => runs.find((run) => run[0] === key && run[1] === attempt)[2];
  assert.ok(at("gone", 1) - at("busy", 1) >= 60, "nobody was called while the API wanted to be left alone");
  assert.equal(await queue.result("busy"), "busy");
  assert.equal(await queue.result("header"), "header");
  await assert.rejects(queue.result("gone"), { code: "task-failed", message: "gone: the server answered 404" });
  await assert.rejects(queue.result("broken"), { code: "task-failed", message: /cannot read the answer/ });
  assert.deepEqual(events.slice(0, 1), [{ type: "settled", key: "busy", state: "retrying", reason: "too many requests" }]);
});

test("qu_22 attempts end on the dead list, from which keys can be retried", async (t) => {
  let isWell = false;
  const queue = createQueue({
    retryDelayMs: 1,
    maxAttempts: 2,
    run: () => {
      if (!isWell) throw Object.assign(new Error("no route"), { retryable: true });
      return "well";
    },
  });
  t.after(() => queue.close());
  await queue.enqueue("a");
  await assert.rejects(queue.result("a"), { code: "task-dead", retryable: true, message: "a: given up after 2 attempts: no route" });
  assert.deepEqual(await queue.keys("dead"), [
    { key: "a", state: "dead", attempts: 2, reason: "given up after 2 attempts: no route" },
  ]);
  isWell = true;
  assert.equal(await queue.retryDead(), 1);
  assert.equal(await queue.result("a"), "well");
});

test("qu_22 an API that keeps failing is paused as a whole", async (t) => {
  let calls = 0;
  const queue = createQueue({
    retryDelayMs: 60_000,
    breakerAfter: 3,
    run: () => {
      calls += 1;
      return new Response("", { status: 503 });
    },
  });
  t.after(() => queue.close());
  await queue.enqueue(["a", "b", "c", "d", "e"]);
  while (queue.status().breaker !== "open") await new Promise((resolve) => setTimeout(resolve, 1));
  const { paused, waiting, retrying } = queue.status();
  assert.deepEqual([calls, paused.reason, waiting, retrying], [3, "breaker", 2, 3]);
  assert.ok(paused.until > Date.now());
});

test("qu_25 asked again while it runs, a key runs exactly once more", async (t) => {
  const { queue, calls, begun } = byHand(t);
  await queue.enqueue("a");
  await begun(1);
  for (let time = 0; time < 5; time++) await queue.enqueue("a", { kind: "again" });
  calls[0].resolve("out of date");
  await begun(2);
  const result = queue.result("a");
  calls[1].resolve("new");
  assert.equal(await result, "new");
  await queue.idle();
  assert.equal(calls.length, 2);
});

test("qu_22 a call that takes too long is told to stop, and its late answer does not count", async (t) => {
  const { queue, calls, begun } = byHand(t, { timeoutMs: 10, retryDelayMs: 1 });
  await queue.enqueue("a");
  const [first] = await begun(1);
  assert.equal(first.context.signal.aborted, false);
  await begun(2);
  assert.equal(first.context.signal.reason.name, "TimeoutError");
  first.resolve("late");
  calls[1].resolve("in time");
  assert.equal(await queue.result("a"), "in time");
});

test("qu_22 what only looks like a promise ends its own call, once", async (t) => {
  const ends = [];
  const twice = { then: (resolve) => ends.push(resolve) && setTimeout(() => [1, 2].forEach(() => resolve("said twice"))) };
  const broken = Object.defineProperty({}, "then", { get: () => assert.fail("no promise") });
  const odd = { twice, broken };
  const queue = createQueue({ run: (key) => odd[key] ?? new Promise((resolve) => setTimeout(() => resolve(key), 5)) });
  t.after(() => queue.close());
  await queue.enqueue(["twice", "broken", "after"]);
  assert.equal(await queue.result("twice"), "said twice");
  await assert.rejects(queue.result("broken"), { code: "task-failed", message: "broken: no promise" });
  ends[0]("late");
  assert.equal(await queue.result("after"), "after");
});

test("qu_24 progress counts what waits, runs and ended", async (t) => {
  const { queue, calls, begun } = byHand(t);
  await queue.enqueue(["a", "b", "c"]);
  await begun(1);
  calls[0].resolve(1);
  await begun(2);
  const { waiting, running, done, ratePerSec, leftMs, runsHere } = queue.status();
  assert.deepEqual([waiting, running, done, runsHere], [1, 1, 1, true]);
  assert.ok(ratePerSec > 0 && leftMs > 0);
});

test("qu_05 a hundred thousand tasks, with and without promises, old results making room", async (t) => {
  const keys = Array.from({ length: 100_000 }, (_, index) => `key-${index}`);
  for (const run of [(key) => key.length, async (key) => key.length]) {
    const queue = createQueue({ concurrency: 10, maxResults: 1_000, run });
    t.after(() => queue.close());
    assert.equal((await queue.enqueue(keys)).added, keys.length);
    await queue.idle();
    assert.equal(queue.status().done, keys.length);
    assert.equal(await queue.result("key-99999"), 9);
    await assert.rejects(queue.result("key-0"), { code: "unknown-key" });
    assert.equal((await queue.enqueue(keys)).added, keys.length - 1_000);
  }
});

test("qu_32 groups take turns, a long one delays no other, and a 429 holds its group alone", async (t) => {
  const runs = [];
  const queue = createQueue({
    paused: true,
    concurrency: 10,
    group: (key) => new URL(key).host,
    retryDelayMs: 1,
    run: async (key, { attempt, group }) => {
      runs.push({ key, group, at: performance.now() });
      await null;
      if (key === "https://busy/1" && attempt === 1) throw new RetryLater(60);
      return key;
    },
  });
  t.after(() => queue.close());
  const many = Array.from({ length: 1_000 }, (_, index) => `https://large/${index}`);
  await queue.enqueue(many);
  await queue.enqueue(["https://busy/1", "https://busy/2", "https://small/1"]);
  await queue.resume();
  await queue.idle();
  assert.deepEqual(runs.slice(0, 3).map(({ key }) => key), ["https://large/0", "https://busy/1", "https://small/1"]);
  assert.ok(runs.every(({ key, group }) => group === new URL(key).host));
  const busy = runs.filter(({ group }) => group === "busy");
  assert.equal(busy.length, 3, "one of them came back");
  assert.ok(busy[1].at - busy[0].at >= 60, "nobody of its group was called while the API wanted to be left alone");
  const between = runs.filter(({ group, at }) => group === "large" && at > busy[0].at && at < busy[1].at);
  assert.ok(between.length > 100, `the others went on: ${between.length}`);
});

test("qu_32 each group keeps its own interval and number of calls at once", async (t) => {
  const [starts, ends] = [{}, {}];
  const queue = createQueue({
    concurrency: 100,
    groupConcurrency: 1,
    groupIntervalMs: 20,
    run: async (key, { group }) => {
      (starts[group] ??= []).push(performance.now());
      await new Promise((resolve) => setTimeout(resolve, 5));
      (ends[group] ??= []).push(performance.now());
    },
  });
  t.after(() => queue.close());
  await queue.enqueue(["a1", "a2", "a3"].map((key) => ({ key, group: "a" })));
  await queue.enqueue(["b1", "b2", "b3"], { group: "b" });
  await queue.idle();
  for (const group of ["a", "b"]) {
    const gaps = starts[group].slice(1).map((start, index) => start - ends[group][index]);
    assert.ok(gaps.length === 2 && Math.min(...gaps) >= 20, `${group}: ${gaps}`);
  }
  assert.ok(starts.b[0] < ends.a[0], "groups run beside each other");
});

test("qu_32 a group is listed, held and let go, and forgotten with its last key", async (t) => {
  const { queue, calls, begun } = byHand(t, { concurrency: 10, groupConcurrency: 2 });
  await queue.pause({ group: "held" });
  await queue.enqueue([{ key: "h", group: "held" }, ...["x1", "x2", "x3"].map((key) => ({ key, group: "x" })), "alone"]);
  await begun(3);
  const shown = (await queue.groups()).map(({ name, waiting, running, paused }) => [name, waiting, running, paused]);
  assert.deepEqual(shown.sort(), [["", 0, 1, false], ["held", 1, 0, true], ["x", 1, 2, false]]);
  assert.deepEqual((await queue.keys("waiting")).map(({ key, group }) => [key, group]), [["h", "held"], ["x3", "x"]]);
  await queue.resume({ group: "held" });
  await begun(4);
  for (const call of calls) call.resolve(call.key);
  (await begun(5))[4].resolve("x3");
  await queue.idle();
  assert.equal(await queue.result("h"), "h");
  await queue.remove(["h", "x1", "x2", "x3", "alone"]);
  for (let round = 0; round < 200; round++) await queue.enqueue({ key: `k${round}`, group: `g${round}` });
  for (const odd of [7, "a\nb", "x".repeat(257)]) {
    await assert.rejects(queue.enqueue({ key: "k", group: odd }), { code: "invalid-argument" });
    await assert.rejects(queue.pause({ group: odd }), { code: "invalid-argument" });
  }
  await assert.rejects(queue.enqueue([{ group: "x" }]), { code: "invalid-argument" });
  assert.throws(() => createQueue({ run: () => {}, group: "host" }), { code: "invalid-argument" });
  assert.throws(() => createQueue({ run: () => {}, groupConcurrency: 0 }), { code: "invalid-argument" });
});

test("a closed queue aborts what runs, and wrong options are named", async (t) => {
  const { queue, begun } = byHand(t, { maxKeys: 2 });
  await assert.rejects(queue.enqueue(["a", "b", "c"]), { code: "queue-full", retryable: true });
  await queue.enqueue("a");
  const [call] = await begun(1);
  const lost = assert.rejects(queue.result("a"), { code: "stopped" });
  await queue.close();
  await lost;
  assert.equal(call.context.signal.aborted, true);
  await assert.rejects(queue.enqueue("b"), { code: "stopped" });

  const run = () => {};
  for (const options of [undefined, {}, { run: 3 }, { run, intervalMs: -1 }, { run, concurrency: 0 }, { run, persist: true }, { run, maxAttempts: NaN }]) {
    assert.throws(() => createQueue(options), { name: "SynclineError", code: "invalid-argument" });
  }
  const open = createQueue({ run });
  t.after(() => open.close());
  for (const keys of [undefined, 3, [""], ["a", null], ["x".repeat(2_000)]]) {
    await assert.rejects(open.enqueue(keys), { code: "invalid-argument" });
  }
});
