// A node with a token: the pages ask for it once, and show nothing before.

import { expect, test } from "./support/test.js";

const TOKEN = "correct-horse-battery-staple";

test.use({ nodeOptions: { environment: { SYNCLINE_TOKEN: TOKEN } }, expectedErrors: /status of 401/ });

test("a wrong token is refused in words, the right one opens the page and stays for the next", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("This node asks for a token");
  await expect(page.locator("#connection")).toHaveText("Token needed");
  await expect(page.locator(".figure").first()).toBeHidden();
  const field = page.getByLabel("Token", { exact: true });
  await expect(field).toBeFocused();

  await field.fill("wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert").filter({ hasText: "That is not the token of this node." })).toBeVisible();

  await field.fill(TOKEN);
  await page.keyboard.press("Enter");
  await expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Overview");

  await page.goto("/viewer");
  await expect(page.locator("html[data-live=connected][data-loaded]")).toBeAttached();
  // Whatever runs in the page must not be able to read the session out of it.
  expect(
    await page.evaluate(() => `${document.cookie} ${JSON.stringify(localStorage)} ${JSON.stringify(sessionStorage)}`),
  ).not.toContain(TOKEN);
  expect(await page.evaluate(() => document.cookie)).toBe("");
});

test("vw_10 a gallery that still asks for the token has no viewer, and one as soon as it is let in", async ({
  page,
}) => {
  /** @type {string[]} */
  const loaded = [];
  page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
  await page.goto("/gallery");
  await expect(page.getByLabel("Token", { exact: true })).toBeFocused();
  expect(loaded.filter((path) => path.startsWith("/pkg/"))).toEqual([]);

  await page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await page.keyboard.press("Enter");
  await expect(page.locator("#company")).toHaveText("You are watching");
});
