// The paced queue in Chromium, kept in IndexedDB: reloads, crashed tabs, several tabs.
// Each run of a key is counted in the page's own storage, where no tab can hide it.

import { openLockServer } from "./support/lock-server.js";
import { expect, test } from "./support/test.js";

/** @param {import("@playwright/test").Page} page */
async function openBlank(page) {
  // A file of the package as a page: same origin, no script of ours beside the test's.
  await page.goto("/pkg/package.json");
}

/** @param {import("@playwright/test").Page} page @param {any} [options] */
function openQueue(page, options = {}) {
  return page.evaluate(async (options) => {
    const { createQueue } = await import(/** @type {any} */ ("/pkg/syncline.js"));
    const queue = createQueue({
      name: "kept",
      persist: true,
      ...options,
      run: async (/** @type {string} */ key) => {
        const runs = JSON.parse(localStorage.getItem("runs") ?? "[]");
        localStorage.setItem("runs", JSON.stringify([...runs, key]));
        if (key.startsWith("stuck")) await new Promise(() => {});
        return { of: key };
      },
    });
    /** @type {any} */ (window).queue = queue;
    await queue.ready;
  }, options);
}

/** @param {import("@playwright/test").Page} page @param {string} method @param {any[]} values */
function ask(page, method, ...values) {
  return page.evaluate(
    ({ method, values }) => /** @type {any} */ (window).queue[method](...values),
    { method, values },
  );
}

/** @param {import("@playwright/test").Page} page @returns {Promise<string[]>} */
function runs(page) {
  return page.evaluate(() => JSON.parse(localStorage.getItem("runs") ?? "[]"));
}

// A file of the package has no icon.
test.use({ expectedErrors: /favicon/ });

const KEYS = Array.from({ length: 50 }, (_, index) => `k${index}`);

test("bk_07 waiting and finished work is there again after a reload, and nothing is run twice", async ({ page }) => {
  await openBlank(page);
  await openQueue(page);
  expect(await ask(page, "enqueue", KEYS)).toEqual({ added: 50, moved: 0, again: 0, ignored: 0 });
  expect(await ask(page, "result", "k49")).toEqual({ of: "k49" });
  await ask(page, "pause");
  await ask(page, "enqueue", ["later", "k0"]);

  await page.reload();
  await openQueue(page);
  expect(await ask(page, "result", "k7")).toEqual({ of: "k7" });
  expect(await ask(page, "status")).toMatchObject({ waiting: 1, paused: { until: null, reason: "asked" } });
  await ask(page, "resume");
  expect(await ask(page, "result", "later")).toEqual({ of: "later" });
  expect(await runs(page)).toEqual([...KEYS, "later"]);
});

test("bk_07 a tab that crashes in the middle of a call loses nothing", async ({ context, page }) => {
  await openBlank(page);
  await openQueue(page, { concurrency: 2 });
  await ask(page, "enqueue", ["stuck-a", ...KEYS, "stuck-b"]);
  await expect.poll(async () => (await ask(page, "status")).running + (await ask(page, "status")).done).toBeGreaterThan(20);
  const crashed = page.waitForEvent("crash");
  const session = await context.newCDPSession(page);
  session.send("Page.crash").catch(() => {});
  await crashed;

  const next = await context.newPage();
  await openBlank(next);
  await openQueue(next, { concurrency: 3 });
  expect(await ask(next, "result", "k49")).toEqual({ of: "k49" });
  const counted = await runs(next);
  for (const key of KEYS) {
    const times = counted.filter((run) => run === key).length;
    expect(times, `${key} has a result`).toBeGreaterThanOrEqual(1);
    // A call that the crash cut off is made again; there were two at most.
    expect(times).toBeLessThanOrEqual(2);
  }
  expect(counted.filter((run) => run.startsWith("k")).length).toBeLessThanOrEqual(KEYS.length + 1);
});

