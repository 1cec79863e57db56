// Runs web/e2e against a real node (SYNCLINE_BIN) in the machine's own Chromium (CHROMIUM_PATH overrides).

import { defineConfig } from "@playwright/test";
import { CHROMIUM, FLAGS } from "./e2e/support/chromium.js";

export default defineConfig({
  testDir: "e2e",
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
