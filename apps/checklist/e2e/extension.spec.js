// The extension's three roles in real Chromium: options page and popup (control), a frame on any site (runtime), and the
// service worker that opens the one for the other (coordinator).

import { readFile } from "node:fs/promises";
import { AXE } from "../../../web/e2e/support/playwright.js";
import { add, entry, expand, expect, findSurface, storage, surfaceOn, test } from "./extension.js";

test("st_01 options, popup and frames on two sites show the same entries and follow each other", async ({ extension, sites }) => {
  const options = await extension.open("options.html");
  await expect(options.locator("#wasm-state")).toHaveText("Running");
  await expect(options.locator("#wasm-version")).toHaveText(/^\d+\.\d+\.\d+$/);
  const popup = await extension.open("popup.html");
  const here = await surfaceOn(await extension.visit(`${sites.url}/plain`));
  const there = await surfaceOn(await extension.visit(`${sites.lanUrl}/plain`));
  await expect(here.getByRole("button", { name: /Open the checklist/ })).toHaveText("Empty");
  await expand(here);
  const places = [options, popup, here, there];

  await add(options, "milk");
  await add(popup, "bread");
  await add(here, "tea");
  for (const place of places) {
    for (const title of ["milk", "bread", "tea"]) await expect(entry(place, title)).not.toBeChecked();
    await expect(place.locator(".entry")).toHaveCount(3);
  }

  await entry(there, "milk").check();
  for (const place of places) await expect(entry(place, "milk")).toBeChecked();
  await entry(popup, "milk").uncheck();
  for (const place of places) await expect(entry(place, "milk")).not.toBeChecked();

  await here.getByRole("button", { name: "Rename bread" }).click();
  await here.getByLabel("Title", { exact: true }).fill("rye bread");
  await here.getByLabel("Title", { exact: true }).press("Enter");
  for (const place of places) await expect(entry(place, "rye bread")).toBeAttached();

  await options.getByRole("button", { name: "Remove tea" }).click();
  for (const place of places) await expect(place.locator(".entry")).toHaveCount(2);
  await options.getByRole("button", { name: "Undo" }).click();
  for (const place of places) await expect(place.locator(".entry")).toHaveCount(3);
});

test("st_01 the coordinator opens the control surface for popup and frame, also after it was stopped", async ({ extension, sites }) => {
  const { context } = extension;
  await extension.welcome.close();
  const site = await extension.visit(`${sites.url}/plain`);
  const frame = await surfaceOn(site);
  await expand(frame);
  for (const isStopped of [false, true]) {
    if (isStopped) await extension.coordinator.stop();
    const opened = context.waitForEvent("page");
    await frame.getByRole("button", { name: "Settings" }).click();
    const options = await opened;
    await options.waitForURL(`${extension.origin}/options.html`);
    await options.close();
  }
  const popup = await extension.open("popup.html");
  await extension.coordinator.stop();
  const opened = context.waitForEvent("page");
  await popup.getByRole("button", { name: "Settings" }).click();
  await (await opened).waitForURL(`${extension.origin}/options.html`);
  await expect.poll(() => popup.isClosed()).toBe(true);
});

test("st_01 nobody needs the coordinator to stay in step", async ({ extension, sites }) => {
  const options = await extension.open("options.html");
  const frame = await surfaceOn(await extension.visit(`${sites.url}/plain`));
  await expand(frame);
  await extension.coordinator.stop();
  await add(options, "milk");
  await expect(entry(frame, "milk")).not.toBeChecked();
  await entry(frame, "milk").check();
  await expect(entry(options, "milk")).toBeChecked();
});

test("st_03 wrong settings are refused field by field, and nothing of them is stored", async ({ extension }) => {
  const options = await extension.open("options.html");
  await options.getByLabel("On one site").check();
  await options.getByLabel("Colour", { exact: true }).fill("purple");
  await options.getByLabel("Show the checklist on pages").uncheck();
  const form = options.locator("#sync-settings");
  await form.getByRole("button", { name: "Save" }).click();
  await expect(options.locator("#scopeTargetId-problem")).toHaveText("Enter the site, for example example.org.");
  await expect(options.locator("#themeToken-problem")).toHaveText("Enter a hex colour such as #6441a5.");
  await expect(options.getByLabel("Site", { exact: true })).toBeFocused();
  await expect(options.locator("#settings-message")).toHaveText("Nothing was saved.");
  expect(await storage.get(options)).not.toHaveProperty("syncSettings");

  await options.getByLabel("Site", { exact: true }).fill("https://Example.org:8443/path");
  await options.getByLabel("Colour", { exact: true }).fill("#0a7");
  await form.getByRole("button", { name: "Save" }).click();
  await expect(options.locator("#settings-message")).toHaveText("Saved.");
  expect((await storage.get(options)).syncSettings).toEqual({
    featureEnabled: false,
    scopeMode: "specific",
    scopeTargetId: "example.org",
    themeToken: "#0a7",
  });
});

