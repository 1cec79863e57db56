// Shared state in real tabs of Chromium when one of them stands still: frozen, busy, in a dialog, in the back/forward cache. Nobody
// else waits for it, and another tab talks to the node. And when clocks are years apart, or storage is forbidden.

import { goBack } from "./support/chromium.js";
import { openLockServer } from "./support/lock-server.js";
import { expect, test } from "./support/test.js";

test.use({ expectedErrors: /net::ERR_|Failed to load resource/ });
test.setTimeout(240_000);

/** @typedef {import("@playwright/test").Page} Page */
/** @typedef {import("@playwright/test").BrowserContext} BrowserContext */

/**
 * A tab with an open state as `window.state`.
 * @param {BrowserContext} context
 * @param {string} url of the node
 * @param {object} [options] of openState
 */
async function openTab(context, url, options = {}) {
  const page = await context.newPage();
  // A page that listens to nothing, so that nothing keeps it from being frozen or cached.
  await page.goto(`${url}/state/frame`);
  await openIn(page, options);
  return page;
}

function openIn(/** @type {Page} */ page, options = {}) {
  return page.evaluate(async (options) => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    const tab = /** @type {any} */ (window);
    tab.state = openState({ name: "still", ...options });
    await tab.state.ready;
  }, options);
}

const BRIDGE = { bridge: { space: "still" } };

const put = (/** @type {Page} */ page, /** @type {string} */ id, n = 1) =>
  page.evaluate(([id, n]) => /** @type {any} */ (window).state.put(id, { n }), /** @type {const} */ ([id, n]));

const remove = (/** @type {Page} */ page, /** @type {string} */ id) =>
  page.evaluate((id) => /** @type {any} */ (window).state.remove(id), id);

const shown = (/** @type {Page} */ page) =>
  page.evaluate(() => {
    const { state } = /** @type {any} */ (window);
    return state.ids().sort().map((/** @type {string} */ id) => `${id}=${state.get(id).n}`).join(" ");
  });

const status = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).state.link.status);

/** Holds up the page's only thread for so long. */
const hold = (/** @type {Page} */ page, /** @type {number} */ ms) =>
  page.evaluate((ms) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
  }, ms);

test("st_30 a tab that is frozen in the middle of its writes keeps nobody from writing", async ({ plainTabs, node }) => {
  const [one, other] = [await openTab(plainTabs, node.url), await openTab(plainTabs, node.url)];
  const session = await plainTabs.newCDPSession(one);
  for (let round = 0; round < 8; round++) {
    await one.evaluate((round) => {
      const { state } = /** @type {any} */ (window);
      // Additions and changes, so that there is always something under way.
      for (let number = 0; number < 40; number++) state.put(`${round}-${number % 20}`, { n: number });
    }, round);
    await session.send("Page.setWebLifecycleState", { state: "frozen" });
    // Answered while it is frozen: what waits for that tab would wait until the test is over.
    await put(other, `other-${round}`);
    await session.send("Page.setWebLifecycleState", { state: "active" });
  }
  await expect.poll(async () => (await shown(one)) === (await shown(other))).toBe(true);
  expect((await shown(other)).split(" ").length).toBe(8 * 21);
});

test("st_30 a tab that is busy in the middle of its writes keeps nobody from writing", async ({ plainTabs, node }) => {
  const [one, other] = [await openTab(plainTabs, node.url), await openTab(plainTabs, node.url)];
  // The pages take the times: how long a command takes to a page and back is not theirs.
  let shows = 0;
  for (let round = 0; round < 4; round++) {
    const held = one.evaluate(async (round) => {
      const { state } = /** @type {any} */ (window);
      for (let number = 0; number < 40; number++) state.put(`${round}-${number}`, { n: number });
      // At some moment between a read and its write. A timer of a hidden tab would take up to a minute.
      for (let turn = 0; turn < 3 * round; turn++) {
        const { port1, port2 } = new MessageChannel();
        await new Promise((resolve) => ((port1.onmessage = resolve), port2.postMessage(0)));
      }
      const until = Date.now() + 8_000;
      while (Date.now() < until);
      return until;
    }, round);
    const [asked, answered] = await other.evaluate(async (round) => {
      const asked = Date.now();
      for (let number = 0; number < 12; number++) await /** @type {any} */ (window).state.put(`other-${round}-${number}`, { n: 1 });
      return [asked, Date.now()];
    }, round);
    const until = await held;
    if (asked >= until) continue;
    expect(answered, `round ${round}, asked ${until - asked} ms before the other tab went on`).toBeLessThan(until);
    shows++;
  }
  expect(shows).toBeGreaterThan(0);
  await expect.poll(async () => (await shown(one)) === (await shown(other))).toBe(true);
});

