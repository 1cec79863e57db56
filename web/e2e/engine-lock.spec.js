// The lock, AutoSave and the kept queue in Firefox and WebKit: what an engine does differently shows in that engine alone. On
// lan.test there are neither Web Locks nor files, and leases are rows of IndexedDB. A server that none of the tabs can
// influence sees every write. SYNCLINE_ROUNDS makes it longer.

import { expect, openTab, test } from "./support/engines.js";
import { secondHolders } from "./support/lock-server.js";

const ROUNDS = Number(process.env.SYNCLINE_ROUNDS ?? 20);
const TABS = 4;
const LEASE_MS = 60_000;
// Half a lease: whoever comes within it was told, and did not wait for the lease to end.
const PATIENCE_MS = LEASE_MS / 2;
const CLOSINGS = Math.max(3, Math.ceil(ROUNDS / 5));

test.describe.configure({ mode: "serial" });

/**
 * A tab that holds the project whenever it can, and writes as long as it may.
 * @param {import("./support/engines.js").Browser} browser @param {string} url @param {string} tab @param {string} project
 * @param {{ writes?: number, options?: any }} [how]
 */
async function openWriter(browser, url, tab, project, { writes, options = { leaseMs: LEASE_MS, maxWaitMs: 1_000 } } = {}) {
  const page = await openTab(browser, url);
  // So that a test can wait until this tab waits, and knows whom it waits for.
  await page.evaluate((project) => {
    const tab = /** @type {any} */ (window);
    tab.channel = new BroadcastChannel(`syncline-lock:${project}`);
    tab.watching = new Promise((resolve) => (tab.channel.onmessage = (/** @type {any} */ { data }) => data.type === "alive" && resolve(true)));
  }, project);
  await page.evaluate(
    (settings) => import(/** @type {any} */ ("/writer.js")).then(({ startWriter }) => startWriter(settings)),
    { tab, project, deaf: false, options, writes },
  );
  return page;
}

// A tab that lost the race for a row was told by Firefox that it had won: the request that refused its number failed, but
// the transaction completed, and all that waited became holders at once.
test("lk_20 lk_21 on plain http four tabs that meet again and again hold the project one at a time", async ({ open, server }) => {
  test.setTimeout(60_000 + ROUNDS * 5_000);
  const browser = await open();
  for (let number = 1; number <= TABS; number += 1) {
    await openWriter(browser, server.lanUrl, `t${number}`, "handed-over", {
      writes: 2,
      options: { leaseMs: LEASE_MS, retryPolicy: { initialDelayMs: 5, maxDelayMs: 20 } },
    });
  }
  const wanted = ROUNDS * 6;
  await server.until((writes) => (writes.length >= wanted ? true : undefined), 30_000 + ROUNDS * 4_000, `${wanted} writes`);
  const leases = new Set(server.writes.map(({ leaseId }) => leaseId)).size;
  console.log(`${leases} leases, ${server.writes.length} writes, ${secondHolders(server.writes).length} by a second holder`);
  expect(secondHolders(server.writes)).toEqual([]);
  expect(new Set(server.writes.map(({ source }) => source))).toEqual(new Set(["idb-lock"]));
  expect(new Set(server.writes.map(({ tab }) => tab)).size).toBe(TABS);
});

test("lk_25 a lease is replaced only where it is what was read: no count of four workers is lost, by rows and by files", async ({ open, server }) => {
  const browser = await open();
  for (const url of [server.lanUrl, server.url]) {
    const tab = await openTab(browser, url);
    const { kept, counted } = await tab.evaluate(async (counts) => {
      const script = `import { openRecord, usesFiles } from "${location.origin}/pkg/lock-record.js";
        const record = openRecord("counted", await usesFiles());
        let counted = 0;
        while (counted < ${counts}) {
          try {
            await record.write(String(Number(await record.open()) + 1));
            counted += 1;
          } catch (error) {
            if (error.step === undefined) throw error;
          }
        }
        postMessage({ counted, kept: await record.open() });`;
      const blob = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      const workers = Array.from({ length: 4 }, () => new Worker(blob, { type: "module" }));
      const ends = await Promise.all(
        workers.map((worker) => new Promise((resolve, reject) => ([worker.onmessage, worker.onerror] = [({ data }) => resolve(data), reject]))),
      );
      return { counted: ends.reduce((sum, end) => sum + end.counted, 0), kept: Math.max(...ends.map((end) => Number(end.kept))) };
    }, url === server.lanUrl ? 50 : 5);
    expect(kept, url).toBe(counted);
  }
});

