// The console's controls: who is in which room, jobs that are paused and ended, an outbox that lets nothing leave, groups and the pace of a queue.

import { AxeBuilder } from "@axe-core/playwright";
import { expect, open, test } from "./support/test.js";

const SIZES = [{ width: 1280, height: 800 }, { width: 390, height: 800 }];

test.use({
  nodeOptions: {
    config: `[[jobs]]
name = "report"
cron = "0 0 1 1 *"
gate = "viewers:lobby"
run = { command = ["sleep", "600"] }
[[entities]]
name = "note"
settings = true
[[queues]]
name = "crawl"
workers = true
concurrency = 4
group = "{host}"
group_concurrency = 1
result_ttl_sec = 3600
`,
  },
  expectedErrors: /Transition was (aborted|skipped)/,
});

/** Accessible and no wider than the screen, light and dark, on a desk and on a phone. The pictures are for people to look at. */
async function expectFit(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ name) {
  const before = page.viewportSize();
  for (const size of SIZES) {
    for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: `e2e/results/screens/${name}-${size.width}-${colorScheme}.png`, fullPage: true });
      const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((each) => each.html).join(" | ")}`)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(size.width);
    }
  }
  if (before) await page.setViewportSize(before);
}

/** Presses Tab until the element is focused, as somebody without a mouse does, and then Enter. */
async function pressByKeyboard(/** @type {import("@playwright/test").Page} */ page, /** @type {import("@playwright/test").Locator} */ target) {
  await expect(target).toBeVisible();
  for (let press = 0; press < 120; press += 1) {
    if (await target.evaluate((element) => element === document.activeElement)) return page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
  }
  throw new Error(`the keyboard does not reach ${target}`);
}

const beat = (/** @type {import("./support/node.js").Node} */ node, /** @type {string} */ sessionId, /** @type {string} */ room, /** @type {string} */ user, rest = {}) =>
  node.ask("/api/viewer", { sessionId, room, user, ...rest });

test("cn_01 vw_30 rooms are searched on the node, and who is in one is shown as they come and go", async ({ page, node }) => {
  for (const n of [1, 2, 3]) await beat(node, `tab-${n}`, "lobby", "ann", { visible: n > 1 });
  await beat(node, "other", "doc <7>/a", "bob");
  await open(page, "/viewer");
  await page.getByRole("link", { name: "Rooms, and who is in them" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Rooms");
  const rows = page.locator("#listing tbody tr");
  await expect(rows).toHaveText([/doc <7>\/a.*1.*1.*1/s, /lobby.*1.*3.*2/s]);
  await page.getByLabel("Name").fill("LOBBY");
  await page.getByRole("button", { name: "Find" }).click();
  await expect(rows).toHaveCount(1);
  await expect(page).toHaveURL(/q=LOBBY/);
  await page.getByRole("link", { name: "lobby", exact: true }).click();
  const people = page.locator(".one tbody tr");
  await expect(people).toHaveText([/ann.*3.*2.*as the page says/s]);
  // Without a reload: the room is followed.
  await beat(node, "zoe-1", "lobby", "zoe");
  await expect(people).toHaveText([/ann/, /zoe/]);
  await expect(page.locator(".one .facts")).toContainText(/People\s*2/);
  await node.ask("/api/viewer", { sessionId: "zoe-1", bye: true });
  await expect(people).toHaveText([/ann/]);
  await expectFit(page, "rooms");
  // Many people are shown some at a time, and what somebody sends on shows the same.
  for (let n = 0; n < 60; n += 1) await beat(node, `p-${n}`, "lobby", `person-${String(n).padStart(2, "0")}`);
  await expect(people).toHaveCount(50);
  await pressByKeyboard(page, page.locator(".one").getByRole("link", { name: "Next people" }));
  await expect(people).toHaveCount(11);
  await expect(people.last()).toContainText("person-59");
  await open(page, page.url());
  await expect(people).toHaveCount(11);
  await page.getByRole("link", { name: "First people" }).click();
  await expect(people.first()).toContainText("ann");
});

test("cn_01 cn_05 vw_30 who may count a room and not see it is told how many are there, and not who", async ({ page, node }) => {
  await beat(node, "tab-1", "lobby", "ann");
  await page.route("**/api/session", (route) => route.fulfill({ json: { required: true, authenticated: true, kind: "key", name: "reader", grants: ["viewer:*:count"] } }));
  await open(page, "/viewer/rooms?one=lobby");
  await expect(page.locator(".one")).toContainText("Who they are is for those with the grant to see it.");
  await expect(page.locator(".one")).not.toContainText("ann");
  await expect(page.locator(".one .facts")).toContainText(/People\s*1/);
});

test("cn_01 vw_31 a job is paused, resumed, run and its run ended, by keyboard, and the overview says so in between", async ({ page, node }) => {
  const questions = /** @type {string[]} */ ([]);
  page.on("dialog", (dialog) => (questions.push(dialog.message()), dialog.accept()));
  const job = async () => (await node.ask("/api/jobs")).jobs[0];
  await open(page, "/viewer");
  const row = page.locator("#jobs tr");
  await expect(row.getByRole("link", { name: "lobby" })).toHaveAttribute("href", "/viewer/rooms?one=lobby");
  await pressByKeyboard(page, page.getByRole("button", { name: "Pause: report" }));
  await expect(page.getByRole("button", { name: "Resume: report" })).toBeFocused();
  await expect(row).toContainText("paused");
  await open(page, "/");
  await expect(page.locator("#jobs")).toContainText("paused");
  await page.locator("#attention").getByRole("link", { name: "Job report is paused" }).click();
  // Pausing skips firings; by hand it runs.
  await expect(page.getByRole("button", { name: "Cancel run: report" })).toBeHidden();
  await pressByKeyboard(page, page.getByRole("button", { name: "Run now: report" }));
  await expect(page.getByRole("button", { name: "Cancel run: report" })).toBeVisible();
  await expectFit(page, "jobs");
  await pressByKeyboard(page, page.getByRole("button", { name: "Resume: report" }));
  await expect(page.getByRole("button", { name: "Pause: report" })).toBeVisible();
  await pressByKeyboard(page, page.getByRole("button", { name: "Cancel run: report" }));
  await expect(page.getByRole("button", { name: "Cancel run: report" })).toBeHidden();
  await expect(page.locator("#history tr").first()).toContainText("cancelled by hand");
  expect(await job()).toMatchObject({ running: false, last: { state: "failed" } });
  expect(questions).toHaveLength(2);
  // A pause through another page is seen without a reload.
  await node.ask("/api/jobs/report/pause", {});
  await expect(page.getByRole("button", { name: "Resume: report" })).toBeVisible();
});

test("cn_01 cn_05 who may only read jobs and the outbox has no button for them", async ({ page }) => {
  await page.route("**/api/session", (route) => route.fulfill({ json: { required: true, authenticated: true, kind: "key", name: "reader", grants: ["job:*:read", "outbox:*:read"] } }));
  await open(page, "/viewer");
  await expect(page.locator("#jobs tr")).toContainText("report");
  await expect(page.locator("#jobs").getByRole("button")).toHaveCount(0);
  await open(page, "/outbox");
  await expect(page.locator("#outbox-pending")).toHaveText("0");
  await expect(page.getByRole("button", { name: "Pause: Outbox" })).toBeHidden();
});

test("cn_01 the outbox is paused and resumed, and every page that tells of it says so", async ({ page, node }) => {
  page.on("dialog", (dialog) => dialog.accept());
  await node.put("/api/entities/note/n-1", { text: "hello" });
  await open(page, "/outbox");
  await pressByKeyboard(page, page.getByRole("button", { name: "Pause: Outbox" }));
  await expect(page.locator("#outbox-note")).toHaveText("Paused: 1 change held back");
  await expectFit(page, "outbox");
  await open(page, "/");
  await expect(page.locator("#outbox-note")).toHaveText("Paused: nothing is sent");
  await page.locator("#attention").getByRole("link", { name: "The outbox is paused: nothing is sent" }).click();
  await pressByKeyboard(page, page.getByRole("button", { name: "Resume: Outbox" }));
  await expect(page.locator("#outbox-note")).toHaveText("1 change on the way");
  expect(await node.ask("/api/outbox")).toMatchObject({ pending: 1, paused: false });
});

test("cn_01 qu_33 the pace of a queue is set and given back, and keys are added with an input, a group and a time", async ({ page, node }) => {
  const status = () => node.ask("/api/queues/crawl");
  // A queue has groups from the first key that is in one.
  await node.ask("/api/queues/crawl", { keys: ["https://z.example/1"] });
  await open(page, "/queue");
  const queue = page.locator(".queue").filter({ hasText: "crawl" });
  await expect(queue).toContainText("results kept for 1 h");
  await pressByKeyboard(page, queue.getByLabel("Pace of crawl"));
  await queue.getByLabel("Keys at once").fill("7");
  await queue.getByLabel("Interval in ms", { exact: true }).fill("250");
  await queue.getByLabel("Keys of a group at once").fill("2");
  await expectFit(page, "queue-pace");
  await pressByKeyboard(page, queue.getByRole("button", { name: "Set on all nodes" }));
  await expect(queue).toContainText("7 at once, 250 ms apart");
  await expect(queue).toContainText("set by hand");
  expect(await status()).toMatchObject({ concurrency: 7, groups: { concurrency: 2 } });
  await queue.getByLabel("Pace of crawl").click();
  await queue.getByRole("button", { name: "As configured" }).click();
  await expect(queue).not.toContainText("set by hand");
  expect(await status()).toMatchObject({ concurrency: 4, groups: { concurrency: 1 } });

  await queue.getByLabel("What keys of crawl carry").click();
  await queue.getByLabel("Keys", { exact: true }).fill("https://a.example/1");
  await queue.getByLabel("Input, JSON").fill("{ no");
  await queue.getByRole("button", { name: "Add" }).click();
  await expect(queue.getByRole("status")).toHaveText("The input is no JSON.");
  await queue.getByLabel("Input, JSON").fill('{ "depth": 2 }');
  await queue.getByLabel("Group", { exact: true }).fill("slow");
  await queue.getByLabel("Not before").fill("2099-01-01T00:00:00");
  await queue.getByRole("button", { name: "Add" }).click();
  await expect(queue.getByRole("status")).toHaveText(/^1 added/);
  await queue.getByRole("link", { name: "retrying" }).click();
  await page.getByRole("link", { name: "https://a.example/1" }).click();
  await expect(page.locator(".one")).toContainText("slow");
  await expect(page.locator(".one")).toContainText('"depth": 2');
  await expectFit(page, "queue-key");
});

test("cn_01 cn_05 qu_33 groups are listed, searched, paused and resumed one by one and together", async ({ page, node }) => {
  const questions = /** @type {string[]} */ ([]);
  page.on("dialog", (dialog) => (questions.push(dialog.message()), dialog.accept()));
  await node.ask("/api/queues/crawl", { keys: ["https://a.example/1", "https://a.example/2", "https://b.example/1", "https://shop.example/1"] });
  const paused = async () => (await node.ask("/api/queues/crawl/groups")).groups.filter((/** @type {any} */ group) => group.paused).map((/** @type {any} */ group) => group.name);
  await open(page, "/queue");
  await page.getByRole("link", { name: "Groups of crawl" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Groups of crawl");
  await expect(page.locator("#pace")).toHaveText("Each group: 1 at once.");
  const rows = page.locator(".listed tbody tr");
  await expect(rows).toHaveText([/a\.example.*2.*0/s, /b\.example.*1.*0/s, /shop\.example.*1.*0/s]);
  await page.getByLabel("Select a.example").check();
  await pressByKeyboard(page, page.getByRole("button", { name: "Pause", exact: true }));
  await expect(rows.first()).toContainText("paused by hand");
  expect(await paused()).toEqual(["a.example"]);
  await expectFit(page, "queue-groups");
  await page.getByLabel("Name").fill("SHOP");
  await page.getByRole("button", { name: "Find" }).click();
  await expect(rows).toHaveCount(1);
  await page.getByRole("button", { name: "Pause all" }).click();
  await expect(page.locator(".told")).toHaveText("1 paused.");
  expect(await paused()).toEqual(["a.example", "shop.example"]);
  await page.getByRole("link", { name: "Clear" }).click();
  await expect(rows).toHaveCount(3);
  await page.getByRole("button", { name: "Resume all" }).click();
  await expect(page.locator(".told")).toHaveText("3 resumed.");
  expect(await paused()).toEqual([]);
  expect(questions[0]).toMatch(/^Pause the group a\.example on all nodes\?/);

  await page.route("**/api/session", (route) => route.fulfill({ json: { required: true, authenticated: true, kind: "key", name: "reader", grants: ["queue:*:read"] } }));
  await open(page, "/queue/groups?queue=crawl");
  await expect(rows).toHaveCount(3);
  await expect(page.getByRole("button", { name: /Pause|Resume/ })).toHaveCount(0);
  await open(page, "/queue");
  await expect(page.getByLabel("Pace of crawl")).toBeHidden();
});
