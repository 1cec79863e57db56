// Nothing that came from outside ever runs in a page: hostile text is shown as text.
//
// A payload that runs calls boom() or breaks the Content-Security-Policy, which the console check of the fixtures sees.

import { expect, open, test } from "./support/test.js";

const CALL = "window.boom()";
const PAYLOADS = [
  `<script>${CALL}</script>`,
  `<img src=x onerror=${CALL}>`,
  `<svg onload=${CALL}>`,
  `<svg><script>${CALL}</script></svg>`,
  `"><img src=x onerror=${CALL}>`,
  `'><svg/onload=${CALL}>`,
  `</title><script>${CALL}</script>`,
  `</option></select><img src=x onerror=${CALL}>`,
  `</td></table><iframe src="javascript:${CALL}">`,
  `<iframe srcdoc="<script>parent.boom()</script>">`,
  `<details open ontoggle=${CALL}>`,
  `<a href="javascript:${CALL}" autofocus onfocus=${CALL}>x</a>`,
  `<math><mi xlink:href="javascript:${CALL}">`,
  `<style>@import 'x';*{animation:x}</style><p onanimationstart=${CALL}>`,
  `<template><script>${CALL}</script></template>`,
  `javascript:${CALL}`,
  `data:text/html,<script>${CALL}</script>`,
  `//evil.example/x.svg`,
  `\\\\evil.example\\x.svg`,
  `/../../x" onerror="${CALL}`,
  `{{constructor.constructor('${CALL}')()}}`,
  `\${${CALL}}`,
  `__proto__`,
  `constructor`,
  `\u202e${CALL}\u0000`,
];
const STATES = ["done", "skipped", "failed", "running", "abandoned", "<b>new</b>"];

test.beforeEach(async ({ context }) => {
  await context.addInitScript(() => {
    /** @type {any} */ (window).boom = () => console.error("a payload ran");
  });
});

test.describe("from the API", () => {
  test.use({ expectedErrors: /status of 503/ });

  test("hostile names, reasons, details and addresses stay text on every page", async ({ page }) => {
    const now = Date.now();
    const run = (/** @type {string} */ text, /** @type {number} */ i) => ({
      id: `${i} ${text}`,
      job: text,
      bucket: text,
      node: text,
      decision: "skip",
      reason: text,
      state: STATES[i % STATES.length],
      started_at: now,
      finished_at: now,
      attempts: 2,
      detail: text,
      cost_usd: 1,
    });
    const jobs = PAYLOADS.map((text, i) => ({
      name: text,
      cron: text,
      gate: text,
      kind: i % 2 ? text : "picture",
      cost_usd: 1,
      next_at: now + 60_000,
      last: run(text, i),
      running: false,
      totals: { runs: 1, failed: 1, skips: { [text]: i + 1 }, spent_usd: 1, saved_usd: 1 },
    }));
    const nodes = PAYLOADS.map((text) => ({ node: text, viewers: 1, visible: 1 }));
    const pictures = PAYLOADS.map((text) => ({ objectKey: text, ts: now, url: text, viewers: 1, hash: text }));
    await page.route("**/api/jobs", (route) => route.fulfill({ json: { jobs } }));
    await page.route("**/api/jobs/*/history*", (route) => route.fulfill({ json: { runs: PAYLOADS.map(run) } }));
    await page.route("**/api/viewer", (route) =>
      route.fulfill({ json: { viewers: 1, visible: 1, occupied: true, nodes, history: [] } }),
    );
    await page.route("**/api/gallery", (route) => route.fulfill({ json: { pictures } }));
    await page.route("**/readyz", (route) =>
      route.fulfill({ status: 503, json: { error: PAYLOADS[0], code: PAYLOADS[1] } }),
    );
    // The node's own news would be newer than these answers.
    await page.route("**/api/events*", (route) => route.continue({ url: route.request().url().replace(/topics=.*/, "topics=") }));
    const asked = new Set();
    page.on("request", (request) => asked.add(new URL(request.url()).host));

    await open(page, "/viewer");
    await expect(page.locator("#jobs tr")).toHaveCount(PAYLOADS.length);
    await expect(page.locator("#history tr")).toHaveCount(20);
    await expect(page.locator("#nodes th").first()).toHaveText(PAYLOADS[0]);
    await expect(page.locator("#jobs .job-title").nth(1)).toHaveText(PAYLOADS[1]);
    await open(page, "/");
    await expect(page.locator("#jobs > li")).toHaveCount(PAYLOADS.length);
    await expect(page.locator("#health-store")).toHaveText(`${PAYLOADS[0]}.`);
    await open(page, "/gallery");
    // None of them is the address of a picture.
    await expect(page.locator("#gallery-empty")).toBeVisible();
    await expect(page.locator("main script, main iframe, main [onerror], main [onload]")).toHaveCount(0);
    expect([...asked]).toEqual([new URL(page.url()).host]);
  });
});

test.describe("in an error", () => {
  test.use({ expectedErrors: /status of 409/ });

  test("an error message of the node stays text", async ({ page }) => {
    await page.route("**/api/jobs", (route) =>
      route.fulfill({ status: 409, json: { error: PAYLOADS[1], code: PAYLOADS[0] } }),
    );
    await page.goto("/");
    await expect(page.getByRole("alert").filter({ hasText: PAYLOADS[1] })).toBeVisible();
    await expect(page.locator("main img")).toHaveCount(0);
  });
});

test.describe("through the node itself", () => {
  test.use({
    nodeOptions: {
      config: [
        "[[jobs]]",
        'name = "hostile"',
        'cron = "0 0 1 1 *"',
        `run = { command = ["sh", "-c", "echo '${PAYLOADS[1]}' >&2; exit 1"] }`,
      ].join("\n"),
    },
  });

  test("hostile session ids are counted and the output of a failed command is shown as text", async ({
    node,
    page,
  }) => {
    const ids = PAYLOADS.map((text) => text.replace(/[^!-~]/g, "")).filter((id) => id.length <= 64);
    for (const sessionId of new Set(ids))
      expect(await node.ask("/api/viewer", { sessionId })).toEqual({ success: true });
    await open(page, "/viewer");
    await expect(page.locator(".figure").first()).toHaveText(`${new Set(ids).size} viewers`);
    await page.getByRole("button", { name: "Run now: hostile" }).click();
    await expect(page.locator("#history")).toContainText("failed");
    await expect(page.locator("#history .detail")).toContainText(PAYLOADS[1]);
  });
});