// What a closing page says and notes is lost in Firefox as often as not: then the whole lease had to end first.
test("lk_24 a tab that is closed while it holds the project is followed at once, by rows and by files", async ({ open, server }) => {
  test.setTimeout(120_000 + CLOSINGS * 20_000);
  const browser = await open();
  for (const [project, url] of [["closed-rows", server.lanUrl], ["closed-files", server.url]]) {
    /** @type {Map<string, import("./support/engines.js").Tab>} */
    const tabs = new Map();
    tabs.set("1", await openWriter(browser, url, "1", project));
    for (let closing = 1; closing <= CLOSINGS; closing += 1) {
      const seen = server.writes.length;
      const { tab, leaseId } = await server.until(
        (writes) => writes.slice(seen).find((write) => write.project === project && tabs.has(write.tab)),
        PATIENCE_MS,
        `a holder of ${project}`,
      );
      const waiting = await openWriter(browser, url, `${closing + 1}`, project);
      tabs.set(`${closing + 1}`, waiting);
      await waiting.evaluate(() => /** @type {any} */ (window).watching);
      await tabs.get(tab)?.close();
      tabs.delete(tab);
      await server.until(
        (writes) => writes.slice(seen).find((write) => write.project === project && write.leaseId !== leaseId),
        PATIENCE_MS,
        `a successor of tab ${tab}, closing ${closing} of ${project}`,
      );
    }
    for (const tab of tabs.values()) await tab.close();
  }
  expect(secondHolders(server.writes)).toEqual([]);
});

// In a private window the function that opens files is there, and refuses. The lock failed, and AutoSave with it.
test("lk_20 re_03 in a private window leases and documents are rows, and one tab holds them", async ({ open, server }) => {
  const browser = await open({ isPrivate: true });
  const [first, second] = [await openTab(browser, server.url), await openTab(browser, server.url)];
  const refused = await first.evaluate(() => /** @type {any} */ (window).attempt(() => navigator.storage.getDirectory()));
  expect(refused.error, "files in a private window").toBeDefined();

  const held = await first.evaluate(async () => {
    const { acquireProjectLock, openAutoSave } = await import(/** @type {any} */ ("/pkg/syncline.js"));
    const save = openAutoSave({ project: "notes" });
    await save.ready;
    await new Promise((resolve) => save.subscribe((/** @type {any} */ { status }) => status === "saved" && resolve(status)));
    save.change("written in private");
    await save.flush();
    return (await acquireProjectLock({ mechanism: "idb-lock" })).lease.source;
  });
  expect(held).toBe("idb-lock");
  const met = await second.evaluate(async () => {
    const { acquireProjectLock, openAutoSave } = await import(/** @type {any} */ ("/pkg/syncline.js"));
    const { attempt } = /** @type {any} */ (window);
    const save = openAutoSave({ project: "notes" });
    await save.ready;
    const options = { maxWaitMs: 100, retryPolicy: { maxAttempts: 2, initialDelayMs: 20 } };
    return { text: save.text, acquired: await attempt(() => acquireProjectLock(options)) };
  });
  expect(met.text).toBe("written in private");
  expect(met.acquired.error).toMatchObject({ name: "ProjectLockError", code: "web-lock-unavailable" });
});

