// Runs web/e2e and the e2e folders of the apps against a real node (SYNCLINE_BIN) in the machine's own Chromium (CHROMIUM_PATH overrides).

import { existsSync, readdirSync } from "node:fs";
import { defineConfig } from "@playwright/test";
import { CHROMIUM, FLAGS } from "./e2e/support/chromium.js";

const apps = readdirSync(new URL("../apps", import.meta.url)).filter((app) => existsSync(new URL(`../apps/${app}/e2e`, import.meta.url)));

const OTHER_ENGINES = "engine-*.spec.js";

export default defineConfig({
  // The console and the package are tested here, each app in its own folder. What depends on the engine is tested in each of the others.
  projects: [
    { name: "web", testDir: "e2e", testIgnore: OTHER_ENGINES },
    { name: "Chromium", testDir: "e2e", testMatch: "engine-probes.spec.js", use: { engine: "Chromium" } },
    ...["Firefox", "WebKit"].map((engine) => ({ name: engine, testDir: "e2e", testMatch: OTHER_ENGINES, use: { engine } })),
    ...apps.map((app) => ({ name: app, testDir: `../apps/${app}/e2e` })),
  ],
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
