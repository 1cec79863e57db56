// Shared state in Firefox and WebKit: between tabs, on plain http too, when tabs and the browser end in the middle of their writes, where
// storage is refused, and between two devices through a real node. SYNCLINE_ROUNDS makes it longer.

import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, openTab, test } from "./support/engines.js";
import { openLockServer } from "./support/lock-server.js";
import { Node } from "./support/node.js";

const ROUNDS = Number(process.env.SYNCLINE_ROUNDS ?? 20);
const CLOSINGS = Math.max(3, Math.ceil(ROUNDS / 5));
// What is missing is told within 5 s; a busy machine stretches that.
const TOLD_MS = 20_000;

test.describe.configure({ mode: "serial" });
test.setTimeout(180_000);

/** @typedef {import("./support/engines.js").Tab} Tab */

/** A tab with an open state as `window.state`. */
async function openStateIn(/** @type {import("./support/engines.js").Browser} */ browser, /** @type {string} */ url, /** @type {object} */ options = {}) {
  const tab = await openTab(browser, url);
  await tab.evaluate(async (options) => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    const page = /** @type {any} */ (window);
    const settings = { schema: { colour: { type: "string", default: "red" }, volume: { type: "number", default: 5, max: 10 } } };
    page.state = openState({ name: "shared", settings, ...options });
    await page.state.ready;
  }, options);
  return tab;
}

const put = (/** @type {Tab} */ tab, /** @type {string} */ id, n = 1) =>
  tab.evaluate((id, n) => /** @type {any} */ (window).state.put(id, { n }), id, n);

const remove = (/** @type {Tab} */ tab, /** @type {string} */ id) => tab.evaluate((id) => /** @type {any} */ (window).state.remove(id), id);

const shown = (/** @type {Tab} */ tab) =>
  tab.evaluate(() => {
    const { state } = /** @type {any} */ (window);
    return state.ids().sort().map((/** @type {string} */ id) => `${id}=${state.get(id).n}`).join(" ");
  });

const status = (/** @type {Tab} */ tab) => tab.evaluate(() => /** @type {any} */ (window).state.link.status);

test("st_16 st_20 st_36 tabs share entities and settings, on https and on plain http, and lose nothing when all write at once", async ({
  open,
  server,
}) => {
  const browser = await open();
  for (const url of [server.url, server.lanUrl]) {
    const tabs = [await openStateIn(browser, url), await openStateIn(browser, url), await openStateIn(browser, url)];
    const [one, other] = tabs;
    await put(one, "milk");
    await expect.poll(() => shown(other)).toBe("milk=1");
    await put(other, "milk", 2);
    await put(other, "bread");
    await expect.poll(() => shown(one)).toBe("bread=1 milk=2");
    await remove(one, "milk");
    await expect.poll(() => shown(other)).toBe("bread=1");

    await one.evaluate(() => /** @type {any} */ (window).state.setSettings({ colour: "blue", volume: 7 }));
    await expect.poll(() => other.evaluate(() => /** @type {any} */ (window).state.settings)).toEqual({ colour: "blue", volume: 7 });
    const refused = await other.evaluate(() =>
      /** @type {any} */ (window).attempt(() => /** @type {any} */ (window).state.setSettings({ colour: "blue", volume: 11 })),
    );
    expect(refused.error).toMatchObject({ name: "SynclineError", code: "invalid-settings" });

    const perTab = 50;
    await Promise.all(
      tabs.map((tab, number) =>
        tab.evaluate(
          (number, perTab) =>
            Promise.all(Array.from({ length: perTab }, (_, at) => /** @type {any} */ (window).state.put(`${number}-${at}`, { n: at }))),
          number,
          perTab,
        ),
      ),
    );
    const fresh = await openStateIn(browser, url);
    const all = await shown(fresh);
    expect(all.split(" ").length, url).toBe(tabs.length * perTab + 1);
    for (const tab of tabs) await expect.poll(() => shown(tab)).toBe(all);

    await one.evaluate(() => /** @type {any} */ (window).state.reset());
    for (const tab of [...tabs, fresh]) await expect.poll(() => shown(tab)).toBe("");
    for (const tab of [...tabs, fresh]) await tab.close();
  }
});

