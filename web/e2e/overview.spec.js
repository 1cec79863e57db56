// What pages tell an operator when something is wrong, far back, or not there at all.

import { send } from "../../apps/calls/e2e/call-box.js";
import { Node } from "./support/node.js";
import { expect, open, test } from "./support/test.js";
import { startThrottlingApi } from "./support/throttling.js";

/** A node with a queue whose keys die. */
const throttled = /** @type {typeof test} */ (
  test.extend({
    node: async (/** @type {any} */ {}, /** @type {any} */ use) => {
      const throttling = await startThrottlingApi();
      const node = await Node.start({ config: throttling.config });
      await use(node);
      await node.remove();
      await throttling.close();
    },
  })
);

// The front page said "Ready" and "at rest", and that two of the systems were not there yet.
throttled("cn_02 the overview lists what was given up, with the way to it, and says how every system is", async ({ page, node }) => {
  await node.ask("/api/queues/throttled", { kind: "new", keys: ["a", "b"] });
  await node.ask("/api/locks/nightly/acquire", { holder: "box-7", ttl_ms: 60_000 });
  const told = () => node.ask("/api/queues").then(({ queues }) => queues.find((/** @type {any} */ each) => each.name === "throttled").counts);
  await expect.poll(async () => (await told()).dead + (await told()).failed, { timeout: 60_000 }).toBeGreaterThan(0);
  await open(page, "/");
  await expect(page.getByText("Not in this version yet")).toHaveCount(0);
  await expect(page.locator("#lock-note")).toHaveText("1 lock held");
  await expect(page.locator("#outbox-note")).toHaveText("Nothing waits");
  const trouble = page.locator("#attention").getByRole("link", { name: /^Queue throttled: \d+ (dead|failed)/ });
  await expect(trouble).toBeVisible();
  await expect(page).toHaveTitle(/^\(\d\) Overview · \S+ · Syncline$/);
  await trouble.click();
  await expect(page.getByRole("heading", { level: 1, name: "Keys of throttled" })).toBeInViewport();
});

// "No call has these words", of a call that was there.
test("ss_09 a call that is further back is looked for on request, and nothing false is said before", async ({ page, node }) => {
  await send(node.url, "call_log", "oldest", { callerNumber: "+81-90-1111-2222" }, new Date(2026, 0, 1));
  for (let number = 1; number <= 120; number += 1) await send(node.url, "call_log", `c-${number}`, { callerNumber: `+81-3-0000-${number}` });
  await open(page, "/calls");
  await expect(page.locator("#calls .call")).toHaveCount(50);
  await page.getByLabel("Find a call").fill("1111-2222");
  await expect(page.locator("#calls-empty-words")).toHaveText("Not among the newest 50 calls.");
  await page.getByRole("button", { name: "Look through older calls" }).click();
  await expect(page.locator("#calls .call")).toHaveCount(1);
  await expect(page.locator("#calls time")).toHaveAttribute("title", /^1 Jan 2026, \d\d:\d\d:\d\d \S+/);
  await page.getByLabel("Find a call").fill("nobody at all");
  await expect(page.locator("#calls-empty-words")).toHaveText("No call has these words.");
});

test.describe("an address that is none", () => {
  test.use({ expectedErrors: /404/ });

  test("cn_04 is a page for a person and an error for a program", async ({ page, node }) => {
    const response = await page.goto("/nowhere");
    expect(response?.status()).toBe(404);
    await expect(page.getByRole("heading", { name: "Nothing here" })).toBeVisible();
    await page.getByRole("main").getByRole("link", { name: "Overview" }).click();
    await expect(page.getByRole("heading", { name: "Overview" })).toBeVisible();
    expect(await node.ask("/nowhere")).toMatchObject({ code: "not-found" });
  });
});

test.describe("a node that asks for a token", () => {
  test.use({ nodeOptions: { environment: { SYNCLINE_TOKEN: "a-token-that-is-long-enough" } }, expectedErrors: /401/ });

  test("cn_04 a session can be ended", async ({ page }) => {
    await page.goto("/");
    await page.locator("#token").fill("a-token-that-is-long-enough");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page.locator("#token")).toBeVisible();
    await expect(page.getByRole("button", { name: "Sign out" })).toBeHidden();
  });
});

// The page said "Connected", and a pressed button did nothing that could be seen.
test("vw_31 a node that stands still is noticed, and a button shows that its work is under way", async ({ page, node }) => {
  await open(page, "/viewer");
  node.freeze();
  const button = page.getByRole("button", { name: "Run now: picture" });
  await button.click();
  await expect(button).toHaveAttribute("aria-busy", "true");
  await expect(page.locator("html[data-live=reconnecting]")).toBeAttached({ timeout: 20_000 });
  node.thaw();
  await expect(page.locator("html[data-live=connected]")).toBeAttached({ timeout: 30_000 });
});

test("vw_32 a picture without a time does not empty the gallery", async ({ page }) => {
  const picture = { objectKey: "good", ts: "2026-01-01T00:00:00Z", url: "/assets/favicon.svg", viewers: 1, hash: "h" };
  const pictures = [{ ...picture, objectKey: "bad", ts: "yesterday", url: "/storage/pictures/bad" }, { ...picture, url: "/storage/pictures/good" }];
  await page.route("**/storage/pictures/*", (route) => route.fulfill({ path: "console/assets/favicon.svg", contentType: "image/svg+xml" }));
  await page.route("**/api/gallery*", (route) => route.fulfill({ json: { pictures } }));
  await open(page, "/gallery");
  await expect(page.locator("#picture")).toHaveAttribute("src", "/storage/pictures/good");
  await expect(page.locator("#picture-minute")).toHaveText(/\d\d:\d\d \S+$/);
});
