// Every live list in the worst order: the page asks, something changes, the news arrive, and only then the answer, which is
// older. What the page shows in the end must be how it is.

import { send } from "../../apps/calls/e2e/call-box.js";
import { Node } from "./support/node.js";
import { expect, test as base } from "./support/test.js";
import { inventedIsbns, startUpstreams } from "../../apps/stand-ins/e2e/upstreams.js";

const test = /** @type {typeof base} */ (
  base.extend({
    node: async (/** @type {any} */ {}, /** @type {any} */ use) => {
      const upstreams = await startUpstreams("--share", "library=1");
      const config = `[[queues]]\nname = "words"\nurl = "${upstreams.url}/words/{key}"\ninterval_ms = 10\n`;
      const node = await Node.start({ config, environment: upstreams.environment });
      await use(node);
      await node.remove();
      await upstreams.remove();
    },
  })
);

/**
 * Lets the node answer `path` at once, and hands the answer on only when release() is called.
 * @param {import("@playwright/test").Page} page @param {(url: URL) => boolean} isMeant
 */
async function hold(page, isMeant) {
  /** @type {(value?: unknown) => void} */
  let release = () => {};
  const released = new Promise((resolve) => (release = resolve));
  /** @type {(value?: unknown) => void} */
  let note = () => {};
  const answered = new Promise((resolve) => (note = resolve));
  await page.route(isMeant, async (route) => {
    const response = await route.fetch();
    const body = await response.body();
    note();
    await released;
    await route.fulfill({ response, body });
  });
  return { answered, release };
}

const at = (/** @type {string} */ path) => (/** @type {URL} */ url) => url.pathname === path;
const loaded = (/** @type {import("@playwright/test").Page} */ page) =>
  expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();

test("bk_08 books that are found while the shelf is being read stay found", async ({ page, node }) => {
  const isbns = await inventedIsbns(3);
  const held = await hold(page, at("/api/shelf/books"));
  await page.goto("/shelf");
  await held.answered;
  await node.ask("/api/shelf/scan", { isbns });
  const books = page.locator("#books .book");
  await expect(books).toHaveCount(3);
  await expect(books.getByRole("heading", { name: "Looking it up" })).toHaveCount(0, { timeout: 30_000 });
  held.release();
  await loaded(page);
  await expect(books).toHaveCount(3);
  await expect(books.getByRole("heading", { name: "Looking it up" })).toHaveCount(0);
  await expect(page.locator("#books-count")).toHaveText("3 books");
});

test("bk_08 a search that ends before its own answer is shown as ended", async ({ page }) => {
  await page.goto("/shelf");
  await loaded(page);
  const held = await hold(page, at("/api/shelf/search"));
  await page.getByLabel("Author").fill("somebody");
  await page.getByRole("button", { name: "Search and save" }).click();
  await held.answered;
  const search = page.locator("#searches li").first();
  await expect(search).toContainText(/\d books?/, { timeout: 30_000 });
  held.release();
  await expect(page.locator("#search-creator")).toHaveValue("");
  await expect(search).toContainText(/\d books?/);
});

test("qu_24 keys that are done while the queues are being read are shown as done", async ({ page, node }) => {
  for (const path of ["/queue", "/"]) {
    const held = await hold(page, at("/api/queues"));
    await page.goto(path);
    await held.answered;
    const keys = [`a-of-${path.length}`, `b-of-${path.length}`];
    await node.ask("/api/queues/words", { keys });
    const told = () => node.ask("/api/queues").then(({ queues }) => queues.find((/** @type {any} */ each) => each.name === "words").counts);
    await expect.poll(async () => (await told()).waiting + (await told()).running + (await told()).retrying).toBe(0);
    const { done } = await told();
    held.release();
    await loaded(page);
    const words = page.locator(".queue").filter({ has: page.getByRole("heading", { name: "words" }) });
    if (path === "/queue") await expect(words.locator(".counts div", { hasText: "done" }).locator("dd")).toHaveText(String(done));
    else await expect(page.locator("#queue-note")).toHaveText(/^7 queues, at rest/);
    await page.unrouteAll({ behavior: "ignoreErrors" });
  }
});

test("ss_09 a call that comes while calls are being read stays", async ({ page, node }) => {
  const calls = await hold(page, at("/api/entities/call_log"));
  await page.goto("/calls");
  await calls.answered;
  await send(node.url, "call_log", "c-1", { callerNumber: "+81-90-0000-0001", durationSec: 12 });
  await expect(page.locator("#calls .call")).toHaveCount(1);
  calls.release();
  await loaded(page);
  await expect(page.locator("#calls .call")).toHaveCount(1);
});

test("ss_23 a change that is made while the outbox is being read stays", async ({ page, node }) => {
  const outbox = await hold(page, at("/api/outbox"));
  await page.goto("/outbox");
  await outbox.answered;
  await fetch(`${node.url}/api/entities/routing_rule/r-1`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: "Night" }),
  });
  await expect(page.locator("#outbox-pending")).toHaveText("1");
  outbox.release();
  await loaded(page);
  await expect(page.locator("#outbox-pending")).toHaveText("1");
});

test("vw_30 somebody who comes while the viewers are being read is counted", async ({ page, node }) => {
  for (const path of ["/", "/viewer"]) {
    const held = await hold(page, (url) => url.pathname === "/api/viewer");
    await page.goto(path);
    await held.answered;
    const before = (await node.ask("/api/viewer")).viewers;
    const sessionId = `00000000-0000-4000-8000-00000000000${before + 1}`;
    await node.ask("/api/viewer", { sessionId, visible: true });
    await expect(page.locator("#viewers")).toHaveText(String(before + 1));
    held.release();
    await loaded(page);
    await expect(page.locator("#viewers")).toHaveText(String(before + 1));
    await page.unrouteAll({ behavior: "ignoreErrors" });
  }
});