/** Ways to stand still, each with what ends it. */
const STILL = {
  frozen: async (/** @type {Page} */ page, /** @type {BrowserContext} */ tabs) => {
    const session = await tabs.newCDPSession(page);
    await session.send("Page.setWebLifecycleState", { state: "frozen" });
    return () => session.send("Page.setWebLifecycleState", { state: "active" });
  },
  "in a dialog": async (/** @type {Page} */ page) => {
    const asked = new Promise((resolve) => page.once("dialog", resolve));
    const over = page.evaluate(() => alert("still here"));
    const dialog = /** @type {import("@playwright/test").Dialog} */ (await asked);
    return async () => {
      await dialog.accept();
      await over;
    };
  },
  busy: async (/** @type {Page} */ page) => {
    const over = hold(page, 20_000);
    return () => over;
  },
  "in the back/forward cache": async (/** @type {Page} */ page) => {
    const there = new URL(page.url()).origin;
    await page.goto(`${there}/readyz`);
    return async () => {
      // A browser may have dropped it meanwhile; then it is a new page.
      if (!(await goBack(page, "'state' in window"))) await openIn(page, BRIDGE);
    };
  },
};

for (const [how, stand] of Object.entries(STILL)) {
  test(`st_31 a leader that is ${how} is replaced, and gives way when it goes on`, async ({ plainTabs, context, node }) => {
    const leader = await openTab(plainTabs, node.url, BRIDGE);
    await expect.poll(() => status(leader)).toBe("in-step");
    const next = await openTab(plainTabs, node.url, BRIDGE);
    const device = await openTab(context, node.url, BRIDGE);
    await expect.poll(() => status(device)).toBe("in-step");
    const goOn = await stand(leader, plainTabs);
    await put(device, "news");
    // Far sooner than the ways above end by themselves.
    await expect.poll(() => shown(next), { timeout: 15_000 }).toBe("news=1");
    await put(next, "answer");
    await expect.poll(() => shown(device), { timeout: 15_000 }).toBe("answer=1 news=1");
    await goOn();
    await expect.poll(() => shown(leader), { timeout: 30_000 }).toBe("answer=1 news=1");
    await expect.poll(async () => [await status(leader), await status(next)].sort(), { timeout: 30_000 }).toEqual(["follows", "in-step"]);
    await put(leader, "again");
    await expect.poll(() => shown(device), { timeout: 15_000 }).toBe("again=1 answer=1 news=1");
  });
}

test("st_31 ten tabs of a device hear of what another device changed", async ({ plainTabs, context, node }) => {
  const tabs = [];
  for (let tab = 0; tab < 10; tab++) tabs.push(await openTab(plainTabs, node.url, BRIDGE));
  const device = await openTab(context, node.url, BRIDGE);
  await put(device, "news");
  for (const tab of tabs) await expect.poll(() => shown(tab), { timeout: 15_000 }).toBe("news=1");
});

test("st_31 what a tab without a bridge changes reaches the node by a tab that has one", async ({ plainTabs, context, node }) => {
  const bridged = await openTab(plainTabs, node.url, BRIDGE);
  await expect.poll(() => status(bridged)).toBe("in-step");
  const plain = await openTab(plainTabs, node.url);
  const device = await openTab(context, node.url, BRIDGE);
  await put(plain, "milk");
  await put(plain, "bread");
  await expect.poll(() => shown(device)).toBe("bread=1 milk=1");
  await put(plain, "milk", 2);
  await remove(plain, "bread");
  await expect.poll(() => shown(device)).toBe("milk=2");
  // Also when nobody with a bridge is there at the moment.
  await bridged.close();
  await put(plain, "figs");
  await openTab(plainTabs, node.url, BRIDGE);
  await expect.poll(() => shown(device)).toBe("figs=1 milk=2");
});

