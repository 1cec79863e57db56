// The project lock in Chromium: the cases TC-01 to TC-07 with the browser's own Web Locks, files, clock and signals, and
// what goes beyond them. The rounds with crashes and freezes are in lock-rounds.spec.js.

import { expect, leaseFile, openTab, test, writeLeaseFile } from "./support/lock-test.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const STRANGER = "0f8fad5b-d9cb-469f-a165-70867728950e";

/** @typedef {any} Window In a page: with what openTab() put there. */

test("lk_02 lk_11 TC-01 the Web Lock is granted: acquired, no fallback, and the file stands for the lease", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  const { lease, didFallback } = await tab.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock());
  expect(didFallback).toBe(false);
  expect(lease).toEqual({ leaseId: expect.stringMatching(UUID), expiresAt: expect.any(Number), source: "web-lock" });
  expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toEqual(["acquired"]);
  expect(JSON.parse((await leaseFile(tab)) ?? "")).toEqual({ leaseId: lease.leaseId, expiresAt: lease.expiresAt });
  const held = await tab.evaluate(async () => (await navigator.locks.query()).held?.map(({ name }) => name));
  expect(held).toEqual(["syncline-lock:project"]);

  await tab.evaluate((lease) => /** @type {any} */ (window).lock.releaseProjectLock({ lease }), lease);
  expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toEqual(["acquired", "released"]);
  expect(await leaseFile(tab)).toBe("");
  const entries = await tab.evaluate(async () => {
    const names = [];
    for await (const name of /** @type {any} */ (await navigator.storage.getDirectory()).keys()) names.push(name);
    return names;
  });
  expect(entries, "nothing is created outside of the project").toEqual(["project"]);
});

test("lk_02 lk_11 TC-02 without Web Locks the file alone is taken: switch-to-fallback, then acquired", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  const { lease, didFallback } = await tab.evaluate(() =>
    /** @type {any} */ (window).lock.acquireProjectLock({ mechanism: "opfs-lock" }),
  );
  expect([lease.source, didFallback]).toEqual(["opfs-lock", true]);
  expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toEqual(["switch-to-fallback", "acquired"]);
  expect(JSON.parse((await leaseFile(tab)) ?? "").leaseId).toBe(lease.leaseId);
});

test("lk_11 TC-03 a lease of somebody else in the file means growing pauses, and success when it ends", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  await writeLeaseFile(tab, JSON.stringify({ leaseId: STRANGER, expiresAt: Date.now() + 2_500 }));
  const options = { mechanism: "opfs-lock", retryPolicy: { initialDelayMs: 100 } };
  const { lease } = await tab.evaluate((o) => /** @type {any} */ (window).lock.acquireProjectLock(o), options);
  const seen = await tab.evaluate(() => /** @type {any} */ (window).seen);
  const pauses = seen.filter((/** @type {any} */ event) => event.type === "backoff");
  expect(pauses.slice(0, 4).map((/** @type {any} */ event) => [event.attempt, event.delayMs])).toEqual([
    [1, 100],
    [2, 200],
    [3, 400],
    [4, 800],
  ]);
  expect(seen.at(-1)).toMatchObject({ type: "acquired", lease });
});

test("lk_11 TC-04 an aborted request fails with web-lock-aborted and does not fall back", async ({
  context,
  server,
}) => {
  const [holder, tab] = [await openTab(context, server.url), await openTab(context, server.url)];
  await holder.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock());
  const result = await tab.evaluate(async () => {
    const abort = new AbortController();
    const request = /** @type {any} */ (window).lock.acquireProjectLock({ signal: abort.signal, maxWaitMs: 60_000 });
    while (!(await navigator.locks.query()).pending?.length) await new Promise((resolve) => setTimeout(resolve, 5));
    abort.abort();
    return /** @type {any} */ (window).attempt(request);
  });
  expect(result).toMatchObject({ typed: true, error: { code: "web-lock-aborted", retryable: false } });
  expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toEqual(["acquire-failed"]);
  expect(await tab.evaluate(async () => (await navigator.locks.query()).pending)).toEqual([]);

  const early = await tab.evaluate(() =>
    /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.acquireProjectLock({ signal: AbortSignal.abort() })),
  );
  expect(early).toMatchObject({ typed: true, error: { code: "web-lock-aborted" } });
});

