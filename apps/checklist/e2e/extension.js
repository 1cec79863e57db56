// The extension as it is shipped, in a Chromium of its own, and sites for it to lie on.
//
// Guarantees that every error in a console and every exception of a page, frame or worker is written down in `errors`.
// Pages are served on 127.0.0.1 and as lan.test, which are two sites to the browser: /plain, /strict (it allows itself
// nothing), /isolated (it allows no frame of another origin that does not ask for it) and /sandbox.

import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, chromium, expect as baseExpect } from "../../../web/e2e/support/playwright.js";
import { CHROMIUM, FLAGS } from "../../../web/e2e/support/chromium.js";

const WEB = join(import.meta.dirname, "../../../web");
// The script of the package that the extension imports. It gets this one and what that loads, as in `cargo xtask dist`.
const ENTRY = "state.js";
// How a script of the package names a file beside it.
const LOADING = /(?:from|import|import\(|new URL\()\s*"\.\/([^"]+)"/g;

const HEADERS = /** @type {Record<string, Record<string, string>>} */ ({
  "/strict": { "content-security-policy": "default-src 'none'; img-src data:" },
  "/isolated": { "cross-origin-embedder-policy": "require-corp", "cross-origin-opener-policy": "same-origin" },
  "/sandbox": { "content-security-policy": "sandbox allow-scripts" },
});

/** @typedef {Awaited<ReturnType<typeof openExtension>>} Extension */
/** @typedef {{ url: string, lanUrl: string }} Sites */

// A browser of its own for each test takes its time on a machine that does other things as well.
const TIMEOUT_MS = 120_000;

/** @type {import("../../../web/e2e/support/playwright.js").TestType<{ extension: Extension, sites: Sites }, import("../../../web/e2e/support/playwright.js").PlaywrightWorkerArgs>} */
export const test = base.extend({
  extension: async ({}, use, testInfo) => {
    testInfo.setTimeout(TIMEOUT_MS);
    const extension = await openExtension();
    await use(extension);
    const { errors } = extension;
    await extension.close();
    expect(errors).toEqual([]);
  },
  sites: async ({}, use) => {
    const server = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? "/", "http://site");
      response.writeHead(200, { "content-type": "text/html", ...HEADERS[pathname] });
      response.end(`<!doctype html><html lang="en"><title>${pathname}</title><link rel="icon" href="data:,"><main><h1>A site</h1></main></html>`);
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
    await use({ url: `http://127.0.0.1:${port}`, lanUrl: `http://lan.test:${port}` });
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  },
});

export const expect = baseExpect.configure({ timeout: 30_000 });

