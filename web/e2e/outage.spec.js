// The node goes away and comes back; the pages say so and lose nothing that was on them.

import { expect, open, test } from "./support/test.js";

test.use({ expectedErrors: /net::ERR_|Failed to load resource/ });

test("a killed node shows as reconnecting with old data, and fresh data follows its return", async ({ node, page }) => {
  await open(page, "/");
  const figure = page.locator(".figure").first();
  await expect(figure).toHaveText("0 viewers");

  await node.kill();
  await expect(page.locator("html")).toHaveAttribute("data-live", "reconnecting");
  await expect(page.locator("#connection")).toHaveText(/^Reconnecting( in \d+ s)?$/);
  await expect(page.locator(".banner")).toContainText("The node does not answer. The figures are from");
  await expect(figure).toHaveText("0 viewers");

  await node.resume();
  await node.ask("/api/viewer", { sessionId: "came-during-the-outage" });
  await expect(page.locator("html")).toHaveAttribute("data-live", "connected", { timeout: 30_000 });
  await expect(page.locator(".banner")).toBeHidden();
  await expect(figure).toHaveText("1 viewer");
});

test("trying now does not wait for the countdown", async ({ node, page }) => {
  await page.clock.install();
  await open(page, "/viewer");
  // With the page's clock stopped, no countdown ends by itself.
  await page.clock.pauseAt(Date.now() + 60_000);
  await node.kill();
  await expect(page.locator(".banner")).toBeVisible();
  await node.resume();
  await page.getByRole("button", { name: "Try now" }).click();
  await expect(page.locator("html")).toHaveAttribute("data-live", "connected");
});

test("a refused read shows its reason and a way to try again", async ({ page }) => {
  await page.route("**/api/jobs", (route) =>
    route.fulfill({ status: 500, json: { error: "the store is read-only", code: "store" } }),
  );
  await page.goto("/");
  const alert = page.getByRole("alert").filter({ hasText: "The store is read-only." });
  await expect(alert).toBeVisible();
  await page.unroute("**/api/jobs");
  await alert.getByRole("button", { name: "Try again" }).click();
  await expect(page.locator("html")).toHaveAttribute("data-loaded", "true");
  await expect(alert).toBeHidden();
});

test("a page that was told it missed events reads everything again", async ({ page }) => {
  let streams = 0;
  let reads = 0;
  page.on("request", (request) => (reads += Number(request.url().endsWith("/api/jobs"))));
  await page.route("**/api/events?*", (route) => {
    streams += 1;
    if (streams > 1) return route.abort();
    const body = 'event: hello\ndata: {"node":"n","version":"0.0.0"}\n\nevent: lagged\ndata: {}\n\n';
    return route.fulfill({ contentType: "text/event-stream", body });
  });
  await page.goto("/");
  // Every later stream is refused, and a page with data does not read for want of a stream: so two reads are two reasons.
  await expect.poll(() => streams).toBeGreaterThan(1);
  expect(reads).toBe(2);
});