test("lk_11 TC-05 renewing extends expiresAt and emits renewed, by Web Lock and by file", async ({
  context,
  server,
}) => {
  for (const mechanism of ["web-lock", "opfs-lock"]) {
    const tab = await openTab(context, server.url);
    const [before, after] = await tab.evaluate(async (mechanism) => {
      const { lock } = /** @type {any} */ (window);
      const { lease } = await lock.acquireProjectLock({ mechanism, leaseMs: 5_000 });
      return [lease, await lock.renewProjectLock({ lease })];
    }, mechanism);
    expect(after).toEqual({ ...before, expiresAt: expect.any(Number) });
    expect(after.expiresAt).toBeGreaterThanOrEqual(before.expiresAt + 10_000);
    expect(JSON.parse((await leaseFile(tab)) ?? "").expiresAt).toBe(after.expiresAt);
    expect(await tab.evaluate(() => /** @type {any} */ (window).seen.at(-1))).toMatchObject({ type: "renewed", lease: after });
    await tab.evaluate((lease) => /** @type {any} */ (window).lock.releaseProjectLock({ lease }), after);
    await tab.close();
  }
});

test("lk_11 TC-06 a lease that cannot be removed: release-failed and fallback-write-failed, and it can be tried again", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  const lease = await tab.evaluate(async () => (await /** @type {any} */ (window).lock.acquireProjectLock()).lease);
  // Somebody has the file open, and keeps it open.
  await tab.evaluate(async () => {
    const script = `onmessage = async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("project");
      self.handle = await (await folder.getFileHandle(".lock")).createSyncAccessHandle();
      postMessage("open");
    }`;
    const worker = new Worker(URL.createObjectURL(new Blob([script])));
    worker.postMessage("open");
    await new Promise((resolve) => (worker.onmessage = resolve));
    /** @type {any} */ (window).squatter = worker;
  });
  const failed = await tab.evaluate(
    (lease) => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.releaseProjectLock({ lease })),
    lease,
  );
  expect(failed).toMatchObject({ typed: true, error: { code: "fallback-write-failed", retryable: true } });
  expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toEqual(["acquired", "release-failed"]);

  await tab.evaluate(() => /** @type {any} */ (window).squatter.terminate());
  await expect
    .poll(() =>
      tab.evaluate(
        (lease) => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.releaseProjectLock({ lease })),
        lease,
      ),
    )
    .toEqual({});
  expect(await leaseFile(tab)).toBe("");
});

test("lk_11 TC-07 an expired lease is noticed: expired, lease-expired, and a new one is needed", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  const lease = await tab.evaluate(async () => {
    const { lease } = await /** @type {any} */ (window).lock.acquireProjectLock({ leaseMs: 1_000 });
    return lease;
  });
  await expect.poll(() => tab.evaluate(() => /** @type {any} */ (window).words())).toContain("expired");
  for (const operation of ["renewProjectLock", "releaseProjectLock"]) {
    const result = await tab.evaluate(
      ([operation, lease]) => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock[/** @type {any} */ (operation)]({ lease })),
      [operation, lease],
    );
    expect(result, operation).toMatchObject({ typed: true, error: { code: "lease-expired", retryable: false } });
  }
  const again = await tab.evaluate(async () => (await /** @type {any} */ (window).lock.acquireProjectLock()).lease);
  expect(again.leaseId).not.toBe(lease.leaseId);
});