test("st_03 frames follow the feature, the scope and the theme while they are open", async ({ extension, sites }) => {
  const options = await extension.open("options.html");
  const popup = await extension.open("popup.html");
  const [here, there] = [await extension.visit(`${sites.url}/plain`), await extension.visit(`${sites.lanUrl}/plain`)];
  const isShown = (/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) => findSurface(page) !== undefined;
  for (const page of [here, there]) await surfaceOn(page);
  const form = options.locator("#sync-settings");

  await options.getByLabel("On one site").check();
  await options.getByLabel("Site", { exact: true }).fill("lan.test");
  await form.getByRole("button", { name: "Save" }).click();
  await expect.poll(() => isShown(here)).toBe(false);
  expect(isShown(there)).toBe(true);
  // A page that comes later asks the same question.
  const later = await extension.visit(`${sites.lanUrl}/strict`);
  await surfaceOn(later);

  await popup.getByRole("switch", { name: "On pages" }).uncheck();
  await expect.poll(() => isShown(there) || isShown(later)).toBe(false);
  await expect(options.getByLabel("Show the checklist on pages")).not.toBeChecked();
  await options.getByLabel("On every site").check();
  await options.getByLabel("Show the checklist on pages").check();
  await options.getByLabel("Colour", { exact: true }).fill("#ff8800");
  await form.getByRole("button", { name: "Save" }).click();
  for (const page of [here, there]) {
    const frame = await surfaceOn(page);
    await expect(frame.locator("html")).toHaveAttribute("style", /--accent:[^;]*rgb\(255 136 0\)/);
  }
  await options.getByLabel("Colour", { exact: true }).fill("#00f");
  await form.getByRole("button", { name: "Save" }).click();
  for (const place of [await surfaceOn(here), popup]) {
    await expect(place.locator("html")).toHaveAttribute("style", /--accent:[^;]*rgb\(0 0 255\)/);
  }
});

test("st_01 the surface is worked by keyboard and remembers how it lay", async ({ extension, sites }) => {
  const page = await extension.visit(`${sites.url}/plain`);
  const frame = await surfaceOn(page);
  await expect(frame.getByRole("button", { name: "Open the checklist, which is empty" })).toBeVisible();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(frame.getByLabel("New entry")).toBeFocused();
  await page.keyboard.type("milk");
  await page.keyboard.press("Enter");
  await expect(entry(frame, "milk")).not.toBeChecked();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await expect(entry(frame, "milk")).toBeChecked();

  const other = await surfaceOn(await extension.visit(`${sites.lanUrl}/plain`));
  await expect(entry(other, "milk")).toBeChecked();
  await other.getByRole("button", { name: "Move to the next corner" }).click();
  await page.bringToFront();
  await frame.getByLabel("New entry").focus();
  await page.keyboard.press("Escape");
  await expect(frame.getByRole("button", { name: "Open the checklist, 1 of 1 done" })).toBeFocused();
  await expect(other.getByLabel("New entry")).toBeHidden();
  await page.reload();
  const again = await surfaceOn(page);
  await expect(again.getByRole("button", { name: "Open the checklist, 1 of 1 done" })).toBeVisible();
  await expand(again);
  expect((await storage.get(again)).surfacePlace).toEqual({ collapsed: false, corner: "bottom-left" });
  const box = await (await again.frameElement()).boundingBox();
  expect(box?.x).toBe(12);
});

test("options, popup and frame have no accessibility violations", async ({ extension, sites }) => {
  const axe = await readFile(AXE, "utf8");
  const options = await extension.open("options.html");
  await add(options, "milk");
  await entry(options, "milk").check();
  const popup = await extension.open("popup.html");
  const site = await extension.visit(`${sites.url}/plain`);
  const frame = await surfaceOn(site);
  await expand(frame);
  for (const [page, place] of /** @type {const} */ ([[options, options], [popup, popup], [site, frame]])) {
    for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
      await page.emulateMedia({ colorScheme });
      await expect(entry(place, "milk")).toBeChecked();
      await place.evaluate(axe);
      const { violations } = await place.evaluate(() => /** @type {any} */ (globalThis).axe.run());
      expect(violations.map((/** @type {any} */ { id, nodes }) => `${place.url()} ${id}: ${nodes[0].html}`)).toEqual([]);
    }
  }
});