test("qu_25 of several tabs one runs the queue, all may use it, and the next takes over", async ({ context, page }) => {
  await openBlank(page);
  await openQueue(page);
  await expect.poll(async () => (await ask(page, "status")).runsHere).toBe(true);
  const other = await context.newPage();
  await openBlank(other);
  await openQueue(other);
  expect((await ask(other, "status")).runsHere).toBe(false);

  expect(await ask(other, "enqueue", KEYS)).toMatchObject({ added: 50 });
  expect(await ask(page, "enqueue", KEYS)).toMatchObject({ ignored: 50 });
  expect(await ask(other, "result", "k49")).toEqual({ of: "k49" });
  await expect.poll(async () => (await ask(other, "status")).done).toBe(50);
  await expect(ask(other, "result", "nobody")).rejects.toThrow(/does not know/);
  expect(await runs(other)).toEqual(KEYS);

  await ask(page, "pause");
  await ask(other, "enqueue", "after");
  await page.close();
  await expect.poll(async () => (await ask(other, "status")).runsHere).toBe(true);
  await ask(other, "resume");
  expect(await ask(other, "result", "after")).toEqual({ of: "after" });
  expect(await runs(other)).toEqual([...KEYS, "after"]);
});

test("qu_03 a kept queue holds its interval with several calls at once", async ({ page }) => {
  await openBlank(page);
  const gaps = await page.evaluate(async () => {
    const { createQueue } = await import(/** @type {any} */ ("/pkg/syncline.js"));
    /** @type {number[]} */
    const starts = [];
    const run = async () => {
      starts.push(performance.now());
    };
    const queue = createQueue({ name: "paced", persist: true, concurrency: 2, intervalMs: 25, run });
    await queue.enqueue(["a", "b", "c", "d", "e", "f"]);
    await queue.idle();
    return starts.slice(1).map((start, index) => start - starts[index]);
  });
  expect(gaps).toHaveLength(5);
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(25);
});

test("qu_32 groups of a kept queue keep their pace, take turns, and their pauses survive a reload", async ({ page }) => {
  await openBlank(page);
  const open = () =>
    page.evaluate(async () => {
      const { createQueue, RetryLater } = await import(/** @type {any} */ ("/pkg/queue.js"));
      const run = async (/** @type {string} */ key, /** @type {any} */ { group }) => {
        const calls = JSON.parse(localStorage.getItem("calls") ?? "[]");
        localStorage.setItem("calls", JSON.stringify([...calls, { key, group, at: Date.now() }]));
        if (key === "quiet1") throw new RetryLater(3_600_000);
        return key;
      };
      const group = (/** @type {string} */ key) => key.replace(/\d+$/, "");
      const queue = createQueue({ name: "grouped", persist: true, concurrency: 10, groupConcurrency: 2, groupIntervalMs: 40, group, run });
      /** @type {any} */ (window).queue = queue;
      await queue.ready;
    });
  /** @returns {Promise<{ key: string, group: string, at: number }[]>} */
  const calls = () => page.evaluate(() => JSON.parse(localStorage.getItem("calls") ?? "[]"));
  await open();
  await ask(page, "pause");
  await ask(page, "enqueue", ["a1", "a2", "a3", "a4", "b1", "b2", "quiet1", "quiet2"]);
  await ask(page, "pause", { group: "b" });
  await ask(page, "resume");
  await ask(page, "result", "a4");
  await expect.poll(async () => (await calls()).some(({ key }) => key === "quiet1")).toBe(true);
  await expect.poll(async () => (await ask(page, "keys", "retrying")).length).toBe(1);

  await page.reload();
  await open();
  await ask(page, "enqueue", ["a5", "b3"]);
  await ask(page, "result", "a5");
  const begun = await calls();
  expect(begun.map(({ key }) => key).sort()).toEqual(["a1", "a2", "a3", "a4", "a5", "quiet1"]);
  const starts = begun.filter(({ group }) => group === "a").map(({ at }) => at);
  // Both ends of a gap are whole milliseconds.
  expect(Math.min(...starts.slice(1).map((at, index) => at - starts[index]))).toBeGreaterThanOrEqual(39);
  const groups = Object.fromEntries((await ask(page, "groups")).map((/** @type {any} */ group) => [group.name, group]));
  expect(groups.b).toMatchObject({ waiting: 3, running: 0, paused: true });
  expect(groups.quiet.nextCallAt).toBeGreaterThan(Date.now() + 3_000_000);

  await ask(page, "resume", { group: "b" });
  expect(await ask(page, "result", "b3")).toBe("b3");
  expect((await ask(page, "keys", "done")).find((/** @type {any} */ { key }) => key === "b1")).toMatchObject({ group: "b" });
});