test("lk_08 asking again while holding is a lease-mismatch, not a deadlock", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  const result = await tab.evaluate(async () => {
    const { lock, attempt } = /** @type {any} */ (window);
    const { lease } = await lock.acquireProjectLock();
    return [
      await attempt(lock.acquireProjectLock()),
      await attempt(lock.withProjectLock({}, async () => "never")),
      await attempt(lock.releaseProjectLock({ lease: { ...lease, leaseId: "0f8fad5b-d9cb-469f-a165-70867728950e" } })),
      await attempt(lock.renewProjectLock({ lease })),
    ];
  });
  for (const { error } of result.slice(0, 3)) expect(error).toMatchObject({ code: "lease-mismatch", retryable: false });
  expect(result[3].value.source).toBe("web-lock");
});

test("lk_09 listeners come, throw and go without harm to one another", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  const thrown = tab.waitForEvent("pageerror");
  const heard = await tab.evaluate(async () => {
    const { lock } = /** @type {any} */ (window);
    const heard = { first: 0, last: 0 };
    const first = lock.subscribeLockEvents(() => (heard.first += 1));
    lock.subscribeLockEvents(() => {
      throw new Error("a listener of the page");
    });
    lock.subscribeLockEvents(() => (heard.last += 1));
    const { lease } = await lock.acquireProjectLock();
    first.unsubscribe();
    first.unsubscribe();
    await lock.releaseProjectLock({ lease });
    return heard;
  });
  expect(heard).toEqual({ first: 1, last: 2 });
  expect(String(await thrown)).toContain("a listener of the page");
});

test("lk_06 past the budget of attempts: acquire-failed, and a retryable error", async ({ context, server }) => {
  const [holder, tab] = [await openTab(context, server.url), await openTab(context, server.url)];
  await holder.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock());
  const options = { maxWaitMs: 50, retryPolicy: { initialDelayMs: 20, maxAttempts: 3 } };
  const result = await tab.evaluate(
    (o) => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.acquireProjectLock(o)),
    options,
  );
  expect(result).toMatchObject({ typed: true, error: { code: "web-lock-unavailable", retryable: true } });
  expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toEqual([
    "switch-to-fallback",
    "backoff",
    "backoff",
    "acquire-failed",
  ]);
});

test("lk_20 a time-out of the Web Lock lets nobody in while the file has a holder", async ({ context, server }) => {
  for (const [first, second] of [
    ["web-lock", "opfs-lock"],
    ["opfs-lock", "web-lock"],
  ]) {
    const [holder, tab] = [await openTab(context, server.url), await openTab(context, server.url)];
    await holder.evaluate((mechanism) => /** @type {any} */ (window).lock.acquireProjectLock({ mechanism }), first);
    const options = { mechanism: second, maxWaitMs: 100, retryPolicy: { maxAttempts: 2, initialDelayMs: 20 } };
    const refused = await tab.evaluate(
      (o) => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.acquireProjectLock(o)),
      options,
    );
    expect(refused.error, `${first} then ${second}`).toMatchObject({ code: "web-lock-unavailable" });
    await holder.close();
    await tab.close();
  }
});

test("lk_21 a waiting tab hears of a release at once, and of a closed tab too", async ({ context, server }) => {
  const [first, second, third] = [
    await openTab(context, server.url),
    await openTab(context, server.url),
    await openTab(context, server.url),
  ];
  const lease = await first.evaluate(async () => (await /** @type {any} */ (window).lock.acquireProjectLock()).lease);
  for (const tab of [second, third]) {
    await tab.evaluate(() => {
      const tab = /** @type {any} */ (window);
      // A pause so long that only a message can end it within the test.
      const retryPolicy = { initialDelayMs: 3_600_000, maxDelayMs: 3_600_000 };
      tab.got = tab.lock.acquireProjectLock({ maxWaitMs: 50, retryPolicy, leaseMs: 60_000 });
    });
    await expect.poll(() => tab.evaluate(() => /** @type {any} */ (window).words())).toContain("backoff");
  }
  await first.evaluate((lease) => /** @type {any} */ (window).lock.releaseProjectLock({ lease }), lease);
  const winner = await Promise.race([second, third].map((tab) => tab.evaluate(() => /** @type {any} */ (window).got).then(() => tab)));
  const loser = winner === second ? third : second;
  // A tab that is closed has no time to tidy the file up; its word is enough.
  await winner.close();
  await loser.evaluate(() => /** @type {any} */ (window).got);
});

