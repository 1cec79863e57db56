// Shared state of several browser profiles, in step through a real node: at once, after an outage, and whichever tab leads.

import { expect, test } from "./support/test.js";

test.use({ expectedErrors: /net::ERR_|Failed to load resource/ });

/**
 * A tab whose state is kept in step with the node, as `window.state`.
 * @param {import("@playwright/test").BrowserContext} context
 * @param {import("./support/node.js").Node} node
 */
async function openTab(context, node) {
  const page = await context.newPage();
  await page.goto(`${node.url}/viewer`);
  await page.evaluate(async () => {
    const tab = /** @type {any} */ (window);
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    tab.state = openState({ name: "bridged", bridge: { space: "list" } });
    await tab.state.ready;
  });
  return page;
}

/** Another profile of the same browser. */
async function another(/** @type {import("@playwright/test").BrowserContext} */ context) {
  const browser = context.browser();
  if (browser === null) throw new Error("this context has no browser");
  return browser.newContext();
}

/** What a tab shows, as one text. */
function shown(/** @type {import("@playwright/test").Page} */ page) {
  return page.evaluate(() => {
    const { state } = /** @type {any} */ (window);
    const entries = state.ids().sort().map((/** @type {string} */ id) => `${id}=${state.get(id).n}`);
    return entries.join(" ");
  });
}

function put(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ id, /** @type {number} */ n) {
  return page.evaluate(([id, n]) => /** @type {any} */ (window).state.put(id, { n }), /** @type {const} */ ([id, n]));
}

function remove(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ id) {
  return page.evaluate((id) => /** @type {any} */ (window).state.remove(id), id);
}

function status(/** @type {import("@playwright/test").Page} */ page) {
  return page.evaluate(() => /** @type {any} */ (window).state.link.status);
}

test("st_23_two_profiles_are_in_step_through_a_node", async ({ context, node }) => {
  const profiles = [context, await another(context)];
  const [one, other] = [await openTab(profiles[0], node), await openTab(profiles[1], node)];
  await put(one, "milk", 1);
  await expect.poll(() => shown(other)).toBe("milk=1");
  await put(other, "milk", 2);
  await put(other, "bread", 3);
  await expect.poll(() => shown(one)).toBe("bread=3 milk=2");
  await remove(one, "milk");
  await expect.poll(() => shown(other)).toBe("bread=3");
  await expect.poll(() => status(one)).toBe("in-step");
  await profiles[1].close();
});

test("st_23_changes_made_while_the_node_is_dead_wait_and_arrive", async ({ context, node }) => {
  const profiles = [context, await another(context)];
  const [one, other] = [await openTab(profiles[0], node), await openTab(profiles[1], node)];
  await put(one, "kept", 1);
  await put(one, "removed", 1);
  await expect.poll(() => shown(other)).toBe("kept=1 removed=1");
  await node.kill();
  await put(one, "from one", 2);
  await remove(one, "removed");
  await put(other, "from other", 3);
  await expect.poll(() => status(one)).toBe("unreachable");
  await node.resume();
  const expected = "from one=2 from other=3 kept=1";
  await expect.poll(() => shown(one), { timeout: 30_000 }).toBe(expected);
  await expect.poll(() => shown(other), { timeout: 30_000 }).toBe(expected);
  await profiles[1].close();
});

test("st_23_when_the_tab_that_talks_to_the_node_goes_another_one_does", async ({ context, node }) => {
  const profiles = [context, await another(context)];
  const first = await openTab(profiles[0], node);
  const second = await openTab(profiles[0], node);
  const other = await openTab(profiles[1], node);
  await put(second, "by the one that follows", 1);
  await expect.poll(() => shown(other)).toBe("by the one that follows=1");
  await first.close();
  await put(second, "by itself", 2);
  await expect.poll(() => shown(other)).toBe("by itself=2 by the one that follows=1");
  await put(other, "and back", 3);
  await expect.poll(() => shown(second)).toBe("and back=3 by itself=2 by the one that follows=1");
  await profiles[1].close();
});

test("st_36 many spaces of a page are told of by one stream", async ({ context, node }) => {
  const profiles = [context, await another(context)];
  const streams = new Set();
  const openMany = async (/** @type {import("@playwright/test").BrowserContext} */ profile) => {
    const page = await profile.newPage();
    if (profile === context) {
      page.on("request", (request) => request.url().includes("topics=state") && streams.add(request));
      page.on("requestfinished", (request) => streams.delete(request));
      page.on("requestfailed", (request) => streams.delete(request));
    }
    // A page without a stream of its own.
    await page.goto(`${node.url}/state/frame`);
    await page.evaluate(async () => {
      const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
      const tab = /** @type {any} */ (window);
      tab.states = Array.from({ length: 12 }, (_, number) => openState({ name: `many-${number}`, bridge: { space: `many-${number}` } }));
      await Promise.all(tab.states.map((/** @type {any} */ state) => state.ready));
    });
    return page;
  };
  const [one, other] = [await openMany(profiles[0]), await openMany(profiles[1])];
  const sizes = (/** @type {import("@playwright/test").Page} */ page) =>
    page.evaluate(() => /** @type {any} */ (window).states.map((/** @type {any} */ state) => state.size).join(""));
  const inStep = () => one.evaluate(() => /** @type {any} */ (window).states.every((/** @type {any} */ state) => state.link.status === "in-step"));
  await expect.poll(inStep, { timeout: 30_000 }).toBe(true);
  await other.evaluate(() => Promise.all(/** @type {any} */ (window).states.map((/** @type {any} */ state) => state.put("a", { n: 1 }))));
  await expect.poll(() => sizes(one), { timeout: 30_000 }).toBe("1".repeat(12));
  expect(streams.size).toBe(1);
  await profiles[1].close();
});
