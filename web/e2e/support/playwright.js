// What is installed here, for tests that live with their app: a bare name leads nowhere from there.

import { createRequire } from "node:module";

export { AxeBuilder } from "@axe-core/playwright";
export { chromium, expect, test } from "@playwright/test";

/** Where axe itself is, to be put into a page by hand. */
export const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** @typedef {import("@playwright/test").BrowserContext} BrowserContext */
/** @typedef {import("@playwright/test").Frame} Frame */
/** @typedef {import("@playwright/test").Page} Page */
/** @typedef {import("@playwright/test").PlaywrightWorkerArgs} PlaywrightWorkerArgs */
/** @template {{}} T @template {{}} W @typedef {import("@playwright/test").TestType<T, W>} TestType */
