// The test with its fixtures: a node, a browser as people use it, and an eye on every console.
//
// Guarantees that a page error, a console error or a refused resource fails the test that met it, unless the test says
// with `expectedErrors` what it provokes.

import { test as base, expect } from "@playwright/test";
import { openPlainBrowser } from "./chromium.js";
import { Node } from "./node.js";

/**
 * @typedef {{
 *   nodeOptions: { config?: string, environment?: Record<string, string> },
 *   expectedErrors: RegExp | null,
 *   node: Node,
 *   plainTabs: import("@playwright/test").BrowserContext,
 *   quietConsole: void,
 * }} Fixtures
 */

/** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & Fixtures, {}>} */
export const test = base.extend({
  nodeOptions: [{}, { option: true }],
  expectedErrors: [null, { option: true }],

  node: async ({ nodeOptions }, use, testInfo) => {
    const node = await Node.start(nodeOptions);
    await use(node);
    await node.remove();
    if (testInfo.status !== testInfo.expectedStatus) await testInfo.attach("node.log", { body: node.log.join("\n") });
  },

  baseURL: async ({ node }, use) => use(node.url),

  plainTabs: async ({}, use) => {
    const browser = await openPlainBrowser();
    await use(browser.context);
    await browser.close();
  },

  quietConsole: [
    /** @param {any} fixtures @param {() => Promise<void>} use */
    async ({ context, expectedErrors }, use) => {
      /** @type {string[]} */
      const errors = [];
      context.on(
        "console",
        (/** @type {import("@playwright/test").ConsoleMessage} */ message) =>
          message.type() === "error" && errors.push(`${message.text()} (${message.location().url})`),
      );
      context.on("weberror", (/** @type {import("@playwright/test").WebError} */ error) =>
        errors.push(String(error.error())),
      );
      await use();
      expect(errors.filter((error) => !expectedErrors?.test(error))).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };

/** Every page of the menu with its heading, in its order. */
export const PAGES = [
  { path: "/", heading: "Overview" },
  { path: "/lock", heading: "Lock" },
  { path: "/state", heading: "State" },
  { path: "/queue", heading: "Queue" },
  { path: "/viewer", heading: "Viewer" },
  { path: "/outbox", heading: "Outbox" },
  { path: "/access", heading: "Access" },
  { path: "/audit", heading: "Audit" },
  { path: "/nodes", heading: "Nodes" },
  { path: "/kv", heading: "Keys and values" },
  { path: "/shelf", heading: "Bookshelf" },
  { path: "/calls", heading: "Calls" },
  { path: "/gallery", heading: "Gallery" },
];

/** Pages below them, each with the entry of the menu that it belongs to. */
export const PAGES_BELOW = [
  { path: "/docs", heading: "Which system do I need", title: "Which system do I need · Docs", menu: null },
  { path: "/docs/lock", heading: "Lock", title: "Lock · Docs", menu: null },
  { path: "/docs?q=fencing", heading: "Search", title: "Search · Docs", menu: null },
  { path: "/project", heading: "AutoSave", title: "AutoSave", menu: null },
  { path: "/settings", heading: "Settings", title: "Settings", menu: null },
  { path: "/state/try", heading: "Try state", title: "Try state", menu: "/state" },
  { path: "/state/entities?space=cart", heading: "Entities of cart", title: "cart · State", menu: "/state" },
  { path: "/queue/keys?queue=fetchNdlSearch&state=dead", heading: "Keys of fetchNdlSearch", title: "fetchNdlSearch · Queue", menu: "/queue" },
  { path: "/queue/groups?queue=fetchNdlSearch", heading: "Groups of fetchNdlSearch", title: "fetchNdlSearch · Groups", menu: "/queue" },
  { path: "/viewer/rooms", heading: "Rooms", title: "Rooms", menu: "/viewer" },
  { path: "/outbox/entries?state=dead", heading: "Outbox entries", title: "Outbox entries", menu: "/outbox" },
  { path: "/outbox/inbox?type=call_log", heading: "Inbox: call_log", title: "call_log · Inbox", menu: "/outbox" },
];

/** Opens a page and waits until it is connected and has shown its first data. */
export async function open(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ address) {
  await page.goto(address);
  await expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();
}
