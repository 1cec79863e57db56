// The console's pages about access: who one is, keys and what was taken back (AC-04, AC-11), the audit (AC-13), and what a browser with a
// key that may only look is offered (CN-05).

import { AxeBuilder } from "@axe-core/playwright";
import { OWNER, openSites, tokenFor } from "./support/sites.js";
import { expect, test } from "./support/test.js";

/** @typedef {import("@playwright/test").Page} Page */

test.use({ expectedErrors: /Failed to load resource|net::ERR_/ });

const WIDTHS = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
];

/** Signs in at a node and waits until the page has its data. */
async function signIn(/** @type {Page} */ page, /** @type {string} */ address, /** @type {string} */ credential) {
  await page.goto(address);
  await page.getByLabel(/^(Token|トークン)$/).fill(credential);
  await page.keyboard.press("Enter");
  await expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();
}

/** Fits a phone, and axe has nothing to say, in light and dark. */
async function looksWell(/** @type {Page} */ page, /** @type {string} */ name) {
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const size of WIDTHS) {
      await page.setViewportSize(size);
      // The page that one is on can be seen in the navigation, as soon as that has followed the new size.
      await expect(async () => {
        const current = await page.locator(".site nav [aria-current]").boundingBox();
        if (current) expect([current.x >= 0, current.x + current.width <= size.width]).toEqual([true, true]);
      }).toPass({ timeout: 10_000 });
      await page.evaluate(() => scrollTo(0, 0));
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(size.width);
      await page.screenshot({ path: `e2e/results/screens/${name}-${size.width}-${colorScheme}.png`, fullPage: true });
    }
    const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`)).toEqual([]);
  }
}

test("ac_04 ac_11 the owner makes a key, sees its use, takes it back, and takes back what a visitor has", async ({ page }) => {
  const { node, close } = await openSites();
  await signIn(page, `${node.url}/access`, OWNER);
  await expect(page.locator("#who")).toHaveText("owner");
  await expect(page.locator("#you-kind")).toHaveText("owner");
  await expect(page.locator("#keys tr")).toHaveCount(2);

  await page.getByText("Make a key").click();
  await page.locator("#key-name").fill("wallboard");
  await page.locator("#key-grants").fill("queue:*:read\nlock:*:see");
  await page.getByRole("button", { name: "Make", exact: true }).click();
  const key = await page.locator("#key-made code").innerText();
  expect(key).toMatch(/^slk_[\w-]{43}$/);
  await page.getByRole("button", { name: "I have kept it" }).click();
  await expect(page.locator("#key-made")).toBeHidden();
  const row = page.locator("#keys tr", { hasText: "wallboard" });
  await expect(row).toContainText("never");
  const shown = (/** @type {string} */ path) => fetch(node.url + path, { headers: { authorization: `Bearer ${key}` } });
  expect((await shown("/api/queues")).status).toBe(200);
  await page.reload();
  await expect(row).toContainText(/just now|ago/);
  await looksWell(page, "access");

  page.on("dialog", (dialog) => dialog.accept());
  await row.getByRole("button", { name: "Remove wallboard" }).click();
  await expect(row).toHaveCount(0);
  await expect.poll(async () => (await (await shown("/api/queues")).json()).code).toBe("token-revoked");

  const token = tokenFor("7");
  const visit = () => fetch(`${node.url}/api/state/cart-7`, { headers: { authorization: `Bearer ${token}` } });
  expect((await visit()).status).toBe(200);
  await page.getByText("Take back", { exact: true }).first().click();
  await page.locator("#revoke-issuer").selectOption("shop");
  await page.locator("#revoke-value").fill("7");
  await page.locator("#revoke-form").getByRole("button").click();
  await expect(page.locator("#revocations tr", { hasText: "subject 7" })).toBeVisible();
  expect((await (await visit()).json()).code).toBe("token-revoked");
  await page.getByRole("button", { name: "Accept again 7" }).click();
  await expect(page.locator("#revocations tr", { hasText: "subject 7" })).toHaveCount(0);
  expect((await visit()).status).toBe(200);
  await close();
});

test("ac_13 the audit is searched, filtered and paged by its address, and new entries come by themselves", async ({ page }) => {
  const { node, close } = await openSites();
  const owner = { authorization: `Bearer ${OWNER}`, "content-type": "application/json" };
  const add = (/** @type {string} */ name) => fetch(`${node.url}/api/keys`, { method: "POST", headers: owner, body: JSON.stringify({ name, may: ["queue:*:read"] }) });
  for (let n = 0; n < 60; n++) expect((await add(`key-${n}`)).status).toBe(201);
  await signIn(page, `${node.url}/audit?system=key`, OWNER);
  const rows = page.locator("#entries tr");
  await expect(rows).toHaveCount(50);
  await expect(rows.first()).toContainText("key:key-59:manage");
  await looksWell(page, "audit");

  await page.getByRole("button", { name: "Older" }).click();
  await expect(rows.first()).toContainText("key:key-9:manage");
  expect(new URL(page.url()).searchParams.get("after")).not.toBeNull();
  await page.goBack();
  await expect(rows.first()).toContainText("key:key-59:manage");

  // Who signed in is there, too; a refusal is heard of without a reload.
  await page.goto(`${node.url}/audit`);
  await expect(rows.first()).toContainText("session:sign-in");
  await fetch(`${node.url}/api/kv`, { headers: { authorization: `Bearer ${tokenFor("7")}` } });
  await expect(rows.first()).toContainText("refused", { timeout: 20_000 });
  await page.getByLabel("Outcome").selectOption("refused");
  await expect(rows).toHaveCount(1);
  expect(new URL(page.url()).search).toBe("?outcome=refused");
  await rows.first().locator("summary").click();
  await expect(rows.first()).toContainText("person shop / 7");
  // Whoever gets the address sees the same.
  await page.goto(`${node.url}/audit?q=key-17`);
  await expect(rows).toHaveCount(1);
  await expect(page.getByLabel("Search")).toHaveValue("key-17");
  await page.getByRole("link", { name: "Clear" }).click();
  await expect(rows).toHaveCount(50);
  await page.goto(`${node.url}/audit?q=nothing-like-this`);
  await expect(page.locator("#audit-empty")).toContainText("Nothing fits");
  await close();
});

test("cn_05 a key that may only look sees everything it may, and no button that it may not press", async ({ page }) => {
  const { node, dashboard, close } = await openSites();
  const owner = { authorization: `Bearer ${OWNER}`, "content-type": "application/json" };
  await fetch(`${node.url}/api/queues/words`, { method: "POST", headers: owner, body: JSON.stringify({ kind: "new", keys: ["a"] }) });
  /** @type {string[]} */
  const refused = [];
  page.on("response", (response) => response.status() === 403 && refused.push(response.url()));
  await signIn(page, node.url, dashboard);
  await expect(page.locator("#who")).toHaveText("dashboard");
  for (const path of ["/", "/queue", "/viewer", "/outbox", "/lock", "/state", "/access", "/audit"]) {
    await page.goto(node.url + path);
    await expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();
    await expect(page.locator("main > .error")).toBeHidden();
  }
  expect(refused).toEqual([]);
  await page.goto(`${node.url}/queue`);
  await expect(page.locator(".queue", { hasText: "words" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Add" })).toHaveCount(0);
  await page.goto(`${node.url}/viewer`);
  await expect(page.locator("#jobs tr").first()).toBeVisible();
  await expect(page.getByRole("button", { name: /Run now/ })).toHaveCount(0);
  await page.goto(`${node.url}/access`);
  await expect(page.locator("#you-kind")).toHaveText("key");
  await expect(page.locator("#you-grants")).toContainText("queue:*:read");
  await expect(page.locator("#keys-part")).toBeHidden();
  await expect(page.getByText("Make a key")).toBeHidden();
  await expect(page.locator("header nav a[href='/audit']")).toBeHidden();
  // And the way out.
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("This node asks for a token");
  await close();
});

test("cn_04 the pages about access speak Japanese to a browser that asks for it", async ({ context }) => {
  const browser = /** @type {import("@playwright/test").Browser} */ (context.browser());
  const { node, close } = await openSites();
  const japanese = await browser.newContext({ locale: "ja-JP", viewport: { width: 390, height: 844 } });
  const page = await japanese.newPage();
  await signIn(page, `${node.url}/access`, OWNER);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("アクセス");
  await expect(page.locator("html")).toHaveAttribute("lang", "ja");
  await expect(page.locator("#keys tr").first()).toContainText("syncline.toml");
  await looksWell(page, "access-ja");
  await page.goto(`${node.url}/audit`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("監査");
  await expect(page.locator("#entries tr").first()).toContainText("完了");
  await looksWell(page, "audit-ja");
  await page.goto(`${node.url}/audit?q=nothing-like-this`);
  await expect(page.locator("#audit-empty")).toContainText("一致するものはありません");
  await page.getByRole("button", { name: "サインアウト" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("このノードにはトークンが必要です");
  await expect(page.locator("html")).toHaveAttribute("lang", "ja");
  await looksWell(page, "sign-in-ja");
  await japanese.close();
  await close();
});

test("cn_06 the pages about access and the sign-in look well while they are empty, and the keyboard does everything", async ({ page, node }) => {
  // A node without a token records nobody's sign-in.
  for (const [path, empty] of [["access", "#keys-empty"], ["audit", "#audit-empty"]]) {
    await page.goto(`${node.url}/${path}`);
    await expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();
    await expect(page.locator(empty)).toBeVisible();
    await looksWell(page, `${path}-empty`);
  }
  const { node: guarded, close } = await openSites();
  await page.goto(`${guarded.url}/access`);
  // The field has the focus: nobody has to look for it.
  const field = page.getByLabel("Token", { exact: true });
  await expect(field).toBeFocused();
  await looksWell(page, "sign-in");
  await page.keyboard.type("a-wrong-token");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert").filter({ visible: true })).toHaveText("That is not the token of this node.");
  await looksWell(page, "sign-in-refused");
  await field.fill(OWNER);
  await page.keyboard.press("Enter");
  await expect(page.locator("#keys tr")).toHaveCount(2);
  // Every control of the page, by Tab alone, and the form to make a key, by keys alone.
  await tabTo(page, "summary", "Make a key");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await expect(page.locator("#key-name")).toBeFocused();
  await page.keyboard.type("by-hand");
  await page.keyboard.press("Tab");
  await page.keyboard.type("queue:*:read");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(page.locator("#key-made code")).toBeVisible();
  await looksWell(page, "access-made");
  await page.goto(`${guarded.url}/audit`);
  await expect(page.locator("#entries tr").first()).toContainText("key:by-hand:manage");
  await tabTo(page, "summary", "key:by-hand:manage");
  await page.keyboard.press("Enter");
  await expect(page.locator("#entries tr").first()).toContainText("POST /api/keys");
  await looksWell(page, "audit-open");
  await close();
});

/** Presses Tab until an element with this text has the focus. */
async function tabTo(/** @type {Page} */ page, /** @type {string} */ tag, /** @type {string} */ text) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(([tag, text]) => document.activeElement?.matches(tag) && document.activeElement.textContent?.includes(text), [tag, text]);
    if (found) return;
  }
  throw new Error(`the keyboard does not reach ${text}`);
}
