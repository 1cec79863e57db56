// Shared state in real tabs of Chromium with many entities: what a start reads from packs is what is stored, whoever wrote it since.

import { test as base, expect } from "@playwright/test";
import { openLockServer } from "./support/lock-server.js";

const DATABASE = "syncline-state:state";
const MANY = 600;

/** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & { site: string }, {}>} */
const test = base.extend({
  site: async ({}, use) => {
    const server = await openLockServer();
    await use(server.url);
    await server.close();
  },
});

/** @typedef {import("@playwright/test").Page} Page */

/**
 * A tab with an open state as `window.state`, and how many entities it read from records of their own as `window.singles`.
 * @param {import("@playwright/test").BrowserContext} context
 * @param {string} url
 */
async function openTab(context, url) {
  const page = await context.newPage();
  await page.goto(url);
  await page.evaluate(async () => {
    const tab = /** @type {any} */ (window);
    tab.singles = 0;
    for (const name of /** @type {const} */ (["get", "getAll"])) {
      const original = /** @type {any} */ (IDBObjectStore.prototype[name]);
      IDBObjectStore.prototype[name] = function (/** @type {any[]} */ ...asked) {
        const request = original.apply(this, asked);
        const isEntity = this.name === "keys" && !JSON.stringify(asked[0]).includes("trackedEntities");
        if (isEntity) request.addEventListener("success", () => (tab.singles += name === "get" ? 1 : request.result.length));
        return request;
      };
    }
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    tab.state = openState();
    await tab.state.ready;
  });
  return page;
}

const addMany = (/** @type {Page} */ page) =>
  page.evaluate(
    (count) => Promise.all(Array.from({ length: count }, (_, n) => /** @type {any} */ (window).state.put(`entity-${n}`, { n }))),
    MANY,
  );

const put = (/** @type {Page} */ page, /** @type {string} */ id, /** @type {number} */ n) =>
  page.evaluate(([id, n]) => /** @type {any} */ (window).state.put(id, { n }), /** @type {const} */ ([id, n]));

/** What a tab shows: ids and their numbers, in order. */
const shown = (/** @type {Page} */ page) =>
  page.evaluate(() => {
    const entities = [.../** @type {any} */ (window).state.getSnapshot().entities];
    return entities.map(([id, { n }]) => `${id} ${n}`).sort();
  });

/** How many records a store of the database holds, and how many texts they have. */
const held = (/** @type {Page} */ page, /** @type {string} */ store) =>
  page.evaluate(
    ([name, store]) =>
      new Promise((resolve) => {
        const request = indexedDB.open(name);
        request.onsuccess = () => {
          const all = request.result.transaction(store).objectStore(store).getAll();
          all.onsuccess = () => resolve((request.result.close(), all.result.flat().length));
        };
      }),
    /** @type {const} */ ([DATABASE, store]),
  );

const singles = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).singles);

test("st_37 entities that were added together are read together, and what was written since from its own record", async ({ context, site }) => {
  const writer = await openTab(context, site);
  await addMany(writer);
  await put(writer, "entity-7", 70);
  await put(writer, "entity-8", 80);
  await writer.evaluate(() => /** @type {any} */ (window).state.remove(["entity-9", "entity-10"]));
  await put(writer, "entity-10", 100);
  const fresh = await openTab(context, site);
  expect(await shown(fresh)).toEqual(await shown(writer));
  expect(await shown(fresh)).toContain("entity-10 100");
  expect(await shown(fresh)).toHaveLength(MANY - 1);
  expect(await singles(fresh)).toBeLessThan(20);
});

test("st_37 what was stored one by one is packed once, after a start that had to read it so", async ({ context, site }) => {
  const writer = await openTab(context, site);
  for (let n = 0; n < 300; n++) await put(writer, `entity-${n}`, n);
  // Notes become one from time to time.
  for (let n = 0; n < 300; n++) await put(writer, "entity-1", n);
  expect(await held(writer, "notes")).toBeLessThan(600);
  const slow = await openTab(context, site);
  expect(await singles(slow)).toBeGreaterThanOrEqual(300);
  await expect.poll(() => held(slow, "packs")).toBe(600);
  expect(await held(slow, "notes")).toBe(0);
  await put(writer, "entity-2", 222);
  const fast = await openTab(context, site);
  expect(await shown(fast)).toEqual(await shown(writer));
  expect(await singles(fast)).toBeLessThan(20);
});

// A tab stops between reading everything and packing it. Meanwhile an entity is changed, another tab packs, and packs are dropped to
// make room: of the change nothing is left but its own record.
test("st_37 a pack that comes late is refused", async ({ context, site }) => {
  const writer = await openTab(context, site);
  await addMany(writer);
  const opened = await writer.evaluateHandle(async (name) => {
    const { pack, unpack } = await import(/** @type {any} */ ("/pkg/state-packs.js"));
    const database = await new Promise((resolve) => {
      const request = indexedDB.open(name);
      request.onsuccess = () => resolve(request.result);
    });
    const answer = (/** @type {IDBRequest} */ request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
    return { pack, unpack, database, answer };
  }, DATABASE);
  const late = await opened.evaluateHandle(({ pack, database, answer }) => {
    /** @type {() => void} */
    let go = () => {};
    const stopped = new Promise((resolve) => (go = () => resolve(undefined)));
    const done = pack(database, "keys", 1_000, async (/** @type {IDBRequest} */ request) => {
      const found = await answer(request);
      await stopped;
      return found;
    });
    return { go, done };
  });
  await put(writer, "entity-3", 333);
  await opened.evaluate(async ({ pack, unpack, database, answer }) => {
    await pack(database, "keys", 1_000, answer);
    await unpack(database, answer);
  });
  await late.evaluate(async ({ go, done }) => (go(), done));
  expect(await held(writer, "packs")).toBe(0);
  await opened.evaluate(({ database }) => database.close());
  expect(await shown(await openTab(context, site))).toContain("entity-3 333");
});
