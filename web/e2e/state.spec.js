// Shared state in real tabs of Chromium, over the page's own storage: nothing is lost when all write at once, when a tab
// crashes, when the storage is full, and whatever lies in it. SYNCLINE_ROUNDS makes the races longer.

import { test as base, expect } from "@playwright/test";
import { openLockServer } from "./support/lock-server.js";

const ROUNDS = Math.max(10, Number(process.env.SYNCLINE_ROUNDS ?? 10));
const TABS = 4;
const EACH = 250;
const DATABASE = "syncline-state:state";

/** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & { site: string }, {}>} */
const test = base.extend({
  site: async ({}, use) => {
    const server = await openLockServer();
    await use(server.url);
    await server.close();
  },
});

/**
 * A tab with an open state as `window.state` and all its events as `window.heard`.
 * @param {import("@playwright/test").BrowserContext} context
 * @param {string} url
 * @param {object} [options] of openState
 */
async function openTab(context, url, options = {}) {
  const page = await context.newPage();
  await page.goto(url);
  await openIn(page, options);
  return page;
}

async function openIn(/** @type {import("@playwright/test").Page} */ page, options = {}) {
  await page.evaluate(async (given) => {
    const tab = /** @type {any} */ (window);
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    tab.heard = [];
    tab.state = openState(given);
    tab.state.subscribe((/** @type {any} */ event) => tab.heard.push({ ...event, value: event.value }));
    // What a promise came to, as a value that can leave the page.
    tab.attempt = (/** @type {Promise<any>} */ work) =>
      work.then(
        () => "stored",
        (error) => ({ code: error.code, retryable: error.retryable, fields: error.fields }),
      );
    tab.until = (/** @type {() => boolean} */ holds) =>
      new Promise((resolve) => {
        const look = () => {
          if (!holds()) return;
          stop();
          resolve(undefined);
        };
        const stop = tab.state.subscribe(look);
        queueMicrotask(look);
      });
    await tab.state.ready.catch(() => {});
  }, options);
}

const sizeOf = (/** @type {import("@playwright/test").Page} */ page) =>
  page.evaluate(() => /** @type {any} */ (window).state.size);

const untilSize = (/** @type {import("@playwright/test").Page} */ page, /** @type {number} */ size) =>
  page.evaluate((size) => /** @type {any} */ (window).until(() => /** @type {any} */ (window).state.size === size), size);

/** What is in the database, past the package. */
const stored = (/** @type {import("@playwright/test").Page} */ page) => inStore(page, []);

/**
 * Puts `writes` into the database as somebody else would, and returns everything in it.
 * @param {import("@playwright/test").Page} page
 * @param {[string, unknown][]} writes
 * @returns {Promise<Record<string, any>>}
 */
function inStore(page, writes) {
  return page.evaluate(
    ([name, writes]) =>
      new Promise((resolve, reject) => {
        const request = indexedDB.open(/** @type {string} */ (name));
        request.onerror = () => reject(request.error);
        request.onsuccess = () => {
          const database = request.result;
          const transaction = database.transaction("keys", "readwrite");
          const store = transaction.objectStore("keys");
          for (const [key, text] of /** @type {any} */ (writes)) store.put(text, key);
          const [keys, texts] = [store.getAllKeys(), store.getAll()];
          transaction.oncomplete = () => {
            database.close();
            resolve(Object.fromEntries(keys.result.map((key, index) => [key, texts.result[index]])));
          };
        };
      }),
    /** @type {const} */ ([DATABASE, writes]),
  );
}

test("st_20 four tabs add 250 ids each at once, and all 1,000 are there, ten times in a row", async ({ context, site }) => {
  test.setTimeout(60_000 + ROUNDS * 10_000);
  const tabs = await Promise.all(Array.from({ length: TABS }, () => openTab(context, site)));
  for (let round = 1; round <= ROUNDS; round++) {
    await Promise.all(
      tabs.map((page, tab) =>
        page.evaluate(
          async ([tab, each, round]) => {
            const { state } = /** @type {any} */ (window);
            const ids = Array.from({ length: each }, (_, number) => `${round}-${tab}-${number}`);
            await Promise.all(ids.map((id) => state.put(id, { checked: true, timestamp: Date.now() })));
          },
          [tab, EACH, round],
        ),
      ),
    );
    for (const page of tabs) await untilSize(page, TABS * EACH);
    // An index that somebody has just overwritten is mended by those who know what it lacks.
    const listed = async () => JSON.parse((await stored(tabs[0]))["trackedEntities:index"]).ids.length;
    await expect.poll(listed, `round ${round}`).toBe(TABS * EACH);
    await tabs[round % TABS].evaluate(() => /** @type {any} */ (window).state.reset());
    for (const page of tabs) await untilSize(page, 0);
  }
});