test("st_36 a bridge that is paused exchanges nothing until it goes on", async ({ plainTabs, context, node }) => {
  const one = await openTab(plainTabs, node.url, BRIDGE);
  const device = await openTab(context, node.url, BRIDGE);
  await expect.poll(() => status(one)).toBe("in-step");
  await one.evaluate(() => /** @type {any} */ (window).state.pauseBridge());
  expect(await status(one)).toBe("paused");
  await put(one, "mine");
  await put(device, "theirs");
  await expect.poll(() => status(device)).toBe("in-step");
  expect([await shown(one), await shown(device)]).toEqual(["mine=1", "theirs=1"]);
  await one.evaluate(() => /** @type {any} */ (window).state.resumeBridge());
  await expect.poll(() => shown(one)).toBe("mine=1 theirs=1");
  await expect.poll(() => shown(device)).toBe("mine=1 theirs=1");
});

const HOUR_MS = 3_600_000;
const CLOCKS = { "an hour ahead": HOUR_MS, "an hour behind": -HOUR_MS, "ten years ahead": 87_600 * HOUR_MS, "ten years behind": -87_600 * HOUR_MS };

for (const [how, off] of Object.entries(CLOCKS)) {
  test(`st_34 with a clock ${how} in one tab the last one to do something counts`, async ({ plainTabs, node }) => {
    const good = await openTab(plainTabs, node.url);
    const bad = await plainTabs.newPage();
    await bad.addInitScript((off) => {
      const now = Date.now;
      Date.now = () => now() + off;
    }, off);
    await bad.goto(`${node.url}/state/frame`);
    await openIn(bad);
    const both = async (/** @type {string} */ expected) => {
      for (const page of [good, bad]) await expect.poll(() => shown(page)).toBe(expected);
    };
    for (const [one, other] of [[good, bad], [bad, good]]) {
      await put(one, "a", 1);
      await both("a=1");
      await put(other, "a", 2);
      await both("a=2");
      await put(one, "a", 3);
      await both("a=3");
      await remove(other, "a");
      await both("");
      await put(one, "b", 1);
      await both("b=1");
      await one.evaluate(() => /** @type {any} */ (window).state.reset());
      await both("");
    }
    // A third one, who knows nothing of it.
    await put(bad, "kept", 7);
    await both("kept=7");
    expect(await shown(await openTab(plainTabs, node.url))).toBe("kept=7");
    // And nobody writes at rest, whatever the clocks say.
    const writes = () =>
      good.evaluate(
        () =>
          new Promise((resolve) => {
            let count = 0;
            const channel = new BroadcastChannel("syncline-state:still");
            channel.onmessage = () => count++;
            setTimeout(() => resolve(count), 3_000);
          }),
      );
    await expect.poll(writes, { timeout: 30_000 }).toBe(0);
  });
}

test("st_32 where storage is forbidden everything settles with a typed error", async ({ page }) => {
  const server = await openLockServer();
  // A document without an origin: there is no storage for it.
  await page.route("**/nowhere", (route) =>
    route.fulfill({ contentType: "text/html", headers: { "content-security-policy": "sandbox allow-scripts" }, body: "<!doctype html>" }),
  );
  await page.route("**/pkg/**", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), "access-control-allow-origin": "*" } });
  });
  await page.goto(`${server.url}/nowhere`);
  const told = await page.evaluate(async (url) => {
    const { openState } = await import(`${url}/pkg/state.js`);
    try {
      const state = openState();
      const all = await Promise.allSettled([state.ready, state.put("a", {}), state.remove("a"), state.setSettings({ a: 1 }), state.reset()]);
      return all.map((one) => (one.status === "rejected" ? one.reason.code : one.status));
    } catch (error) {
      return error.code;
    }
  }, server.url);
  await server.close();
  expect(told).toEqual(["storage-failed", "storage-failed", "storage-failed", "storage-failed", "storage-failed"]);
});
