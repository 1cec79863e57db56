// The queue page: queues of any API, declared in the file alone.

import { once } from "node:events";
import { createServer } from "node:http";
import { Node } from "./support/node.js";
import { expect, open, test as base } from "./support/test.js";
import { startThrottlingApi } from "./support/throttling.js";

const test = /** @type {typeof base} */ (
  base.extend({
    node: async (/** @type {any} */ {}, /** @type {any} */ use) => {
      const words = createServer((request, response) => response.end(request.url));
      await once(words.listen(0, "127.0.0.1"), "listening");
      const { port } = /** @type {import("node:net").AddressInfo} */ (words.address());
      const throttling = await startThrottlingApi();
      const config = `[[queues]]\nname = "words"\nurl = "http://127.0.0.1:${port}/{key}"\ninterval_ms = 10\n${throttling.config}`;
      const node = await Node.start({ config });
      await use(node);
      await node.remove();
      await throttling.close();
      words.closeAllConnections();
      await once(words.close(), "close");
    },
  })
);

test("qu_23 qu_22 keys are added to a queue of any API, and its dead list is retried", async ({ page }) => {
  await open(page, "/queue");
  const queue = (/** @type {string} */ name) => page.locator(".queue").filter({ has: page.getByRole("heading", { name }) });
  await queue("words").getByLabel("Keys", { exact: true }).fill("stone, water");
  await queue("words").getByRole("button", { name: "Add" }).click();
  await expect(queue("words")).toContainText("2 added");
  await expect(queue("words").locator(".counts div", { hasText: "done" })).toHaveText("done2");

  await queue("throttled").getByLabel("Keys", { exact: true }).fill("lost");
  await queue("throttled").getByRole("button", { name: "Add" }).click();
  await queue("throttled").getByText("Dead keys").click({ timeout: 30_000 });
  await expect(queue("throttled").locator(".refused li")).toContainText("lost");
  await queue("throttled").getByRole("button", { name: "Retry all" }).click();
  await expect(queue("throttled")).toContainText("1 key tried once more.");
});
