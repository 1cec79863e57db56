// Shared state in real tabs of Chromium when somebody clears the storage under them, and when many tabs write to one key at once.

import { test as base, expect } from "@playwright/test";
import { openLockServer } from "./support/lock-server.js";

const DATABASE = "syncline-state:state";

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
 * A tab with an open state as `window.state`, and the reports it made as `window.reports`.
 * @param {import("@playwright/test").BrowserContext} context
 * @param {string} url
 */
async function openTab(context, url) {
  const page = await context.newPage();
  await page.goto(url);
  await page.evaluate(async () => {
    const tab = /** @type {any} */ (window);
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    tab.reports = [];
    tab.state = openState();
    tab.state.subscribe((/** @type {any} */ event) => event.type === "report" && tab.reports.push(event.code ?? event.report));
    await tab.state.ready;
  });
  return page;
}

const put = (/** @type {Page} */ page, /** @type {string} */ id) =>
  page.evaluate((id) => /** @type {any} */ (window).state.put(id, { checked: true }), id);

const ids = (/** @type {Page} */ page) =>
  page.evaluate(() => [.../** @type {any} */ (window).state.getSnapshot().entities.keys()].sort());

/** Ways in which what a site has stored goes away under its open tabs. */
const CLEARINGS = {
  "site data are cleared": async (/** @type {Page} */ page, /** @type {string} */ site) => {
    const session = await page.context().newCDPSession(page);
    await session.send("Storage.clearDataForOrigin", { origin: new URL(site).origin, storageTypes: "all" });
  },
  "the database is deleted": (/** @type {Page} */ page) =>
    page.evaluate(
      (name) =>
        new Promise((resolve, reject) => {
          const request = indexedDB.deleteDatabase(name);
          request.onsuccess = () => resolve(undefined);
          request.onerror = () => reject(request.error);
        }),
      DATABASE,
    ),
  "all keys are deleted": (/** @type {Page} */ page) =>
    page.evaluate(
      (name) =>
        new Promise((resolve, reject) => {
          const request = indexedDB.open(name);
          request.onsuccess = () => {
            const transaction = request.result.transaction("keys", "readwrite");
            transaction.objectStore("keys").clear();
            transaction.oncomplete = () => resolve(request.result.close());
            transaction.onabort = () => reject(transaction.error);
          };
        }),
      DATABASE,
    ),
};

for (const [how, clear] of Object.entries(CLEARINGS)) {
  // The change made right after was acknowledged and gone: the missing index was taken for a reset made after it.
  test(`st_33 when ${how}, what is stored afterwards is there, and all tabs agree`, async ({ context, site }) => {
    const tabs = [await openTab(context, site), await openTab(context, site)];
    for (let number = 0; number < 5; number++) await put(tabs[number % 2], `before-${number}`);
    await expect.poll(async () => (await ids(tabs[1])).length).toBe(5);
    await clear(tabs[0], site);
    await put(tabs[0], "afterwards");
    const fresh = await openTab(context, site);
    expect(await ids(fresh)).toContain("afterwards");
    for (const tab of [...tabs, fresh]) {
      await expect.poll(async () => JSON.stringify(await ids(tab))).toBe(JSON.stringify(await ids(tabs[0])));
      expect(await ids(tab)).toContain("afterwards");
    }
  });
}

// With six tabs or more nobody was answered, and the key was rewritten hundreds of times a second with nobody doing anything.
test("st_35 eight tabs add to one key at once: all are answered, and at rest nothing is written", async ({ context, site }) => {
  const tabs = await Promise.all(Array.from({ length: 8 }, () => openTab(context, site)));
  await tabs[0].evaluate(() => /** @type {any} */ (window).state.setLayout("A"));
  await Promise.all(tabs.map((tab, at) => Promise.all([0, 1, 2].map((turn) => put(tab, `tab-${at}-${turn}`)))));
  for (const tab of tabs) await expect.poll(async () => (await ids(tab)).length).toBe(24);
  const revision = () =>
    tabs[0].evaluate(
      (name) =>
        new Promise((resolve) => {
          const request = indexedDB.open(name);
          request.onsuccess = () => {
            const counter = request.result.transaction("revision").objectStore("revision").get("last");
            counter.onsuccess = () => resolve((request.result.close(), counter.result));
          };
        }),
      DATABASE,
    );
  // At rest: the number of writes is the same in looks a second apart, which is longer than any second look takes.
  await expect
    .poll(
      async () => {
        const before = await revision();
        await tabs[0].evaluate(() => new Promise((resolve) => setTimeout(resolve, 1_000)));
        return (await revision()) === before;
      },
      { timeout: 20_000 },
    )
    .toBe(true);
});
