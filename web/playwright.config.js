// Runs web/e2e and the e2e folders of the apps against a real node (SYNCLINE_BIN) in the machine's own Chromium (CHROMIUM_PATH overrides).

import { existsSync, readdirSync } from "node:fs";
import { defineConfig } from "@playwright/test";
import { CHROMIUM, FLAGS } from "./e2e/support/chromium.js";

const apps = readdirSync(new URL("../apps", import.meta.url)).filter((app) => existsSync(new URL(`../apps/${app}/e2e`, import.meta.url)));

export default defineConfig({
  // The console and the package are tested here, each app in its own folder.
  projects: [{ name: "web", testDir: "e2e" }, ...apps.map((app) => ({ name: app, testDir: `../apps/${app}/e2e` }))],
  outputDir: "e2e/results/artifacts",
  reporter: [["line"], ["json", { outputFile: "e2e/results/report.json" }]],
  workers: 2,
  fullyParallel: true,
  retries: 0,
  forbidOnly: true,
  timeout: 60_000,
  expect: { timeout: 10_000 },
  use: {
    // Playwright's own switches for the fonts, caches and background work of a test browser stay as they are.
    launchOptions: { executablePath: CHROMIUM, args: FLAGS },
    trace: "retain-on-failure",
  },
});
