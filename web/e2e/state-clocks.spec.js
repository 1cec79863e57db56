// Devices whose clocks are minutes, hours or years apart, in step through a real node. The node's time counts: a device that is a
// few minutes off takes part, one that is further off waits and says so, and ends like all others when its clock is right.

import { expect, test } from "./support/test.js";

test.use({ expectedErrors: /net::ERR_|Failed to load resource/ });
test.setTimeout(180_000);

/** @typedef {import("@playwright/test").Page} Page */
/** @typedef {import("@playwright/test").BrowserContext} BrowserContext */

const MINUTE_MS = 60_000;
const YEAR_MS = 365 * 24 * 60 * MINUTE_MS;
// The first retry of a bridge comes within seconds; a machine that is busy stretches that.
const SOON = { timeout: 30_000 };

/** A tab with an open state as `window.state` and a clock that is off by `window.clockOffMs`. */
async function openTab(/** @type {BrowserContext} */ device, /** @type {string} */ url, /** @type {number} */ offMs) {
  const page = await device.newPage();
  await page.addInitScript((offMs) => {
    const tab = /** @type {any} */ (window);
    const Real = Date;
    tab.clockOffMs = offMs;
    tab.Date = class extends Real {
      constructor(/** @type {any[]} */ ...given) {
        if (given.length === 0) super(Real.now() + tab.clockOffMs);
        else super(.../** @type {[any]} */ (given));
      }
      static now() {
        return Real.now() + tab.clockOffMs;
      }
    };
  }, offMs);
  await page.goto(`${url}/state/frame`);
  await page.evaluate(async () => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    const tab = /** @type {any} */ (window);
    tab.state = openState({ name: "clocks", bridge: { space: "clocks" } });
    await tab.state.ready;
  });
  return page;
}

async function another(/** @type {BrowserContext} */ context) {
  const browser = context.browser();
  if (browser === null) throw new Error("this context has no browser");
  return browser.newContext();
}

const put = (/** @type {Page} */ page, /** @type {string} */ id, /** @type {number} */ n) =>
  page.evaluate(([id, n]) => /** @type {any} */ (window).state.put(id, { n }), /** @type {const} */ ([id, n]));

const remove = (/** @type {Page} */ page, /** @type {string} */ id) =>
  page.evaluate((id) => /** @type {any} */ (window).state.remove(id), id);

const shown = (/** @type {Page} */ page) =>
  page.evaluate(() => {
    const { state } = /** @type {any} */ (window);
    return state.ids().sort().map((/** @type {string} */ id) => `${id}=${state.get(id).n}`).join(" ");
  });

const status = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).state.link.status);

const setClocks = (/** @type {Page[]} */ pages, /** @type {number} */ offMs) =>
  Promise.all(pages.map((page) => page.evaluate((offMs) => void (/** @type {any} */ (window).clockOffMs = offMs), offMs)));

async function allShow(/** @type {Page[]} */ pages, /** @type {string} */ expected) {
  for (const page of pages) await expect.poll(() => shown(page), SOON).toBe(expected);
}

/** Each device in turn does something that it knows the other's last doing of, and each time the last one counts. */
async function takeTurns(/** @type {Page} */ one, /** @type {Page} */ other) {
  for (const [first, second] of [[one, other], [other, one]]) {
    await put(first, "a", 1);
    await allShow([one, other], "a=1");
    await put(second, "a", 2);
    await allShow([one, other], "a=2");
    await put(first, "a", 3);
    await allShow([one, other], "a=3");
    await remove(second, "a");
    await allShow([one, other], "");
    await put(first, "b", 1);
    await allShow([one, other], "b=1");
    await remove(first, "b");
    await allShow([one, other], "");
  }
}

for (const [how, offMs] of Object.entries({ ahead: 4 * MINUTE_MS, behind: -4 * MINUTE_MS })) {
  test(`st_34 st_23 a device whose clock is four minutes ${how} is in step, and the last one to do something counts`, async ({ context, node }) => {
    const device = await another(context);
    const [good, bad] = [await openTab(context, node.url, 0), await openTab(device, node.url, offMs)];
    await takeTurns(good, bad);
    await device.close();
  });
}

