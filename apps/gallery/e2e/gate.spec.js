// The gate in Chromium: the schedule runs while a page is open and rests while none is, and the pages say why.

import { expect, open, test } from "../../../web/e2e/support/test.js";

/** The configuration of one picture job. */
const job = ({ cron = "*/2 * * * * *" } = {}) =>
  ["[[jobs]]", 'name = "picture"', `cron = "${cron}"`, 'gate = "viewers"', "cost_usd = 0.002", 'run = "picture"'].join(
    "\n",
  );

test.use({ nodeOptions: { config: job() } });

const newest = (/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) => page.locator("#history tr").first();

test("vw_10 open the gallery: the next tick runs; close it: skipped, with the reason on the page", async ({
  page,
  context,
}) => {
  await open(page, "/viewer");
  await expect(newest(page)).toContainText("skipped");
  await expect(newest(page)).toContainText("no viewer");

  const gallery = await context.newPage();
  await open(gallery, "/gallery");
  await expect(page.locator("#history")).toContainText("watched");
  await expect(page.locator(".timeline .mark.is-done").first()).toBeAttached();
  await expect(gallery.locator("#picture")).toHaveAttribute("src", /^\/storage\/pictures\//);
  await expect
    .poll(() => gallery.locator("#picture").evaluate((image) => /** @type {HTMLImageElement} */ (image).naturalWidth))
    .toBeGreaterThan(0);
  await expect(gallery.locator("#picture-viewers")).toHaveText("made for 1 viewer");
  await expect(gallery.locator("#next")).toHaveText(/^Next picture in 00:0\d while you watch$|being made|any moment/);

  await gallery.close();
  await expect(newest(page)).toContainText("no viewer");
});

test("vw_09 skipped ticks are money saved, runs are money spent", async ({ page, context }) => {
  await open(page, "/viewer");
  await expect(page.locator("#saved")).toHaveText(/^\$0\.0\d\d$/);
  await expect(page.locator("#skips")).toContainText("no viewer");
  await expect(page.locator("#spent")).toHaveText("$0.00");
  await open(await context.newPage(), "/gallery");
  await expect(page.locator("#spent")).toHaveText(/^\$0\.0\d\d$/);
  await expect(page.locator("#spent-note")).toHaveText(/^spent on \d+ runs?/);
});

test("vw_20 a job is run by hand with nobody watching, and the table says so", async ({ page }) => {
  await open(page, "/viewer");
  const row = page.locator("#jobs tr");
  await expect(row).toContainText("every 2 seconds");
  await expect(row).toContainText("while somebody watches");
  await expect(row).toContainText("skipped unless watched");
  await row.getByRole("button", { name: "Run now: picture" }).click();
  await expect(page.locator("#history")).toContainText("by hand");
});

test.describe("refused", () => {
  test.use({ expectedErrors: /status of 409/ });

  test("vw_20 a refused run shows why", async ({ page }) => {
    await open(page, "/viewer");
    await page.route("**/api/jobs/picture/run", (route) =>
      route.fulfill({ status: 409, json: { error: "picture is still running", code: "still-running" } }),
    );
    await page.getByRole("button", { name: "Run now: picture" }).click();
    await expect(page.locator("#jobs").getByRole("alert")).toHaveText("Picture is still running.");
  });
});

test.describe("with runs by hand alone", () => {
  test.use({ nodeOptions: { config: job({ cron: "0 0 1 1 *" }) } });

  test("vw_22 the history turns its pages and the newest one follows the schedule", async ({ node, page }) => {
    const run = () => node.ask("/api/jobs/picture/run", {});
    const records = async () => (await node.ask("/api/jobs/picture/history?limit=100")).runs;
    // How an overlapping request is recorded is the schedule's business; here only the number of records matters.
    await expect.poll(async () => (await run(), (await records()).length), { intervals: [20] }).toBeGreaterThan(22);
    await expect.poll(async () => (await node.ask("/api/jobs")).jobs[0].running).toBe(false);
    const onSecondPage = (await records()).length - 20;

    await open(page, "/viewer");
    const rows = page.locator("#history tr");
    await expect(rows).toHaveCount(20);
    const first = await rows.allInnerTexts();
    await page.getByRole("button", { name: "Older" }).click();
    await expect(rows).toHaveCount(onSecondPage);
    await expect(page.locator("#history-place")).toHaveText("page 2");
    await expect(page.getByRole("button", { name: "Older" })).toBeDisabled();

    await page.getByRole("button", { name: "Newer" }).click();
    await expect(page.locator("#history-place")).toHaveText("page 1");
    await expect.poll(() => rows.allInnerTexts()).toEqual(first);
    await run();
    await expect.poll(async () => (await rows.allInnerTexts())[1]).toBe(first[0]);
  });
});

test("vw_22 the timeline is read tick by tick with the arrow keys", async ({ page }) => {
  await open(page, "/viewer");
  await expect(page.locator(".timeline .mark").first()).toBeAttached();
  await page.locator("svg.timeline").focus();
  await page.keyboard.press("ArrowLeft");
  await expect(page.locator(".timeline-head output")).toHaveText(/^\d\d:\d\d:\d\d skipped: no viewer$/);
});
