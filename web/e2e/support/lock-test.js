// The test with a server of the package, and tabs in which the package is loaded and its events are written down.

import { test as base, expect } from "@playwright/test";
import { openLockServer } from "./lock-server.js";

/** @typedef {Awaited<ReturnType<typeof openLockServer>>} LockServer */

/** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & { server: LockServer }, {}>} */
export const test = base.extend({
  server: async ({}, use) => {
    const server = await openLockServer();
    await use(server);
    await server.close();
  },
});

export { expect };

/**
 * A tab with the package as `window.lock`, what listeners heard as `window.seen`, and `window.attempt(promise)`.
 * @param {import("@playwright/test").BrowserContext} context
 * @param {string} url
 */
export async function openTab(context, url) {
  const page = await context.newPage();
  await page.goto(url);
  await page.evaluate(async () => {
    const tab = /** @type {any} */ (window);
    tab.lock = await import(/** @type {any} */ ("/pkg/syncline.js"));
    tab.seen = [];
    tab.words = () => tab.seen.map((/** @type {any} */ event) => event.type);
    tab.lock.subscribeLockEvents((/** @type {any} */ event) => tab.seen.push(event));
    // What a promise came to, as a value that can leave the page.
    tab.attempt = (/** @type {Promise<any>} */ work) =>
      work.then(
        (value) => ({ value }),
        (error) => ({
          error: { name: error.name, code: error.code, retryable: error.retryable, message: error.message },
          typed: error instanceof tab.lock.ProjectLockError,
        }),
      );
  });
  return page;
}

/** The text of the lease file, or null. */
export function leaseFile(/** @type {import("@playwright/test").Page} */ page, project = "project") {
  return page.evaluate(async (project) => {
    const root = await navigator.storage.getDirectory();
    try {
      const folder = await root.getDirectoryHandle(project);
      return await (await (await folder.getFileHandle(".lock")).getFile()).text();
    } catch {
      return null;
    }
  }, project);
}

/** Writes the lease file as if another tab had. */
export function writeLeaseFile(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ text) {
  return page.evaluate(async (text) => {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("project", { create: true });
    const pen = await (await folder.getFileHandle(".lock", { create: true })).createWritable();
    await pen.write(text);
    await pen.close();
  }, text);
}
