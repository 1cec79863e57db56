// The browser under test, and a second way to start it: as people use it.
//
// Playwright keeps every page "visible" and switches the back/forward cache off. Both matter to a viewer, so
// openPlainBrowser() starts Chromium by itself and only attaches: there, a tab behind another one is really hidden.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "@playwright/test";

export const CHROMIUM = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";

export const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // A camera that shows a test picture, and nobody who has to allow it.
  "--use-fake-device-for-media-stream",
  "--use-fake-ui-for-media-stream",
  // A name that is this machine, and yet no secure context: what a box in the local network looks like to a page.
  "--host-resolver-rules=MAP lan.test 127.0.0.1",
];

/** A Chromium of its own with one window; `context` holds its tabs. */
export async function openPlainBrowser() {
  const profile = await mkdtemp(join(tmpdir(), "syncline-e2e-profile-"));
  const switches = ["--headless", ...FLAGS, "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
  const process = spawn(CHROMIUM, switches, { stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(process, "exit");
  const browser = await chromium.connectOverCDP(await debuggerAddress(process), { noDefaults: true });
  return {
    context: browser.contexts()[0],
    async close() {
      // First of all, the process: to be asked to close takes for ever where a tab of it is frozen or crashed.
      process.kill();
      await exited;
      await browser.close().catch(() => {});
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The address that Chromium prints when it is ready. */
async function debuggerAddress(/** @type {import("node:child_process").ChildProcess} */ process) {
  const said = [];
  for await (const line of createInterface({ input: /** @type {import("node:stream").Readable} */ (process.stderr) })) {
    const address = /^DevTools listening on (ws:.+)$/.exec(line);
    if (address) {
      // Read on, or a full pipe would stop the browser.
      process.stderr?.resume();
      return address[1];
    }
    said.push(line);
  }
  throw new Error(`Chromium did not start:\n${said.join("\n")}`);
}

/**
 * Goes back to the page before, and answers whether `made` (an expression) is still true there: a page out of the
 * back/forward cache is as it was left, and one that the browser had dropped from it is new.
 *
 * Such a page has no load event to wait for, and the page that is left can still be asked for a moment. So it is asked
 * again until the answer comes from the page at the old address.
 */
export async function goBack(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ made) {
  const left = page.url();
  await page.goBack({ waitUntil: "commit" });
  for (;;) {
    const answer = await page
      .evaluate(`({ at: location.href, loaded: document.readyState === "complete", made: ${made} })`)
      .catch((error) => {
        if (!/context was destroyed|Cannot find context/.test(String(error))) throw error;
      });
    if (answer?.loaded && answer.at !== left) return /** @type {boolean} */ (answer.made);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