test("lk_24 a page that comes after a reload has its lock back at once", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  await tab.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock({ leaseMs: 60_000 }));
  await tab.reload();
  const result = await tab.evaluate(async () => {
    const { acquireProjectLock } = await import(/** @type {any} */ ("/pkg/syncline.js"));
    return acquireProjectLock({ retryPolicy: { maxAttempts: 1 } });
  });
  expect(result.lease.source).toBe("web-lock");
});

test("lk_24 work that runs when the lease is lost hears it from its signal, and its result is not trusted", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  const result = await tab.evaluate(async () => {
    const { lock, attempt } = /** @type {any} */ (window);
    const times = /** @type {any} */ ({});
    const outcome = await attempt(
      lock.withProjectLock({ leaseMs: 1_000 }, async (/** @type {any} */ lease, /** @type {AbortSignal} */ signal) => {
        times.atFirst = signal.aborted;
        // The page stands still for longer than the lease: no timer, no message, no event of any kind.
        const until = performance.now() + 1_500;
        while (performance.now() < until);
        times.rightAfter = signal.aborted;
        times.reason = signal.reason?.code;
        return "done twice, perhaps";
      }),
    );
    return { times, outcome };
  });
  // The worker renewed meanwhile, and the page could not hear of it: in doubt it stops.
  expect(result.times).toEqual({ atFirst: false, rightAfter: true, reason: "lease-expired" });
  expect(result.outcome.error).toMatchObject({ code: "lease-expired" });
});

test("lk_25 nonsense in the file is held for one longest lease at most, and reported", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  for (const text of ['{"leaseId":"', "[]", `{"leaseId":"${STRANGER}","expiresAt":${Date.now() + 1e12}}`]) {
    await writeLeaseFile(tab, text);
    const before = Date.now();
    const options = { mechanism: "opfs-lock", retryPolicy: { maxAttempts: 1 } };
    const result = await tab.evaluate(
      (o) => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.acquireProjectLock(o)),
      options,
    );
    expect(result.error, text).toMatchObject({ code: "web-lock-unavailable", retryable: true });
    expect(await tab.evaluate(() => /** @type {any} */ (window).words())).toContain("record-doubtful");
    const { expiresAt } = JSON.parse((await leaseFile(tab)) ?? "");
    expect(expiresAt).toBeLessThanOrEqual(Date.now() + 60_000);
    expect(expiresAt).toBeGreaterThanOrEqual(before + 60_000);
  }
});

test("lk_25 the lease file is replaced only where it is what was read: no count of four workers is lost", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  const { counted, lost } = await tab.evaluate(async () => {
    const script = `import { openRecord, usesFiles } from "${location.origin}/pkg/lock-record.js";
      const record = openRecord("counted", await usesFiles());
      let [counted, lost] = [0, 0];
      while (counted < 25) {
        try {
          await record.write(String(Number(await record.open()) + 1));
          counted += 1;
        } catch (error) {
          if (error.step === undefined) throw error;
          lost += 1;
        }
      }
      postMessage({ counted, lost });`;
    const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const workers = Array.from({ length: 4 }, () => new Worker(url, { type: "module" }));
    const ends = await Promise.all(
      workers.map((worker) => new Promise((resolve, reject) => ([worker.onmessage, worker.onerror] = [({ data }) => resolve(data), reject]))),
    );
    return ends.reduce((sum, end) => ({ counted: sum.counted + end.counted, lost: sum.lost + end.lost }), { counted: 0, lost: 0 });
  });
  expect(await leaseFile(tab, "counted")).toBe(String(counted));
  // Otherwise they took turns, and nothing was shown.
  expect(lost).toBeGreaterThan(0);
});

