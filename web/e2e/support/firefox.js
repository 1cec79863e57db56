// Firefox as Debian ships it, driven by WebDriver BiDi: Playwright drives only builds of its own.
//
// Guarantees a profile of its own for each browser, in which `lan.test` is this machine and yet no secure context.

import puppeteer from "puppeteer-core";
import { test as base, expect } from "@playwright/test";
import { openLockServer } from "./lock-server.js";

export const FIREFOX = process.env.FIREFOX_PATH ?? "/usr/bin/firefox-esr";

/** @typedef {import("puppeteer-core").Page} Tab */
/** @typedef {Record<string, unknown>} Preferences */
/** `profile`: a folder to be kept, for a browser that is opened again. */
/** @typedef {(preferences?: Preferences, profile?: string) => Promise<import("puppeteer-core").Browser>} OpenFirefox */

/** @type {import("@playwright/test").TestType<{ firefox: OpenFirefox, server: Awaited<ReturnType<typeof openLockServer>> }, {}>} */
export const test = base.extend({
  server: async ({}, use) => {
    const server = await openLockServer();
    await use(server);
    await server.close();
  },
  firefox: async ({}, use) => {
    /** @type {import("puppeteer-core").Browser[]} */
    const opened = [];
    await use(async (preferences, profile) => {
      const browser = await openFirefox(preferences, profile);
      opened.push(browser);
      return browser;
    });
    // One that a test has killed is no longer connected.
    for (const browser of opened) if (browser.connected) await browser.close();
  },
});

export { expect };

/** A Firefox with these preferences. */
function openFirefox(/** @type {Preferences} */ preferences = {}, /** @type {string | undefined} */ profile = undefined) {
  return puppeteer.launch({
    browser: "firefox",
    executablePath: FIREFOX,
    headless: true,
    userDataDir: profile,
    extraPrefsFirefox: {
      "network.dns.localDomains": "lan.test",
      // A tab of its own process each, and no process started ahead: fewer of them on a small machine.
      "dom.ipc.processPrelaunch.enabled": false,
      ...preferences,
    },
  });
}

/** A tab with `url`; `window.attempt(promise)` there turns what a promise came to into a value that can leave the page. */
export async function openTab(/** @type {import("puppeteer-core").Browser} */ browser, /** @type {string} */ url) {
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
