// Several nodes on one PostgreSQL: one that stands still is on the overview of another within seconds, and gone from it when it goes on.

import { Node } from "./support/node.js";
import { startPostgres } from "./support/postgres.js";
import { expect, open, test as base } from "./support/test.js";

const test = /** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & { nodes: Node[] }, {}>} */ (
  /** @type {any} */ (base).extend({
    nodes: async (/** @type {any} */ {}, /** @type {any} */ use) => {
      const server = await startPostgres();
      const start = (/** @type {string} */ name) => Node.start({ environment: { DATABASE_URL: server.url, SYNCLINE_NODE: name, SYNCLINE_APPS: "" } });
      const nodes = [await start("here"), await start("there")];
      await use(nodes);
      for (const node of nodes) {
        node.thaw();
        await node.remove();
      }
      await server.stop();
    },
    node: async (/** @type {any} */ { nodes }, /** @type {any} */ use) => use(nodes[0]),
  })
);

// It was listed as well for a minute and a half.
test("cn_02 cn_04 another node that stands still is on the overview and the page of nodes until it goes on", async ({ page, nodes }) => {
  test.setTimeout(120_000);
  const [, there] = nodes;
  await open(page, "/");
  await expect(page.locator("#nodes tr")).toHaveCount(2);
  await expect(page.locator("#all-well")).toBeVisible();
  there.freeze();
  const trouble = page.locator("#attention").getByRole("link", { name: /^Node there does not answer: its last word is \d+ s old$/ });
  // The list is asked for every five seconds, and the node has two to answer.
  await expect(trouble).toBeVisible({ timeout: 20_000 });
  await expect(page.locator("#all-well")).toBeHidden();
  await trouble.click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Nodes");
  await expect(page.locator(".listed tbody tr")).toHaveCount(1);
  await expect(page.locator(".listed tbody tr")).toContainText("does not answer");
  there.thaw();
  await expect(page.locator(".listed tbody tr")).not.toContainText("does not answer", { timeout: 20_000 });
  await open(page, "/");
  await expect(page.locator("#all-well")).toBeVisible({ timeout: 20_000 });
});