test("st_20 the plain algorithm loses some of 1,000: the control", async ({ context, site }) => {
  const tabs = await Promise.all(Array.from({ length: TABS }, () => openTab(context, site)));
  await Promise.all(
    tabs.map((page, tab) =>
      page.evaluate(
        async ([tab, each]) => {
          // Fetch, merge, store, as one does it with a storage that has no compare-and-set.
          const request = indexedDB.open("plain", 1);
          request.onupgradeneeded = () => request.result.createObjectStore("keys");
          await new Promise((resolve) => (request.onsuccess = resolve));
          const ask = (/** @type {IDBTransactionMode} */ mode, /** @type {(store: IDBObjectStore) => IDBRequest} */ question) =>
            new Promise((resolve) => {
              const asked = question(request.result.transaction("keys", mode).objectStore("keys"));
              asked.onsuccess = () => resolve(asked.result);
            });
          for (let number = 0; number < each; number++) {
            const { ids } = (await ask("readonly", (store) => store.get("index"))) ?? { ids: [] };
            await ask("readwrite", (store) => store.put({ ids: [...ids, `${tab}-${number}`] }, "index"));
          }
        },
        [tab, EACH],
      ),
    ),
  );
  const left = await tabs[0].evaluate(
    () =>
      new Promise((resolve) => {
        const request = indexedDB.open("plain", 1);
        request.onsuccess = () => {
          const asked = request.result.transaction("keys").objectStore("keys").get("index");
          asked.onsuccess = () => resolve(asked.result.ids.length);
        };
      }),
  );
  expect(left).toBeLessThan(TABS * EACH);
});

test("st_13 what one tab does, the other shows, and its own echo renders nothing", async ({ context, site }) => {
  const [one, other] = [await openTab(context, site), await openTab(context, site)];
  await one.evaluate(() => /** @type {any} */ (window).state.put("milk", { checked: true, timestamp: 1 }));
  await untilSize(other, 1);
  expect(await other.evaluate(() => /** @type {any} */ (window).state.get("milk"))).toEqual({ checked: true, timestamp: 1 });
  const entities = (/** @type {import("@playwright/test").Page} */ page) =>
    page.evaluate(() => /** @type {any} */ (window).heard.filter((/** @type {any} */ event) => event.type === "entity").length);
  expect([await entities(one), await entities(other)]).toEqual([1, 1]);
  await other.evaluate(() => /** @type {any} */ (window).state.remove("milk"));
  await untilSize(one, 0);
  const settings = { featureEnabled: false, scopeMode: "all", themeToken: "#abcdef" };
  await one.evaluate((settings) => /** @type {any} */ (window).state.setSettings(settings), settings);
  await other.evaluate(() => /** @type {any} */ (window).until(() => /** @type {any} */ (window).state.settings.themeToken === "#abcdef"));
});

test("st_02 a tab that crashes or reloads in the middle loses nothing that was stored", async ({ context, site }) => {
  const [kept, crashed] = [await openTab(context, site), await openTab(context, site)];
  const storedIds = await crashed.evaluate(async () => {
    const { state } = /** @type {any} */ (window);
    /** @type {string[]} */
    const ids = [];
    for (let number = 0; number < 50; number++) {
      const id = `before-${number}`;
      await state.put(id, { number });
      ids.push(id);
    }
    for (let number = 0; number < 200; number++) state.put(`during-${number}`, { number });
    return ids;
  });
  const cdp = await context.newCDPSession(crashed);
  cdp.send("Page.crash").catch(() => {});
  await crashed.waitForEvent("crash");
  await kept.evaluate(() => /** @type {any} */ (window).state.put("after", {}));
  await kept.reload();
  await openIn(kept);
  const ids = await kept.evaluate(() => /** @type {any} */ (window).state.ids());
  expect(ids).toEqual(expect.arrayContaining([...storedIds, "after"]));
  const fresh = await openTab(context, site);
  expect(await sizeOf(fresh)).toBe(await sizeOf(kept));
});