/**
 * Adds, changes and removes without a pause, and tells the server of what was acknowledged, and of each removal before it is asked
 * for. Not awaited: it ends with its tab.
 */
function startWriting(/** @type {Tab} */ tab, /** @type {string} */ name) {
  return tab.evaluate((name) => {
    const { state } = /** @type {any} */ (window);
    const tell = (/** @type {string} */ what, /** @type {string} */ id, n = 0) =>
      fetch("/write", { method: "POST", body: JSON.stringify({ tab: name, what, id, n }) });
    const write = async (/** @type {string} */ lane) => {
      for (let n = 1; ; n++) {
        await state.put(`${lane}-${n}`, { n });
        await tell("added", `${lane}-${n}`, n);
        await state.put(lane, { n });
        await tell("added", lane, n);
        if (n % 3 !== 0) continue;
        await tell("removing", `${lane}-${n - 1}`);
        await state.remove(`${lane}-${n - 1}`);
        await tell("removed", `${lane}-${n - 1}`);
      }
    };
    for (let lane = 0; lane < 3; lane++) void write(`${name}-${lane}`);
  }, name);
}

/** What is not as it was acknowledged: an addition that is gone, a change that is an older one, a removal that is back. */
function wrong(/** @type {any[]} */ told, /** @type {string} */ shownNow) {
  const there = new Map(shownNow.split(" ").map((entry) => /** @type {[string, string]} */ (entry.split("="))));
  const mayBeGone = new Set(told.filter(({ what }) => what === "removing").map(({ id }) => id));
  return told.filter(({ what, id, n }) => {
    if (what === "removed") return there.has(id);
    return what === "added" && !mayBeGone.has(id) && !(Number(there.get(id)) >= n);
  });
}

test("st_20 st_30 a tab that is closed while it writes loses nothing acknowledged and holds up nobody", async ({ open, server }) => {
  const browser = await open();
  for (const url of [server.url, server.lanUrl]) {
    const stays = await openStateIn(browser, url);
    for (let closing = 1; closing <= CLOSINGS; closing++) {
      const name = `${new URL(url).hostname}-${closing}`;
      const tab = await openStateIn(browser, url);
      await startWriting(tab, name);
      const told = () => server.writes.filter((write) => write.tab === name);
      await server.until(() => (told().length >= 10 + 7 * closing ? true : undefined), 60_000, `changes of ${name}`);
      await tab.close();
      const asked = Date.now();
      await put(stays, `after ${name}`);
      expect(Date.now() - asked, "the put of another tab").toBeLessThan(TOLD_MS);
      const fresh = await openStateIn(browser, url);
      expect(wrong(told(), await shown(fresh)), `closing ${closing} at ${url}`).toEqual([]);
      await expect.poll(async () => (await shown(stays)) === (await shown(fresh))).toBe(true);
      await fresh.close();
    }
    await stays.close();
  }
});