for (const [how, offMs] of Object.entries({ "an hour ahead": 60 * MINUTE_MS, "ten years ahead": 10 * YEAR_MS, "ten years behind": -10 * YEAR_MS })) {
  test(`st_34 st_23 a device whose clock is ${how} says so and waits, and ends like the others when it is right`, async ({ context, node }) => {
    const device = await another(context);
    const good = await openTab(context, node.url, 0);
    await put(good, "kept", 1);
    await put(good, "changed", 1);
    await put(good, "removed", 1);
    const bad = await openTab(device, node.url, offMs);
    await expect.poll(() => status(bad), SOON).toBe("clock-off");

    // Its own changes are stored here and go nowhere; the other device goes on meanwhile.
    await put(bad, "from bad", 1);
    await put(bad, "changed", 2);
    await put(good, "from good", 1);
    await remove(good, "removed");
    await expect.poll(() => status(good), SOON).toBe("in-step");
    expect(await shown(good)).toBe("changed=1 from good=1 kept=1");
    expect(await shown(bad)).toContain("from bad=1");

    await setClocks([bad], 0);
    await expect.poll(() => status(bad), { timeout: 90_000 }).toBe("in-step");
    // What neither had seen of the other is decided by the clocks; both show the same, and nothing that was added is gone.
    await expect.poll(async () => (await shown(bad)) === (await shown(good)), SOON).toBe(true);
    expect(await shown(good)).toMatch(/^changed=[12] from bad=1 from good=1 kept=1$/);

    // Nothing is left of the wrong time: whoever does something last counts, and a removal lasts.
    for (const id of ["changed", "from bad", "from good", "kept"]) await remove(good, id);
    await allShow([good, bad], "");
    await takeTurns(good, bad);
    const third = await another(context);
    await put(bad, "last", 7);
    await allShow([good, bad, await openTab(third, node.url, 0)], "last=7");
    await third.close();
    await device.close();
  });
}

for (const [how, offMs] of Object.entries({ "ten years ahead": 10 * YEAR_MS, "ten years behind": -10 * YEAR_MS })) {
  // The tabs of one device have one clock: it is set under all of them.
  test(`st_34 st_31 a device whose clock is set ${how} under two open tabs waits, and ends like the others when it is right`, async ({ context, node }) => {
    const device = await another(context);
    const other = await openTab(device, node.url, 0);
    const tabs = [await openTab(context, node.url, 0), await openTab(context, node.url, 0)];
    const all = [...tabs, other];
    await put(tabs[0], "a", 1);
    await put(tabs[1], "b", 1);
    await allShow(all, "a=1 b=1");
    await setClocks(tabs, offMs);
    await put(tabs[1], "b", 2);
    await put(tabs[0], "c", 1);
    await expect.poll(async () => [await status(tabs[0]), await status(tabs[1])], SOON).toContain("clock-off");
    await put(other, "d", 1);
    await remove(other, "a");
    await setClocks(tabs, 0);
    await expect.poll(() => shown(other), { timeout: 90_000 }).toMatch(/^b=[12] c=1 d=1$/);
    await expect.poll(async () => new Set(await Promise.all(all.map(shown))).size, SOON).toBe(1);
    // A removal lasts, and the last one to do something counts.
    await put(other, "b", 3);
    await allShow(all, "b=3 c=1 d=1");
    for (const [number, tab] of all.entries()) {
      await put(tab, "b", 10 + number);
      await allShow(all, `b=${10 + number} c=1 d=1`);
    }
    await remove(tabs[0], "b");
    await remove(other, "c");
    await allShow(all, "d=1");
    await device.close();
  });

  test(`st_34 st_23 a tab ${how} beside one that talks to the node takes part, and the last one to do something counts`, async ({ context, node }) => {
    const device = await another(context);
    const right = await openTab(context, node.url, 0);
    await expect.poll(() => status(right), SOON).toBe("in-step");
    const wrong = await openTab(context, node.url, offMs);
    const other = await openTab(device, node.url, 0);
    for (const [one, two] of [[wrong, right], [wrong, other], [right, other]]) await takeTurns(one, two);
    const all = [right, wrong, other];
    for (const [number, tab] of [...all, wrong, ...all].entries()) {
      await put(tab, "a", number);
      await allShow(all, `a=${number}`);
    }
    // Opened again it is still wrong, and so is its next change's time, but not its place in the order.
    await wrong.close();
    const again = await openTab(context, node.url, offMs);
    for (const [number, tab] of [again, other, again, right].entries()) {
      await put(tab, "a", 10 + number);
      await allShow([right, again, other], `a=${10 + number}`);
    }
    await remove(again, "a");
    await allShow([right, again, other], "");
    await device.close();
  });

  test(`st_34 st_31 a tab ${how} that talks to the node says so, and all end alike when another tab does`, async ({ context, node }) => {
    const device = await another(context);
    const other = await openTab(device, node.url, 0);
    const wrong = await openTab(context, node.url, offMs);
    await expect.poll(() => status(wrong), SOON).toBe("clock-off");
    const right = await openTab(context, node.url, 0);
    await put(wrong, "a", 1);
    await put(right, "b", 1);
    await put(other, "c", 1);
    await wrong.close();
    await allShow([right, other], "a=1 b=1 c=1");
    await remove(other, "a");
    await put(right, "b", 2);
    await allShow([right, other], "b=2 c=1");
    await device.close();
  });
}
