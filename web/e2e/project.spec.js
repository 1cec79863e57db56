// The project page: one tab types and saves, the other follows along, takes over when asked or when the first one dies.

import { expect, open, test } from "./support/test.js";

const editor = (/** @type {import("@playwright/test").Page} */ page) => page.getByRole("textbox", { name: "Document" });
const holder = (/** @type {import("@playwright/test").Page} */ page) => page.locator("#holder");
const saved = (/** @type {import("@playwright/test").Page} */ page) => page.locator("#save-state");

test("lk_12 what is typed is saved by itself and is there after a reload", async ({ page }) => {
  await open(page, "/project");
  await expect(holder(page)).toHaveText("This tab");
  await expect(page.locator("#holder-note")).toHaveText(/^since \d\d:\d\d:\d\d, by Web Lock$/);
  await expect(saved(page)).toHaveText("Nothing to save yet");
  await editor(page).fill("the first words");
  await expect(saved(page)).toHaveText(/^Saved at/);
  await page.reload();
  await expect(editor(page)).toHaveValue("the first words");
  await expect(holder(page)).toHaveText("This tab");
  await expect(page.locator("#storage-words")).toHaveText(/ of .* in use$/);
});

test("lk_12 words typed right before the page is closed are found again", async ({ page, context }) => {
  await open(page, "/project");
  await expect(holder(page)).toHaveText("This tab");
  await editor(page).fill("stored");
  await expect(saved(page)).toHaveText(/^Saved at/);
  await editor(page).fill("stored, and not yet stored");
  await page.close({ runBeforeUnload: true });
  const next = await context.newPage();
  await open(next, "/project");
  await expect(editor(next)).toHaveValue("stored, and not yet stored");
  await expect(saved(next)).toHaveText(/^Saved at/);
});

test("lk_12 a second tab is read-only, follows along, takes over when asked, and the first one gives way", async ({
  page,
  context,
}) => {
  await open(page, "/project");
  await editor(page).fill("one");
  await expect(saved(page)).toHaveText(/^Saved at/);

  const second = await context.newPage();
  await open(second, "/project");
  await expect(holder(second)).toHaveText("Another tab");
  await expect(second.locator("#notice")).toContainText("Read-only: another tab holds this project.");
  await expect(editor(second)).toHaveAttribute("readonly", "");
  await expect(second.locator("#holder-note")).toHaveText(/^since .*by Web Lock$/);
  await editor(page).fill("one two");
  await expect(editor(second)).toHaveValue("one two");

  // Typed and not yet saved: handed over all the same.
  await editor(page).fill("one two three");
  await second.getByRole("button", { name: "Take over" }).click();
  await expect(holder(second)).toHaveText("This tab");
  await expect(editor(second)).toHaveValue("one two three");
  await expect(holder(page)).toHaveText("Another tab");
  await expect(page.locator("#notice")).toContainText("Another tab took this project over.");
  await editor(second).fill("four");
  await expect(editor(page)).toHaveValue("four");

  // Back to the first one when the second goes.
  await second.close();
  await expect(holder(page)).toHaveText("This tab");
});

test("lk_12 lk_21 a crashed tab is followed when its lease has ended, with what it had saved", async ({ page, plainTabs, node }) => {
  const first = await plainTabs.newPage();
  await open(first, `${node.url}/project`);
  await editor(first).fill("before the crash");
  await expect(saved(first)).toHaveText(/^Saved at/);
  const second = await plainTabs.newPage();
  await open(second, `${node.url}/project`);
  await expect(holder(second)).toHaveText("Another tab");
  const cdp = await plainTabs.newCDPSession(first);
  cdp.send("Page.crash").catch(() => {});
  await expect(holder(second)).toHaveText("This tab", { timeout: 25_000 });
  await expect(editor(second)).toHaveValue("before the crash");
  await expect(editor(second)).not.toHaveAttribute("readonly");
});

test("lk_24 the back button brings the page back with its lock, a frozen tab gives it away and stops saving", async ({
  plainTabs,
  node,
}) => {
  const tab = await plainTabs.newPage();
  await open(tab, `${node.url}/project`);
  await editor(tab).fill("before I left");
  await expect(saved(tab)).toHaveText(/^Saved at/);
  await tab.goto(`${node.url}/state`);
  await tab.goBack({ waitUntil: "commit" });
  await expect(holder(tab)).toHaveText("This tab");
  await expect(editor(tab)).toHaveValue("before I left");
  await editor(tab).fill("and came back");
  await expect(saved(tab)).toHaveText(/^Saved at/);

  const other = await plainTabs.newPage();
  await open(other, `${node.url}/project`);
  await expect(holder(other)).toHaveText("Another tab");
  const cdp = await plainTabs.newCDPSession(tab);
  await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
  await expect(holder(other)).toHaveText("This tab");
  await editor(other).fill("written while it was frozen");
  await expect(saved(other)).toHaveText(/^Saved at/);
  await cdp.send("Page.setWebLifecycleState", { state: "active" });
  await expect(holder(tab)).toHaveText("Another tab");
  await expect(editor(tab)).toHaveValue("written while it was frozen");
});

test("lk_12 the project is let go by hand and the other tab has it", async ({ page, context }) => {
  await open(page, "/project");
  await expect(holder(page)).toHaveText("This tab");
  const second = await context.newPage();
  await open(second, "/project");
  await expect(holder(second)).toHaveText("Another tab");
  await page.getByRole("button", { name: "Let go" }).click();
  await expect(holder(second)).toHaveText("This tab");
  await expect(page.locator("#notice")).toContainText("This tab let the project go.");
});

test.describe("on plain http", () => {
  // The browser says that it ignores this header where it cannot trust the origin.
  test.use({ expectedErrors: /Cross-Origin-Opener-Policy header has been ignored/ });
  test.use({ nodeOptions: { config: 'allowed_hosts = ["lan.test:7391"]', environment: { SYNCLINE_LISTEN: "127.0.0.1:7391" } } });

  test("lk_26 the page works on plain http, by IndexedDB", async ({ node, context }) => {
    const url = node.url.replace("127.0.0.1", "lan.test");
    const [page, second] = [await context.newPage(), await context.newPage()];
    await open(page, `${url}/project`);
    await expect(page.locator("#holder-note")).toHaveText(/by IndexedDB$/);
    await editor(page).fill("over plain http");
    await expect(saved(page)).toHaveText(/^Saved at/);
    await open(second, `${url}/project`);
    await expect(holder(second)).toHaveText("Another tab");
    await expect(editor(second)).toHaveValue("over plain http");
    await page.close();
    await expect(holder(second)).toHaveText("This tab");
  });
});
