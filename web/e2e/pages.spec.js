// What holds for every page: it works without errors, fits a phone, can be reached and read by everybody.

import { AxeBuilder } from "@axe-core/playwright";
import { expect, open, PAGES, PAGES_BELOW, test } from "./support/test.js";

const WIDTHS = { desktop: { width: 1280, height: 800 }, phone: { width: 360, height: 740 } };

const EVERY = [
  ...PAGES.map(({ path, heading }) => ({ path, heading, title: path === "/" ? /^Overview · \S+ · Syncline$/ : `${heading} · Syncline`, menu: path })),
  ...PAGES_BELOW.map((page) => ({ ...page, title: `${page.title} · Syncline` })),
];

for (const { path, heading, title, menu } of EVERY) {
  test(`page ${path} has its title, one heading and no console error`, async ({ page }) => {
    await open(page, path);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(heading);
    await expect(page).toHaveTitle(title);
    if (menu === null) await expect(page.locator("header [aria-current=page]")).toHaveCount(0);
    else await expect(page.locator("header [aria-current=page]")).toHaveAttribute("href", menu);
    await expect(page.locator("#connection")).toHaveText("Connected");
    await expect(page.locator("#version")).toHaveText(/^\d+\.\d+\.\d+/);
  });

  test(`page ${path} fits 360 pixels and keeps its layout while data arrives`, async ({ page }) => {
    await page.setViewportSize(WIDTHS.phone);
    await page.addInitScript(() => {
      const moved = /** @type {{ value: number, what: string[] }[]} */ ((/** @type {any} */ (globalThis).moved = []));
      new PerformanceObserver((list) => {
        for (const { value, sources } of /** @type {any[]} */ (list.getEntries())) {
          moved.push({ value, what: sources.map((/** @type {any} */ { node }) => (node?.outerHTML ?? String(node?.textContent)).slice(0, 100)) });
        }
      }).observe({ type: "layout-shift", buffered: true });
    });
    // The page is painted before its data are there, as on a slow line; on a fast one they would arrive before anybody looks.
    await page.route("**/api/**", async (route) => {
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      await route.continue();
    });
    await open(page, path);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(WIDTHS.phone.width);
    // 0.1 is where a shift begins to be called bad; a tenth of that cannot be seen.
    const moved = await page.evaluate(() => /** @type {{ value: number, what: string[] }[]} */ (/** @type {any} */ (globalThis).moved));
    expect(moved.reduce((sum, { value }) => sum + value, 0), JSON.stringify(moved)).toBeLessThan(0.01);
  });

  for (const scheme of /** @type {const} */ (["light", "dark"])) {
    test(`page ${path} is accessible in ${scheme}`, async ({ page }) => {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      for (const [name, size] of Object.entries(WIDTHS)) {
        await page.setViewportSize(size);
        await open(page, path);
        const file = `${path === "/" ? "dashboard" : path.slice(1).replace(/\W+/g, "-")}-${name}-${scheme}.png`;
        await page.screenshot({ path: `e2e/results/screens/${file}`, fullPage: true });
      }
      const { violations } = await new AxeBuilder({ page })
        .withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"])
        .analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`)).toEqual([]);
    });
  }
}

test("every page has the same header and footer", async ({ request }) => {
  const frames = [];
  for (const { path } of PAGES) {
    const html = await (await request.get(path)).text();
    const header = /<header[\s\S]*<\/header>/.exec(html)?.[0].replace(' aria-current="page"', "");
    frames.push(`${header}${/<footer[\s\S]*<\/footer>/.exec(html)?.[0]}`);
  }
  expect(frames[0]).toContain("<nav");
  expect(new Set(frames).size).toBe(1);
});

test("the keyboard reaches the skip link, every system and the theme, in this order", async ({ page }) => {
  await open(page, "/");
  const reached = [];
  for (let i = 0; i < PAGES.length + 2; i += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement?.getAttribute("href") ?? document.activeElement?.id));
  }
  expect(reached).toEqual(["#main", ...PAGES.map(({ path }) => path), "theme"]);

  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  await expect(page.locator("#main")).toBeFocused();
});

test("the theme is chosen by hand, survives a reload and goes back to the system's", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await open(page, "/");
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  const theme = page.getByRole("button", { name: /^Theme/ });
  await theme.click();
  await expect(theme).toHaveAccessibleName("Theme: light");
  await theme.click();
  await expect(theme).toHaveAccessibleName("Theme: dark");
  const dark = await background();
  expect(dark).not.toBe(light);

  await open(page, "/viewer");
  expect(await background()).toBe(dark);
  await theme.click();
  await expect(theme).toHaveAccessibleName("Theme: system");
  expect(await background()).toBe(light);
});