test("lk_30 lk_31 a bound editor follows the holder and goes on from what is stored, by rows and by files, however often it is opened", async ({ open, server }) => {
  const browser = await open();
  for (const url of [server.lanUrl, server.url]) {
    const open = async () => {
      const tab = await openTab(browser, url);
      await tab.evaluate(async () => {
        const page = /** @type {any} */ (window);
        const { openAutoSave } = await import(/** @type {any} */ ("/pkg/syncline.js"));
        page.editor = document.body.appendChild(document.createElement("textarea"));
        // As an effect of React that is run twice.
        void openAutoSave({ project: "bound" }).close();
        page.save = openAutoSave({ project: "bound" });
        page.save.bind(page.editor);
        page.reaches = (/** @type {(state: any) => boolean} */ isThere) =>
          new Promise((resolve) => {
            const look = (/** @type {any} */ state) => isThere(state) && resolve(state.status);
            page.save.subscribe(look);
            look(page.save.state);
          });
        await page.save.ready;
      });
      return tab;
    };
    const first = await open();
    await first.evaluate(async () => {
      const { editor, reaches, save } = /** @type {any} */ (window);
      await reaches((/** @type {any} */ { status }) => status === "saved");
      editor.value = "one";
      editor.dispatchEvent(new InputEvent("input"));
      await save.flush();
    });
    const second = await open();
    const met = await second.evaluate(async () => {
      const { editor, reaches } = /** @type {any} */ (window);
      await reaches((/** @type {any} */ { status }) => status === "read-only");
      return [editor.value, editor.readOnly];
    });
    expect(met, url).toEqual(["one", true]);
    await first.evaluate(async () => {
      const { editor, save } = /** @type {any} */ (window);
      editor.value = "one two";
      editor.dispatchEvent(new InputEvent("input"));
      await save.flush();
    });
    await second.evaluate(() => /** @type {any} */ (window).reaches(() => /** @type {any} */ (window).editor.value === "one two"));
    await first.close();
    const left = await second.evaluate(async () => {
      const { editor, reaches } = /** @type {any} */ (window);
      await reaches((/** @type {any} */ { status }) => status === "saved");
      return [editor.value, editor.readOnly];
    });
    expect(left, url).toEqual(["one two", false]);
    await second.close();
  }
});

// A page that closes has no time to give its lease back. The queue stood still for two and a half minutes.
test("st_31 bk_07 on plain http a kept queue goes on when the tab that runs it is closed, and in the same tab after a reload", async ({
  open,
  server,
}) => {
  const browser = await open();
  const run = async (/** @type {import("./support/engines.js").Tab} */ tab) =>
    tab.evaluate(async () => {
      const { createQueue } = await import(/** @type {any} */ ("/pkg/syncline.js"));
      const queue = createQueue({ name: "kept", persist: true, run: async (/** @type {string} */ key) => `done ${key}` });
      /** @type {any} */ (window).queue = queue;
      await queue.ready;
    });
  const ask = (/** @type {import("./support/engines.js").Tab} */ tab, /** @type {string} */ key) =>
    tab.evaluate(async (key) => {
      const { queue } = /** @type {any} */ (window);
      await queue.enqueue(key);
      return queue.result(key);
    }, key);
  const [first, second] = [await openTab(browser, server.lanUrl), await openTab(browser, server.lanUrl)];
  await run(first);
  expect(await ask(first, "a")).toBe("done a");
  await run(second);
  expect(await ask(second, "b")).toBe("done b");
  await first.close();
  expect(await ask(second, "c")).toBe("done c");
  await second.reload();
  await run(second);
  expect(await ask(second, "d")).toBe("done d");
});

// A user may forbid storage: then Firefox throws where other browsers answer.
test("st_32 lk_31 where the user forbids storage every failure is typed", async ({ open, server }) => {
  const browser = await open({ forbidsStorage: true });
  for (const url of [server.url, server.lanUrl]) {
    const tab = await openTab(browser, url);
    const met = await tab.evaluate(async () => {
      const { acquireProjectLock, createQueue, openAutoSave, openState } = await import(/** @type {any} */ ("/pkg/syncline.js"));
      const { attempt } = /** @type {any} */ (window);
      return {
        state: await attempt(() => openState().ready),
        queue: await attempt(() => createQueue({ name: "kept", persist: true, run: async () => 1 }).ready),
        lock: await attempt(() => acquireProjectLock()),
        autosave: await attempt(() => openAutoSave().ready),
      };
    });
    expect(met.state.error, url).toMatchObject({ name: "SynclineError", code: "storage-failed" });
    expect(met.queue.error, url).toMatchObject({ name: "SynclineError", code: "storage-failed" });
    expect(met.lock.error, url).toMatchObject({ name: "ProjectLockError", code: "fallback-open-failed" });
    expect(met.autosave.error, url).toMatchObject({ name: "ProjectLockError", code: "fallback-open-failed" });
  }
});