test("st_20 a browser that is killed while two tabs write has everything acknowledged when it is opened again", async ({ open, server, stored }) => {
  const folder = await mkdtemp(join(tmpdir(), "syncline-engine-"));
  try {
    for (let kill = 1; kill <= CLOSINGS; kill++) {
      const [profile, next] = [join(folder, `${kill}-killed`), join(folder, `${kill}-next`)];
      await mkdir(profile);
      const browser = await open({ profile });
      const names = [`killed-${kill}-a`, `killed-${kill}-b`];
      for (const name of names) await startWriting(await openStateIn(browser, server.url), name);
      const told = (/** @type {string} */ name) => server.writes.filter((write) => write.tab === name);
      await server.until(() => (names.every((name) => told(name).length >= 20) ? true : undefined), 60_000, `changes of both, kill ${kill}`);
      await browser.kill();

      // Another profile with what is stored in this one: a driver may still be busy with that of a browser that ended.
      await mkdir(next);
      for (const name of stored) await cp(join(profile, name), join(next, name), { recursive: true });
      const again = await open({ profile: next });
      const fresh = await openStateIn(again, server.url);
      const now = await shown(fresh);
      for (const name of names) expect(wrong(told(name), now), `kill ${kill}`).toEqual([]);
      await again.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});

test("st_32 re_03 in a private window tabs share entities as anywhere else", async ({ open, server }) => {
  const browser = await open({ isPrivate: true });
  for (const url of [server.url, server.lanUrl]) {
    const [one, other] = [await openStateIn(browser, url), await openStateIn(browser, url)];
    await put(one, "milk");
    await expect.poll(() => shown(other)).toBe("milk=1");
    await remove(other, "milk");
    await expect.poll(() => shown(one)).toBe("");
    await one.close();
    await other.close();
  }
});

test("st_32 where the user forbids storage everything that can be asked of a state is answered with a typed error", async ({ open, server }) => {
  const browser = await open({ forbidsStorage: true });
  for (const url of [server.url, server.lanUrl]) {
    for (const options of [{}, { bridge: { space: "list" } }]) {
      const tab = await openTab(browser, url);
      const told = await tab.evaluate(
        async (options, toldMs) => {
          const { openState, SynclineError } = await import(/** @type {any} */ ("/pkg/state.js"));
          const late = new Promise((resolve) => setTimeout(() => resolve("never"), toldMs));
          const outcome = (/** @type {() => any} */ ask) =>
            Promise.race([
              Promise.resolve()
                .then(ask)
                .then(
                  () => "done",
                  (error) => (error instanceof SynclineError ? error.code : `untyped: ${error}`),
                ),
              late,
            ]);
          const asked = [
            () => openState(options).ready,
            () => openState(options).put("a", {}),
            () => openState(options).remove("a"),
            () => openState(options).setSettings({}),
            () => openState(options).reset(),
          ];
          return Promise.all(asked.map(outcome));
        },
        options,
        TOLD_MS,
      );
      expect(told, `${url} ${JSON.stringify(options)}`).toEqual(Array(5).fill("storage-failed"));
      await tab.close();
    }
  }
});

test("st_23 st_31 two devices are in step through a node, after an outage and whichever tab talks to it", async ({ open }) => {
  const node = await Node.start();
  const site = await openLockServer({ api: node.url });
  try {
    const [here, there] = [await open(), await open()];
    const { url } = site;
    const bridge = { bridge: { space: "list" } };
    const first = await openStateIn(here, url, bridge);
    await expect.poll(() => status(first), { timeout: TOLD_MS }).toBe("in-step");
    const second = await openStateIn(here, url, bridge);
    const other = await openStateIn(there, url, bridge);
    const all = async (/** @type {Tab[]} */ tabs, /** @type {string} */ expected) => {
      for (const tab of tabs) await expect.poll(() => shown(tab), { timeout: 60_000 }).toBe(expected);
    };
    await put(first, "milk");
    await put(second, "bread");
    await all([first, second, other], "bread=1 milk=1");
    await put(other, "milk", 2);
    await remove(other, "bread");
    await all([first, second, other], "milk=2");

    await node.kill();
    await put(second, "offline here");
    await put(other, "offline there");
    await remove(first, "milk");
    await expect.poll(() => status(other), { timeout: 60_000 }).toBe("unreachable");
    await node.resume();
    await all([first, second, other], "offline here=1 offline there=1");

    // The tab that talks to the node is closed: another one does.
    await first.close();
    await put(second, "after");
    await all([second, other], "after=1 offline here=1 offline there=1");
    await put(other, "and back");
    await all([second, other], "after=1 and back=1 offline here=1 offline there=1");
  } finally {
    await site.close();
    await node.remove();
  }
});
