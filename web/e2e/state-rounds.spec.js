// No context holds up another, and news of another device arrive, whatever happens to a tab (ST-30, ST-31), shown from outside: in
// each round one tab of several is frozen, kept busy, shown a dialog, put into the back/forward cache, reloaded, closed or crashed in
// the middle of its writes, while the others and another device go on. SYNCLINE_ROUNDS makes it longer; the longest waits are printed.

import { goBack, openPlainBrowser } from "./support/chromium.js";
import { SEED, random } from "./support/random.js";
import { expect, test } from "./support/test.js";

const ROUNDS = Number(process.env.SYNCLINE_ROUNDS ?? 12);
const TABS = 3;
const FAULTS = ["freeze", "busy", "dialog", "cache", "reload", "close", "crash"];
// Longer than anything here takes on a busy machine: what waits for a tab that stands still waits for this.
const STILL_MS = 15_000;
// After five minutes behind another tab, Chromium lets timers run once a minute, and such a tab notices a silent leader minutes later
// (leader.js says so). A slow machine gets there; rounds are about tabs that somebody looked at lately.
const HIDDEN_MAX_MS = 4 * 60_000;

test.use({ expectedErrors: /net::ERR_|Failed to load resource/ });

/** @typedef {import("@playwright/test").Page} Page */
/** @typedef {import("@playwright/test").BrowserContext} BrowserContext */

/** In a page: the state, when each id was first shown, and `add(id)`, which says how long it took. */
async function start() {
  const page = /** @type {any} */ (window);
  const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
  page.state = openState({ name: "rounds", bridge: { space: "rounds" } });
  page.shownAt = new Map();
  page.state.subscribe((/** @type {any} */ event) => {
    if (event.type === "entity" && !page.shownAt.has(event.id)) page.shownAt.set(event.id, Date.now());
  });
  page.add = async (/** @type {string} */ id) => {
    const asked = Date.now();
    await page.state.put(id, { at: asked });
    return { asked, answered: Date.now() };
  };
  await page.state.ready;
}

const add = (/** @type {Page} */ page, /** @type {string} */ id) => page.evaluate((id) => /** @type {any} */ (window).add(id), id);
const ids = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).state.ids().sort().join(" "));

class World {
  /** @type {Page[]} */
  tabs = [];
  /** @type {WeakMap<Page, number>} */
  #openedAt = new WeakMap();
  /** What was acknowledged. @type {Set<string>} */
  acknowledged = new Set();
  counts = /** @type {Record<string, number>} */ ({});
  longestPutMs = 0;
  longestNewsMs = 0;

  /** @param {{ url: string, context: BrowserContext, device: Page, front: Page, draw: (below: number) => number }} facts */
  constructor(facts) {
    this.facts = facts;
  }

  async open() {
    const page = await this.facts.context.newPage();
    // A page that listens to nothing, so that nothing keeps it from being frozen or cached.
    await page.goto(`${this.facts.url}/state/frame`);
    await page.evaluate(start);
    this.#openedAt.set(page, Date.now());
    this.tabs.push(page);
  }

  /** Closes what has been hidden for long. */
  async #renew() {
    for (const page of [...this.tabs]) if (Date.now() - (this.#openedAt.get(page) ?? 0) > HIDDEN_MAX_MS) await this.#close(page);
    while (this.tabs.length < TABS) await this.open();
  }

  async #close(/** @type {Page} */ page) {
    this.tabs = this.tabs.filter((tab) => tab !== page);
    // Closed while it is in front, it would leave its place to another tab, which wakes it.
    await this.facts.front.bringToFront();
    await page.close().catch(() => {});
  }

