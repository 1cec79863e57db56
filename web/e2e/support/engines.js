// Engines, for tests that are written once: `engine-*.spec.js` run in the projects of playwright.config.js that name one. Chromium has
// tests of its own for most of it. What a browser is asked for is the same in all; what one of them cannot do is a skip that says why.

import { test as base, expect } from "@playwright/test";
import { openLockServer } from "./lock-server.js";
import { openChromium, openFirefox } from "./puppet.js";
import { openWebKit } from "./webkit.js";

/**
 * What is used of a tab: puppeteer's Page has more.
 * @typedef {object} Tab
 * @property {(url: string) => Promise<any>} goto
 * @property {<Args extends unknown[], Work extends (...args: Args) => unknown>(work: Work, ...args: Args) => Promise<Awaited<ReturnType<Work>>>} evaluate
 * @property {() => Promise<any>} reload
 * @property {() => Promise<any>} close
 * @property {() => Promise<any>} crash
 */
/** @typedef {{ newPage(): Promise<Tab>, close(): Promise<void>, kill(): Promise<void> }} Browser */
/**
 * - `isPrivate`: a private window
 * - `forbidsStorage`: as a user may
 * - `crashes`: tabs of it can crash
 * - `profile`: a folder to be kept, for a browser that is opened again
 * @typedef {{ isPrivate?: boolean, forbidsStorage?: boolean, crashes?: boolean, profile?: string }} Wishes
 */
/** @typedef {"Chromium" | "Firefox" | "WebKit"} Engine */

const LACKS = /** @type {Record<Engine, Record<string, string>>} */ ({
  Chromium: Object.fromEntries(["isPrivate", "forbidsStorage", "crashes", "profile"].map((wish) => [wish, "tests of its own do this in Chromium"])),
  Firefox: {},
  WebKit: {
    forbidsStorage: "WebKitGTK's browser has no switch by which its user forbids storage",
  },
});

const OPEN = /** @type {Record<Engine, (proxy: string, wishes: Wishes) => Promise<Browser>>} */ ({
  Chromium: () => openChromium(),
  Firefox: (_, wishes) => openFirefox(wishes),
  WebKit: openWebKit,
});

// What is in a profile that pages have stored.
const STORED = /** @type {Record<Engine, string[]>} */ ({ Chromium: [], Firefox: ["storage", "storage.sqlite"], WebKit: ["DATA_HOME", "CACHE_HOME"] });

/** @type {import("@playwright/test").TestType<{ engine: Engine, stored: string[], open: (wishes?: Wishes) => Promise<Browser>, server: Awaited<ReturnType<typeof openLockServer>> }, {}>} */
export const test = base.extend({
  engine: ["Firefox", { option: true }],
  stored: async ({ engine }, use) => use(STORED[engine]),
  server: async ({}, use) => {
    const server = await openLockServer();
    await use(server);
    await server.close();
  },
  open: async ({ engine, server }, use) => {
    /** @type {Browser[]} */
    const opened = [];
    await use(async (wishes = {}) => {
      for (const wish of Object.keys(wishes)) test.skip(wish in LACKS[engine], LACKS[engine][wish]);
      const browser = await OPEN[engine](server.url, wishes);
      opened.push(browser);
      return browser;
    });
    for (const browser of opened) await browser.close();
  },
});

export { expect };

/** A tab with `url`; `window.attempt(promise)` there turns what a promise came to into a value that can leave the page. */
export async function openTab(/** @type {Browser} */ browser, /** @type {string} */ url) {
  const tab = await browser.newPage();
  await tab.goto(url);
  await tab.evaluate(() => {
    /** @type {any} */ (window).attempt = (/** @type {() => any} */ work) =>
      Promise.resolve()
        .then(work)
        .then(
          (value) => ({ value }),
          (error) => ({ error: { name: error.name, code: error.code, message: error.message } }),
        );
  });
  return tab;
}
