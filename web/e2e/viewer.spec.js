// The viewer from end to end: a page in Chromium, the node's count, the dashboard that shows it.

import { expect, open, test } from "./support/test.js";

const figure = (/** @type {import("@playwright/test").Page} */ page) => page.locator(".figure").first();

test("vw_10 opening the gallery shows 1 viewer on the dashboard, closing it 0, by its bye", async ({
  node,
  page,
  context,
}) => {
  await open(page, "/");
  await expect(figure(page)).toHaveText("0 viewers");

  const gallery = await context.newPage();
  await open(gallery, "/gallery");
  await expect(figure(page)).toHaveText("1 viewer");
  await expect(page).toHaveTitle(/^Overview · \S+ · Syncline$/);
  await expect(page.locator("#viewers-since")).toContainText("watched since");

  await gallery.close();
  await expect(figure(page)).toHaveText("0 viewers");
  expect(await node.counter("syncline_viewer_byes_total")).toBe(1);
});

test("vw_05 the heartbeat comes from a worker of the package and needs one call", async ({ node, page }) => {
  const worker = page.waitForEvent("worker");
  await open(page, "/gallery");
  expect(new URL((await worker).url()).pathname).toBe("/pkg/viewer-worker.js");
  await expect.poll(() => node.counter("syncline_viewer_heartbeats_total")).toBeGreaterThanOrEqual(1);
  await expect(page.locator("#company")).toHaveText("You are watching");
});

test("vw_10 two tabs are two viewers, and the dashboard and the viewer page are none", async ({
  node,
  page,
  context,
}) => {
  await open(page, "/");
  const operators = await context.newPage();
  await open(operators, "/viewer");
  const tabs = [await context.newPage(), await context.newPage()];
  for (const tab of tabs) await open(tab, "/gallery");

  await expect(figure(page)).toHaveText("2 viewers");
  await expect(figure(operators)).toHaveText("2 viewers");
  await expect(tabs[0].locator("#company")).toHaveText("You and 1 other are watching");
  await tabs[0].close();
  await expect(figure(operators)).toHaveText("1 viewer");
  expect((await node.ask("/api/viewer")).viewers).toBe(1);
});

test("vw_05 a page that returns from the back/forward cache is counted again", async ({ node, page, plainTabs }) => {
  await open(page, "/");
  const tab = await plainTabs.newPage();
  await open(tab, `${node.url}/gallery`);
  await expect(figure(page)).toHaveText("1 viewer");
  await tab.evaluate(() => addEventListener("pageshow", (event) => (document.title = `returned ${event.persisted}`)));

  await tab.goto(`${node.url}/state`);
  await expect(figure(page)).toHaveText("0 viewers");

  // A page out of the cache is not loaded again, so there is no load event to wait for.
  await tab.goBack({ waitUntil: "commit" });
  await expect(tab).toHaveTitle("returned true");
  await expect(figure(page)).toHaveText("1 viewer");
  await expect(tab.locator("html")).toHaveAttribute("data-live", "connected");
});

test("vw_24 a hidden tab stays a viewer but is not in sight", async ({ node, page, plainTabs }) => {
  await open(page, "/viewer");
  const tab = await plainTabs.newPage();
  await open(tab, `${node.url}/gallery`);
  await expect(page.locator("#viewers-visible")).toHaveText("1");

  const other = await plainTabs.newPage();
  await other.bringToFront();
  await expect(page.locator("#viewers-visible")).toHaveText("0");
  await expect(page.locator("#viewers-hidden")).toHaveText("1");
  await expect(figure(page)).toHaveText("1 viewer");

  await tab.bringToFront();
  await expect(page.locator("#viewers-visible")).toHaveText("1");
});

test("vw_22 the chart says in words what it draws, and is read with the arrow keys", async ({ page, context }) => {
  await open(page, "/viewer");
  const gallery = await context.newPage();
  await open(gallery, "/gallery");
  const chart = page.locator("svg.chart");
  await expect(chart).toHaveAttribute("aria-label", /at most 1 viewer/);
  await chart.focus();
  await page.keyboard.press("End");
  await expect(page.locator(".chart-readout")).toHaveText(/^\d\d:\d\d:\d\d \S+: 1 viewer, 1 visible$/);
  await page.keyboard.press("Escape");
  await expect(page.locator(".chart-readout")).toHaveText(/^last /);
});

test("a hidden dashboard holds no connection and catches up when it is seen again", async ({
  node,
  plainTabs,
  context,
}) => {
  const dashboard = await plainTabs.newPage();
  await open(dashboard, `${node.url}/`);
  const front = await plainTabs.newPage();
  await front.bringToFront();
  await expect.poll(() => dashboard.evaluate(() => document.visibilityState)).toBe("hidden");

  await open(await context.newPage(), "/gallery");
  await expect.poll(async () => (await node.ask("/api/viewer")).viewers).toBe(1);
  expect(await figure(dashboard).textContent()).toBe("0 viewers");

  await dashboard.bringToFront();
  await expect(figure(dashboard)).toHaveText("1 viewer");
});

test("vw_30 three tabs of one user in a room are one person and three sessions", async ({ node, context }) => {
  const enter = async (/** @type {string | undefined} */ user) => {
    const tab = await context.newPage();
    await open(tab, "/");
    await tab.evaluate(async (user) => {
      // @ts-ignore: the address is the node's
      const { startViewer } = await import("/pkg/viewer.js");
      const handle = startViewer({ room: "doc 7", user });
      // Joined, not started again: the same place has one session.
      startViewer({ room: "doc 7", user });
      await handle.sessionId;
    }, user);
    return tab;
  };
  const room = () => node.ask("/api/viewer/rooms/doc%207");
  const tabs = [await enter("ann"), await enter("ann"), await enter("ann")];
  await expect.poll(async () => (await room()).sessions).toBe(3);
  expect((await room()).people).toBe(1);
  expect(await node.ask("/api/viewer/rooms/doc%207/people")).toMatchObject({ people: [{ user: "ann", sessions: 3, verified: false }] });

  const other = await enter(undefined);
  await expect.poll(async () => (await room()).people).toBe(2);
  await other.close();
  await tabs[0].close();
  await expect.poll(async () => (await room()).sessions).toBe(2);
  expect((await room()).people).toBe(1);
  for (const tab of tabs.slice(1)) await tab.close();
  await expect.poll(async () => (await room()).occupied).toBe(false);
});

test("vw_30 names of rooms and users are checked in the page", async ({ page }) => {
  await open(page, "/");
  const codes = await page.evaluate(async () => {
    // @ts-ignore: the address is the node's
    const { startViewer } = await import("/pkg/viewer.js");
    return [{ room: "" }, { room: "a\nb" }, { room: "r".repeat(129) }, { room: 7 }, { user: "ann" }].map((options) => {
      try {
        startViewer(/** @type {any} */ (options));
        return "started";
      } catch (error) {
        return /** @type {any} */ (error).code;
      }
    });
  });
  expect(codes).toEqual(Array(5).fill("invalid-argument"));
});
