// The state page: one checklist in three contexts, the race of ten, the settings.

import { expect, open, test } from "./support/test.js";

test("st_01 what is ticked in a frame is ticked in the page and in another tab, and all is removed at once", async ({
  page,
  context,
}) => {
  await open(page, "/state/try");
  await expect(page.locator("#checklist .empty").first()).toBeVisible();
  await page.getByLabel("New entry").fill("Milk");
  await page.keyboard.press("Enter");
  const frame = page.frameLocator("iframe").first();
  await frame.getByLabel("Milk", { exact: true }).check();
  await expect(page.locator("#checklist").getByLabel("Milk", { exact: true })).toBeChecked();
  await expect(page.locator("#list-count")).toHaveText("0 of 1 to do");
  const other = await context.newPage();
  await open(other, "/state/try");
  await expect(other.locator("#checklist").getByLabel("Milk", { exact: true })).toBeChecked();
  await other.getByRole("button", { name: "Remove everything" }).click();
  await expect(page.locator("#checklist .items li")).toHaveCount(0);
  await expect(frame.locator(".empty").first()).toBeVisible();
});

test("st_20 ten contexts write at once: nothing is lost, and by hand some is", async ({ page }) => {
  await open(page, "/state/try");
  await page.getByRole("button", { name: "Let them write" }).click();
  await expect(page.locator("#race-told")).toHaveText(/^By hand, \d+ are lost$/, { timeout: 50_000 });
  await expect(page.locator("#ours")).toHaveText("500");
});

test("st_03 settings are refused beside the field that is wrong, and followed when they are right", async ({ page }) => {
  await open(page, "/state/try");
  await page.getByLabel("Colour").fill("red");
  await page.getByLabel("Where").selectOption("specific");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator("#themeToken-problem")).toContainText("hex colour");
  await expect(page.getByLabel("Which place")).toBeFocused();
  await page.getByLabel("Colour").fill("#123456");
  await page.getByLabel("Where").selectOption("all");
  await page.getByLabel("Show the checklist").uncheck();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator("#settings-told")).toHaveText(/^Saved/);
  await expect(page.frameLocator("iframe").first().getByText("switched off in the settings")).toBeVisible();
});
