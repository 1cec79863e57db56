// The console of a node that has one system alone: its pages ask for nothing that is off.

import { Node } from "./support/node.js";
import { expect, open, test } from "./support/test.js";

for (const [system, path, heading] of [
  ["lock", "/lock", "Lock"],
  ["queue", "/queue", "Queue"],
  ["outbox", "/outbox", "Outbox"],
  ["state", "/state", "State"],
]) {
  test(`hs_03 a node with ${system} alone has one entry in its menu, and pages that work`, async ({ page }) => {
    const node = await Node.start({ environment: { SYNCLINE_SYSTEMS: system, SYNCLINE_APPS: "" } });
    try {
      const failed = /** @type {string[]} */ ([]);
      page.on("response", (response) => response.status() >= 400 && failed.push(`${response.status()} ${response.url()}`));
      await open(page, node.url);
      await expect(page.locator("nav a")).toHaveText([heading]);
      await expect(page.locator("[data-part]:visible")).toHaveCount(1);
      await open(page, `${node.url}${path}`);
      await expect(page.getByRole("heading", { level: 1 })).toHaveText(heading);
      expect(failed).toEqual([]);
      // The page goes before its node does: what it asks of a node that is gone is no error of the page.
      await page.goto("about:blank");
    } finally {
      await node.remove();
    }
  });
}

test("cn_03 apps have their pages under Apps, and no page where they are off", async ({ page }) => {
  for (const [apps, entries] of /** @type {[string, string[]][]} */ ([["gallery", ["Gallery"]], ["", []]])) {
    const node = await Node.start({ environment: { SYNCLINE_SYSTEMS: "viewer", SYNCLINE_APPS: apps } });
    try {
      await open(page, node.url);
      await expect(page.locator("nav .apart")).toHaveText(entries.length > 0 ? ["Apps"] : []);
      await expect(page.locator("nav .apart ~ li a")).toHaveText(entries);
      expect((await fetch(`${node.url}/gallery`)).status).toBe(entries.length > 0 ? 200 : 404);
      await page.goto("about:blank");
    } finally {
      await node.remove();
    }
  }
});