test("st_13 a write that nobody was told of is found when the tab is looked at again", async ({ context, site }) => {
  const [writer, asleep] = [await openTab(context, site), await openTab(context, site)];
  // The channel is silent, as it is for a tab that was frozen meanwhile.
  await writer.evaluate(async () => {
    BroadcastChannel.prototype.postMessage = () => {};
    await /** @type {any} */ (window).state.put("unheard", {});
  });
  expect(await sizeOf(asleep)).toBe(0);
  await asleep.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await untilSize(asleep, 1);
});

test("st_11 a full storage refuses with a typed error, and the view returns to what is stored", async ({ context, site }) => {
  const page = await context.newPage();
  await page.goto(site);
  // Before the database is opened: Chromium asks for the quota then, and remembers it for a while.
  const cdp = await context.newCDPSession(page);
  await cdp.send("Storage.overrideQuotaForOrigin", { origin: site, quotaSize: 2_000_000 });
  await openIn(page);
  await page.evaluate(() => /** @type {any} */ (window).state.put("kept", { n: 1 }));
  /** Adds large entities until the storage has had enough. */
  const fill = () =>
    page.evaluate(async () => {
      const tab = /** @type {any} */ (window);
      for (let number = 0; number < 500; number++) {
        const text = Array.from(crypto.getRandomValues(new Uint16Array(30_000)), (unit) => unit.toString(36)).join("");
        const outcome = await tab.attempt(tab.state.put(`large-${number}`, { text }));
        if (outcome !== "stored") return { number, ...outcome };
      }
      return { number: Infinity };
    });
  const refused = await fill();
  expect(refused).toMatchObject({ code: "quota-exceeded", retryable: false });
  const size = await sizeOf(page);
  expect(size, "the view is what is stored").toBe(1 + refused.number);
  await cdp.send("Storage.overrideQuotaForOrigin", { origin: site });
  const other = await openTab(context, site);
  expect(await sizeOf(other)).toBe(size);
  expect(await other.evaluate(() => /** @type {any} */ (window).state.get("kept"))).toEqual({ n: 1 });
});

test("st_26 poisoned and foreign contents are set aside, and a reset leaves what is not ours", async ({ context, site }) => {
  const first = await openTab(context, site);
  await first.evaluate(async () => {
    const { state } = /** @type {any} */ (window);
    await Promise.all([state.put("good", { n: 1 }), state.put("bad", { n: 2 }), state.put("odd", { n: 3 })]);
  });
  await first.close();
  const page = await context.newPage();
  await page.goto(site);
  const foreign = /** @type {[string, unknown][]} */ ([["theirs", "{\"n\":1}"], ["theirs too", 7]]);
  await inStore(page, [["trackedEntity:bad", "no \0 JSON"], ["trackedEntity:odd", [1, 2]], ...foreign]);
  await openIn(page);
  expect(await page.evaluate(() => /** @type {any} */ (window).state.ids())).toEqual(["good"]);
  const reports = await page.evaluate(() =>
    /** @type {any} */ (window).heard.flatMap((/** @type {any} */ { type, detail }) => (type === "report" ? [detail] : [])),
  );
  expect(reports.sort()).toEqual(["trackedEntity:bad", "trackedEntity:odd"]);
  await page.evaluate(() => /** @type {any} */ (window).state.reset());
  const left = await stored(page);
  expect(JSON.parse(left["trackedEntities:index"]).ids).toEqual([]);
  for (const [key, contents] of foreign) expect(left[key]).toEqual(contents);
});

test("st_22 ten thousand entities are there in every layout", async ({ context, site }) => {
  const page = await openTab(context, site);
  await page.evaluate(async () => {
    const { state } = /** @type {any} */ (window);
    const ids = Array.from({ length: 10_000 }, (_, number) => `entity-${number}`);
    await Promise.all(ids.map((id, number) => state.put(id, { checked: number % 2 === 0, timestamp: 1_730_000_000_000 })));
  });
  for (const layout of ["C", "A", "B"]) {
    await page.evaluate((layout) => /** @type {any} */ (window).state.setLayout(layout), layout);
    const other = await context.newPage();
    await other.goto(site);
    const startMs = await other.evaluate(async () => {
      const { init, openState } = await import(/** @type {any} */ ("/pkg/state.js"));
      await init();
      const begun = performance.now();
      const state = openState();
      await state.ready;
      /** @type {any} */ (window).state = state;
      return performance.now() - begun;
    });
    test.info().annotations.push({ type: `start in layout ${layout}`, description: `${Math.round(startMs)} ms` });
    expect(await sizeOf(other)).toBe(10_000);
    await other.close();
  }
});