test("lk_24 lk_25 a change of the file that stands still holds up nobody, and cannot be finished later", async ({
  context,
  server,
}) => {
  const tab = await openTab(context, server.url);
  // What a tab leaves that is frozen while it writes its draft, and one that is frozen right before it would put it in place.
  await tab.evaluate(async () => {
    const script = `onmessage = async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("project", { create: true });
      const drafts = await folder.getDirectoryHandle(".drafts", { create: true });
      self.open = await (await drafts.getFileHandle("one~", { create: true })).createSyncAccessHandle();
      const draft = await drafts.getFileHandle("two", { create: true });
      postMessage("ready");
      onmessage = () => draft.move(folder, ".lock").then(() => postMessage("done"), ({ name }) => postMessage(name));
    }`;
    const worker = new Worker(URL.createObjectURL(new Blob([script])));
    const tell = () => new Promise((resolve) => ((worker.onmessage = ({ data }) => resolve(data)), worker.postMessage("go")));
    await tell();
    /** @type {any} */ (window).thaw = tell;
  });
  const { lease } = await tab.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock({ mechanism: "opfs-lock" }));
  expect(await tab.evaluate(() => /** @type {any} */ (window).thaw())).toBe("NotFoundError");
  expect(JSON.parse((await leaseFile(tab)) ?? "")).toMatchObject({ leaseId: lease.leaseId });
});

test("lk_26 on plain http without Web Locks and OPFS the lease lives in IndexedDB", async ({ context, server }) => {
  const [tab, other] = [await openTab(context, server.lanUrl), await openTab(context, server.lanUrl)];
  expect(await tab.evaluate(() => [isSecureContext, "locks" in navigator, "storage" in navigator])).toEqual([
    false,
    false,
    false,
  ]);
  const { lease, didFallback } = await tab.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock());
  expect(lease).toMatchObject({ leaseId: expect.stringMatching(UUID), source: "idb-lock" });
  expect(didFallback).toBe(true);
  const waiting = other.evaluate(() => /** @type {any} */ (window).lock.acquireProjectLock());
  await expect.poll(() => other.evaluate(() => /** @type {any} */ (window).words())).toContain("backoff");
  const renewed = await tab.evaluate((lease) => /** @type {any} */ (window).lock.renewProjectLock({ lease }), lease);
  await tab.evaluate((lease) => /** @type {any} */ (window).lock.releaseProjectLock({ lease }), renewed);
  expect((await waiting).lease.leaseId).not.toBe(lease.leaseId);
});

test("lk_01 a wrong call says what is wrong with it", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  const results = await tab.evaluate(async () => {
    const { lock, attempt } = /** @type {any} */ (window);
    const calls = [
      lock.acquireProjectLock("project"),
      lock.acquireProjectLock({ signal: {} }),
      lock.acquireProjectLock({ maxWaitMs: -1 }),
      lock.acquireProjectLock({ project: "../other" }),
      lock.acquireProjectLock({ leaseMs: 999 }),
      lock.acquireProjectLock({ mechanism: "idb-lock" }),
      lock.acquireProjectLock({ retryPolicy: { multiplier: 0 } }),
      lock.renewProjectLock({}),
      lock.renewProjectLock(),
      lock.releaseProjectLock({ lease: { leaseId: 7 } }),
      lock.releaseProjectLock({ lease: { leaseId: "x" }, reason: "why not" }),
      lock.withProjectLock({}),
    ];
    return Promise.all(calls.map(attempt));
  });
  for (const [index, { error }] of results.entries()) {
    expect(error, String(index)).toMatchObject({ name: "SynclineError", code: "invalid-argument" });
  }
});