  async round(/** @type {number} */ number) {
    const { draw, device } = this.facts;
    await this.#renew();
    const one = this.tabs[draw(this.tabs.length)];
    const fault = FAULTS[draw(FAULTS.length)];
    this.counts[fault] = (this.counts[fault] ?? 0) + 1;
    const what = `round ${number}, seed ${SEED}: ${fault}`;
    // In the middle of its writes, at another moment each time.
    await one.evaluate(
      async ({ number, turns }) => {
        const { state } = /** @type {any} */ (window);
        for (let each = 0; each < 20; each += 1) state.put(`fill-${each}`, { number }).catch(() => {});
        for (let turn = 0; turn < turns; turn += 1) {
          const { port1, port2 } = new MessageChannel();
          await new Promise((resolve) => ((port1.onmessage = resolve), port2.postMessage(0)));
        }
      },
      { number, turns: draw(12) },
    );
    const { goOn, until } = await this.#harm(one, fault);
    for (const [index, tab] of this.tabs.entries()) {
      if (tab === one) continue;
      const id = `r${number}-${index}`;
      const { asked, answered } = await add(tab, id);
      this.acknowledged.add(id);
      this.longestPutMs = Math.max(this.longestPutMs, answered - asked);
      if (asked < until()) expect(answered, `${what}: another tab's put`).toBeLessThan(until());
    }
    const news = `r${number}-news`;
    const told = await add(device, news);
    this.acknowledged.add(news);
    for (const tab of this.tabs.filter((tab) => tab !== one)) {
      const shown = () => tab.evaluate((id) => /** @type {any} */ (window).shownAt.get(id) ?? 0, news);
      await expect.poll(shown, { message: `${what}: news of another device`, timeout: 60_000 }).toBeGreaterThan(0);
      const at = await shown();
      this.longestNewsMs = Math.max(this.longestNewsMs, at - told.answered);
      if (told.answered < until()) expect(at, `${what}: news of another device`).toBeLessThan(until());
    }
    await goOn();
  }

  /** Does it. `goOn` makes the tab whole again, `until` is when it goes on by itself. */
  async #harm(/** @type {Page} */ page, /** @type {string} */ fault) {
    const never = () => Infinity;
    const gone = () => this.#close(page);
    const cdp = await page.context().newCDPSession(page);
    switch (fault) {
      case "freeze":
        await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
        return { goOn: async () => void (await cdp.send("Page.setWebLifecycleState", { state: "active" })), until: never };
      case "busy": {
        const begun = Date.now();
        const busy = page.evaluate((ms) => {
          for (const until = Date.now() + ms; Date.now() < until; );
        }, STILL_MS);
        return { goOn: () => busy, until: () => begun + STILL_MS };
      }
      case "dialog": {
        const asked = new Promise((resolve) => page.once("dialog", resolve));
        const over = page.evaluate(() => alert("still here"));
        const dialog = /** @type {import("@playwright/test").Dialog} */ (await asked);
        return { goOn: async () => void (await dialog.accept(), await over), until: never };
      }
      case "cache":
        await page.goto(`${this.facts.url}/readyz`, { waitUntil: "commit" });
        return {
          goOn: async () => {
            // Evicted from the cache it is a fresh page.
            if (!(await goBack(page, "'state' in window"))) await page.evaluate(start);
          },
          until: never,
        };
      case "reload":
        await page.reload();
        await page.evaluate(start);
        return { goOn: async () => {}, until: never };
      case "crash":
        // Never answered: whoever would answer is dead.
        cdp.send("Page.crash").catch(() => {});
        return { goOn: gone, until: never };
      default:
        await gone();
        return { goOn: async () => {}, until: never };
    }
  }
}

test("st_30 st_31 whatever happens to a tab, others write and hear, and nothing acknowledged is lost", async ({ context, node }) => {
  test.setTimeout(120_000 + ROUNDS * 40_000);
  const browser = await openPlainBrowser();
  try {
    const front = await browser.context.newPage();
    const device = await context.newPage();
    await device.goto(`${node.url}/state/frame`);
    await device.evaluate(start);
    const world = new World({ url: node.url, context: browser.context, device, front, draw: random(SEED) });
    for (let number = 1; number <= ROUNDS; number += 1) {
      await world.round(number);
      if (number % 50 === 0) console.log(`${number} rounds, longest put ${world.longestPutMs} ms, longest news ${world.longestNewsMs} ms`);
    }
    while (world.tabs.length < TABS) await world.open();
    const all = [...world.tabs, device];
    const agree = async () => new Set(await Promise.all(all.map(ids))).size;
    await expect.poll(agree, { message: `all contexts agree, seed ${SEED}`, timeout: 60_000 }).toBe(1);
    const there = new Set((await ids(device)).split(" "));
    expect([...world.acknowledged].filter((id) => !there.has(id)), `seed ${SEED}`).toEqual([]);
    console.log(
      `seed ${SEED}: ${ROUNDS} rounds, ${world.acknowledged.size} acknowledged, longest wait of another's put ${world.longestPutMs} ms, of another device's news ${world.longestNewsMs} ms, ${JSON.stringify(world.counts)}`,
    );
  } finally {
    await browser.close();
  }
});
