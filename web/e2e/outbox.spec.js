// The outbox page: what is on its way, and what was given up.

import { expect, open, test } from "./support/test.js";

test("ss_23 what was given up is shown with its reason, tried again and discarded", async ({ page }) => {
  let dead = 2;
  const stats = () => ({ pending: 0, inFlight: 0, retrying: 0, behind: 0, dead, oldestMs: null, delivered: 40, deliveredLastMinute: 3 });
  const entry = (/** @type {number} */ id) => ({ id, entityType: "schedule", entityId: `<b>${id}</b>`, attempts: 10, lastError: "422: no <img src=x>", bytes: 2, state: "dead" });
  /** @type {any[]} */
  const asked = [];
  await page.route("**/api/outbox", (route) => route.fulfill({ json: stats() }));
  await page.route("**/api/outbox/entries*", (route) => route.fulfill({ json: { entries: [1, 2].slice(2 - dead).map(entry), next: null } }));
  await page.route(/api\/outbox\/(retry|discard)/, (route) => {
    asked.push([route.request().url().split("/").pop(), route.request().postDataJSON()]);
    dead -= 1;
    return route.fulfill({ json: { entries: 1 } });
  });
  await page.route("**/api/events*", (route) => route.continue({ url: route.request().url().replace("topics=outbox", "topics=") }));
  await open(page, "/outbox");
  await expect(page.locator("#dead-list li")).toHaveCount(2);
  await expect(page.locator("#dead-list")).toContainText("10 attempts: 422: no <img src=x>");
  await page.getByRole("button", { name: "Retry schedule <b>1</b>" }).click();
  await expect(page.locator("#outbox-told")).toHaveText("1 change in line again.");
  await expect(page.locator("#dead-list li")).toHaveCount(1);
  page.on("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "Discard all" }).click();
  await expect(page.locator("#dead")).toBeHidden();
  expect(asked).toEqual([["retry", { ids: [1] }], ["discard", {}]]);
});
