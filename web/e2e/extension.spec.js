// The extension as it is shipped, the package beside it, loaded into the same Chromium.

import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, expect, test } from "@playwright/test";
import { CHROMIUM, FLAGS } from "./support/chromium.js";

const WEB = join(import.meta.dirname, "..");

test("the extension loads and its options page runs the rules as WASM", async () => {
  const folder = await mkdtemp(join(tmpdir(), "syncline-e2e-extension-"));
  const extension = join(folder, "extension");
  await cp(join(WEB, "extension"), extension, { recursive: true });
  await cp(join(WEB, "pkg"), join(extension, "pkg"), { recursive: true });
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: CHROMIUM,
    args: [...FLAGS, `--disable-extensions-except=${extension}`, `--load-extension=${extension}`],
  });
  try {
    const [worker = await context.waitForEvent("serviceworker")] = context.serviceWorkers();
    const page = await context.newPage();
    /** @type {string[]} */
    const errors = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(new URL("/options.html", worker.url()).href);
    await expect(page.locator("#wasm-state")).toHaveText("Running");
    await expect(page.locator("#wasm-version")).toHaveText(/^\d+\.\d+\.\d+$/);
    expect(errors).toEqual([]);
  } finally {
    await context.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});