test("bk_07 a kept queue at rest writes nothing", async ({ page }) => {
  // It once took a turn after each commit, and each turn wrote: an idle queue went on for ever.
  await openBlank(page);
  const written = await page.evaluate(async () => {
    const { createQueue } = await import(/** @type {any} */ ("/pkg/syncline.js"));
    let writes = 0;
    const { transaction } = IDBDatabase.prototype;
    IDBDatabase.prototype.transaction = function (names, mode, options) {
      if (mode === "readwrite") writes += 1;
      return transaction.call(this, names, mode, options);
    };
    const queue = createQueue({ name: "resting", persist: true, run: () => "done" });
    await queue.enqueue(["a", "b", "c"]);
    await queue.idle();
    const before = writes;
    // As many writes could have followed as there are round trips to the database.
    for (let round = 0; round < 20; round++) await indexedDB.databases();
    return { before, after: writes };
  });
  expect(written.after).toBe(written.before);
  expect(written.before).toBeLessThanOrEqual(10);
});

test("qu_01 on plain http, where there are no Web Locks, one tab runs a kept queue all the same", async ({ context }) => {
  const server = await openLockServer();
  const [first, second] = [await context.newPage(), await context.newPage()];
  for (const page of [first, second]) {
    await page.goto(server.lanUrl);
    expect(await page.evaluate(() => [isSecureContext, "locks" in navigator])).toEqual([false, false]);
    await openQueue(page);
    if (page === first) await expect.poll(async () => (await ask(page, "status")).runsHere).toBe(true);
  }
  expect(await ask(second, "enqueue", KEYS)).toMatchObject({ added: 50 });
  expect(await ask(second, "result", "k49")).toEqual({ of: "k49" });
  expect((await ask(second, "status")).runsHere).toBe(false);
  expect(await runs(second)).toEqual(KEYS);
  await server.close();
});

// A tab that stands still keeps its Web Lock and its lifeline: the queue of all tabs stood still with it.
for (const [name, isPlain] of /** @type {[string, boolean][]} */ ([["by Web Lock", false], ["on plain http", true]])) {
  test(`st_31 a frozen or busy tab that runs a kept queue is replaced, and gives way when it goes on, ${name}`, async ({ plainTabs }) => {
    test.slow();
    const server = await openLockServer();
    const url = isPlain ? server.lanUrl : server.url;
    const open = async () => {
      const page = await plainTabs.newPage();
      await page.goto(url);
      await openQueue(page);
      return page;
    };
    const first = await open();
    await expect.poll(async () => (await ask(first, "status")).runsHere).toBe(true);
    const second = await open();
    for (const [key, how] of [["a", "frozen"], ["b", "busy"]]) {
      const [runner, other] = (await ask(first, "status")).runsHere ? [first, second] : [second, first];
      const cdp = await plainTabs.newCDPSession(runner);
      // Without its notice: as by a debugger, a dialog or a phone.
      await runner.evaluate(() => document.addEventListener("freeze", (event) => event.stopImmediatePropagation(), { capture: true }));
      await other.bringToFront();
      const busy =
        how === "busy"
          ? runner.evaluate(() => {
              localStorage.setItem("busy", "yes");
              const until = performance.now() + 8_000;
              while (performance.now() < until);
            })
          : cdp.send("Page.setWebLifecycleState", { state: "frozen" });
      if (how === "frozen") await busy;
      else await expect.poll(() => other.evaluate(() => localStorage.getItem("busy"))).toBe("yes");
      await ask(other, "enqueue", key);
      expect(await ask(other, "result", key)).toEqual({ of: key });
      expect((await ask(other, "status")).runsHere, how).toBe(true);
      if (how === "frozen") await cdp.send("Page.setWebLifecycleState", { state: "active" });
      await busy;
      await expect.poll(async () => (await ask(runner, "status")).runsHere).toBe(false);
      // One of them runs it, and both may use it.
      await ask(runner, "enqueue", `${key}-after`);
      expect(await ask(runner, "result", `${key}-after`)).toEqual({ of: `${key}-after` });
    }
    expect((await runs(second)).sort()).toEqual(["a", "a-after", "b", "b-after"]);
    await server.close();
  });
}