export async function openExtension() {
  const folder = await mkdtemp(join(tmpdir(), "syncline-e2e-extension-"));
  const place = join(folder, "extension");
  await cp(join(import.meta.dirname, "../extension"), place, { recursive: true });
  await cp(join(WEB, "console/assets/tokens.css"), join(place, "tokens.css"));
  for (const file of await loadedFrom(ENTRY)) await cp(join(WEB, "pkg", file), join(place, "pkg", file));
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: CHROMIUM,
    args: [...FLAGS, `--disable-extensions-except=${place}`, `--load-extension=${place}`],
  });
  /** @type {string[]} */
  const errors = [];
  context.on("console", (message) => message.type() === "error" && errors.push(`${message.text()} (${message.location().url})`));
  context.on("weberror", (error) => errors.push(String(error.error())));
  const [worker = await context.waitForEvent("serviceworker")] = context.serviceWorkers();
  const origin = worker.url().slice(0, worker.url().lastIndexOf("/"));
  // Before any other tab is there: it takes one that is still empty.
  const isOptions = (/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) => page.url() === `${origin}/options.html`;
  await expect.poll(() => context.pages().some(isOptions)).toBe(true);
  const welcome = /** @type {import("../../../web/e2e/support/playwright.js").Page} */ (context.pages().find(isOptions));
  const coordinator = await watchWorker(context, `${origin}/names.js`);

  return {
    context,
    origin,
    coordinator,
    /** The options page that the installation opens by itself. */
    welcome,
    errors,
    /** A page of the extension in a tab, loaded. */
    async open(/** @type {string} */ file) {
      const page = await context.newPage();
      await page.goto(`${origin}/${file}`);
      return page;
    },
    /** A tab with a site. */
    async visit(/** @type {string} */ url) {
      const page = await context.newPage();
      await page.goto(url);
      return page;
    },
    /** Loads the extension anew, as an update does: its pages are closed, its frames and content scripts are left behind. */
    async reload() {
      // Without it, Chrome does not load an unpacked extension a second time.
      const extensions = await context.newPage();
      await extensions.goto("chrome://extensions");
      await extensions.evaluate(() =>
        /** @type {any} */ (globalThis).chrome.developerPrivate.updateProfileConfiguration({ inDeveloperMode: true }),
      );
      await extensions.close();
      const page = await context.newPage();
      await page.goto(`${origin}/popup.html`);
      const closed = page.waitForEvent("close");
      await page.evaluate(() => /** @type {any} */ (globalThis).chrome.runtime.reload()).catch(() => {});
      await closed;
      // It is back when one of its pages can be opened.
      await expect(async () => {
        const probe = await context.newPage();
        try {
          await probe.goto(`${origin}/names.js`);
        } finally {
          await probe.close();
        }
      }).toPass();
    },
    async close() {
      await context.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** `entry` of the built package, and every file that it loads. */
async function loadedFrom(/** @type {string} */ entry) {
  const found = new Set([entry]);
  // A set that grows while it is walked is walked to its new end.
  for (const file of found) {
    if (!file.endsWith(".js")) continue;
    const text = await readFile(join(WEB, "pkg", file), "utf8");
    for (const [, name] of text.matchAll(LOADING)) found.add(/** @type {string} */ (name));
  }
  return found;
}

/** The service worker's life, seen from a document of the extension that runs no script. */
async function watchWorker(/** @type {import("../../../web/e2e/support/playwright.js").BrowserContext} */ context, /** @type {string} */ url) {
  const page = await context.newPage();
  await page.goto(url);
  const session = await context.newCDPSession(page);
  /** @type {string[]} */
  const statuses = [];
  session.on("ServiceWorker.workerVersionUpdated", ({ versions }) => {
    for (const { runningStatus } of versions) statuses.push(runningStatus);
  });
  await session.send("ServiceWorker.enable");
  return {
    /** What it was since it was last stopped. */
    statuses,
    /** Stops it, as Chrome does after half a minute. */
    async stop() {
      await session.send("ServiceWorker.stopAllWorkers");
      await expect.poll(() => statuses.at(-1)).toBe("stopped");
      statuses.splice(0);
    },
  };
}

/** The runtime surface on a page, as soon as it is there. */
export async function surfaceOn(/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) {
  await expect.poll(() => findSurface(page) !== undefined).toBe(true);
  return /** @type {import("../../../web/e2e/support/playwright.js").Frame} */ (findSurface(page));
}

/** The same, or undefined. */
export function findSurface(/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) {
  return page.frames().find((frame) => /^chrome-extension:.*\/runtime\.html/.test(frame.url()));
}

/** Opens the checklist of a surface that is collapsed. */
export const expand = (/** @type {Place} */ frame) => frame.getByRole("button", { name: /^Open the checklist/ }).click();

/** The box of an entry. */
export const entry = (/** @type {Place} */ place, /** @type {string} */ title) =>
  place.getByRole("checkbox", { name: title, exact: true });

/** Adds an entry as somebody would. */
export async function add(/** @type {Place} */ place, /** @type {string} */ title) {
  await place.getByLabel("New entry").fill(title);
  await place.getByRole("button", { name: "Add", exact: true }).click();
}

/** Reads or writes the extension's storage, past the package, from one of its pages. */
export const storage = {
  get: (/** @type {Place} */ place) => place.evaluate(() => /** @type {any} */ (globalThis).chrome.storage.local.get(null)),
  set: (/** @type {Place} */ place, /** @type {Record<string, unknown>} */ contents) =>
    place.evaluate((contents) => /** @type {any} */ (globalThis).chrome.storage.local.set(contents), contents),
};

/** @typedef {import("../../../web/e2e/support/playwright.js").Page | import("../../../web/e2e/support/playwright.js").Frame} Place */
