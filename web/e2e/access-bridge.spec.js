// The browser's side of access: when a page asks for a token (AC-09), what it does when a node refuses one, and that nobody's data go
// out under another name (AC-10). Secret keys have no place in a page (AC-04).

import { freshToken, openSites, tokenFor } from "./support/sites.js";
import { expect, test } from "./support/test.js";

/** @typedef {import("@playwright/test").Page} Page */

test.use({ expectedErrors: /Failed to load resource|blocked by CORS policy|net::ERR_/ });

/** A shop's page whose token function asks `newToken`, with an open state as `window.state`. */
async function openBasket(/** @type {Page} */ page, /** @type {any} */ options) {
  await page.evaluate(async ({ bridge, ...options }) => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    const tab = /** @type {any} */ (window);
    tab.asked = 0;
    const token = bridge.token ?? (() => ((tab.asked += 1), tab.newToken()));
    tab.links = [];
    tab.state = openState({ name: "basket", ...options, bridge: { ...bridge, token } });
    tab.state.subscribe((/** @type {any} */ event) => event.type === "link" && tab.links.push(event));
    tab.state.subscribe((/** @type {any} */ event) => event.type === "closed" && (tab.ended = event.reason));
    await tab.state.ready;
  }, options);
}

const link = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).state.link);
const status = async (/** @type {Page} */ page) => (await link(page)).status;
const ids = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).state.ids().sort().join(" "));
const put = (/** @type {Page} */ page, /** @type {string} */ id) => page.evaluate((id) => /** @type {any} */ (window).state.put(id, { n: 1 }), id);
const asked = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).asked);

test("ac_09 one question for everything in a page, and one more when the token has ended meanwhile", async ({ page }) => {
  const { shop, node, close } = await openSites();
  let asked = 0;
  // The first one has ended when it comes: a laptop that slept.
  await page.exposeFunction("newToken", () => ((asked += 1), tokenFor("7", asked === 1 ? -120 : 600)));
  await page.goto(shop.url);
  await page.evaluate(
    async ([url]) => {
      const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
      const tab = /** @type {any} */ (window);
      const token = () => tab.newToken();
      tab.states = ["cart-7", "cart-7"].map((space, n) => openState({ name: `basket ${n}`, bridge: { url, space, token } }));
      await Promise.all(tab.states.map((/** @type {any} */ state) => state.ready));
      await tab.states[0].put("apples", { n: 3 });
    },
    [node.url],
  );
  await expect.poll(() => page.evaluate(() => /** @type {any} */ (window).states[1].ids().join(" "))).toBe("apples");
  // Two states, their questions and one stream: one question for each of the two tokens.
  expect(asked).toBe(2);
  await close();
});

test("ac_09 a clock that is set, ahead or back, makes nobody ask again", async ({ page }) => {
  const { shop, node, close } = await openSites();
  // It counts for three minutes, and the clock moves by four: less than a state would mind.
  await page.exposeFunction("newToken", () => freshToken("7", 180));
  await page.goto(shop.url);
  await openBasket(page, { bridge: { url: node.url, space: "cart-7" } });
  await expect.poll(() => status(page)).toBe("in-step");
  for (const minutes of [4, -4]) {
    await page.evaluate((ms) => {
      const tab = /** @type {any} */ (window);
      tab.trueNow ??= Date.now.bind(Date);
      Date.now = () => tab.trueNow() + ms;
    }, minutes * 60_000);
    await put(page, `at ${minutes}`);
    await expect.poll(() => page.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(0);
    await expect.poll(() => status(page)).toBe("in-step");
  }
  expect(await asked(page)).toBe(1);
  await close();
});

test("ac_09 a stream is renewed before its token ends, without a refusal", async ({ page }) => {
  const { shop, node, close } = await openSites();
  await page.exposeFunction("newToken", () => freshToken("7", 4));
  /** @type {number[]} */
  const refused = [];
  page.on("response", (response) => response.url().startsWith(node.url) && response.status() >= 400 && refused.push(response.status()));
  await page.goto(shop.url);
  await openBasket(page, { bridge: { url: node.url, space: "cart-7" } });
  await expect.poll(() => asked(page)).toBeGreaterThanOrEqual(3);
  expect(refused).toEqual([]);
  expect(await status(page)).toMatch(/in-step|behind/);
  await close();
});

test("ac_09 a token that is no use ends in needs-auth with the node's word, not in a loop", async ({ page }) => {
  const { shop, node, close } = await openSites();
  let requests = 0;
  page.on("request", (request) => request.url().startsWith(node.url) && (requests += 1));
  await page.goto(shop.url);
  await page.clock.install();
  await openBasket(page, { bridge: { url: node.url, space: "cart-7", token: `${tokenFor("7").slice(0, -4)}AAAA` } });
  await expect.poll(() => link(page)).toEqual({ status: "needs-auth", detail: "token-invalid" });
  await put(page, "apples");
  const before = requests;
  for (let minutes = 0; minutes < 30; minutes += 2) await page.clock.runFor(2 * 60_000);
  expect(requests).toBe(before);
  expect(await status(page)).toBe("needs-auth");
  await close();
});

test("ac_09 another token goes on where one was refused, with everything that waited", async ({ page }) => {
  const { shop, node, close } = await openSites();
  await page.goto(shop.url);
  const good = tokenFor("7");
  await openBasket(page, { bridge: { url: node.url, space: "cart-7", token: `${good.slice(0, -4)}AAAA` } });
  await expect.poll(() => status(page)).toBe("needs-auth");
  await put(page, "apples");
  expect(await page.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(1);
  await page.evaluate((token) => /** @type {any} */ (window).state.resumeBridge({ token }), good);
  await expect.poll(() => status(page)).toBe("in-step");
  expect(await page.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(0);
  await close();
});

test("ac_09 a grant that is missing is named, and a fixed token that has ended is not shown again", async ({ page }) => {
  const { shop, node, close } = await openSites();
  await page.goto(shop.url);
  await openBasket(page, { bridge: { url: node.url, space: "cart-8", token: tokenFor("7") } });
  await expect.poll(() => link(page)).toEqual({ status: "needs-auth", detail: "forbidden", grant: "state:cart-8:read" });
  expect(await page.evaluate(() => /** @type {any} */ (window).links.at(-1))).toMatchObject({ type: "link", status: "needs-auth", grant: "state:cart-8:read" });
  await openBasket(page, { name: "ended", bridge: { url: node.url, space: "cart-7", token: tokenFor("7", -120) } });
  await expect.poll(() => link(page)).toEqual({ status: "needs-auth", detail: "token-expired" });
  await close();
});

test("ac_09 a function that fails is asked again, one that says that nobody is signed in is not", async ({ page }) => {
  const { shop, node, close } = await openSites();
  let calls = 0;
  let isSignedIn = true;
  await page.exposeFunction("newToken", () => {
    calls += 1;
    if (!isSignedIn) return null;
    if (calls < 3) throw new Error("the back end is away");
    return tokenFor("7");
  });
  await page.goto(shop.url);
  await openBasket(page, { bridge: { url: node.url, space: "cart-7" } });
  await expect.poll(() => status(page), { timeout: 30_000 }).toBe("in-step");
  expect(calls).toBe(3);
  isSignedIn = false;
  await openBasket(page, { name: "nobody", bridge: { url: node.url, space: "cart-7" } });
  await expect.poll(() => link(page)).toEqual({ status: "needs-auth", detail: "token-missing" });
  expect(calls).toBe(4);
  isSignedIn = true;
  await page.evaluate(() => /** @type {any} */ (window).state.resumeBridge());
  await expect.poll(() => status(page)).toBe("in-step");
  await close();
});

test("ac_09 the tab that talks to the node asks, and one with a better token takes over", async ({ context }) => {
  const { shop, node, close } = await openSites();
  const [first, second, third] = [await context.newPage(), await context.newPage(), await context.newPage()];
  for (const page of [first, second, third]) await page.goto(shop.url);
  await first.exposeFunction("newToken", () => `${tokenFor("7").slice(0, -4)}AAAA`);
  await second.exposeFunction("newToken", () => tokenFor("7"));
  await third.exposeFunction("newToken", () => tokenFor("7"));
  const bridge = { url: node.url, space: "cart-7" };
  await openBasket(first, { bridge });
  await expect.poll(() => status(first)).toBe("needs-auth");
  await openBasket(second, { bridge });
  await expect.poll(() => status(second)).toBe("in-step");
  // Its changes reach the node through the other tab now.
  await expect.poll(() => status(first)).toBe("follows");
  await put(first, "apples");
  await expect.poll(() => second.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(0);
  await openBasket(third, { bridge });
  await expect.poll(() => ids(third)).toBe("apples");
  expect(await Promise.all([asked(first), asked(second), asked(third)])).toEqual([1, 1, 0]);
  await close();
});

test("ac_10 two people on one device see nothing of each other, whatever the state is called", async ({ page }) => {
  const { shop, node, close } = await openSites();
  await page.goto(shop.url);
  await openBasket(page, { user: "7", bridge: { url: node.url, space: "cart-7", token: tokenFor("7") } });
  await put(page, "apples");
  await expect.poll(() => status(page)).toBe("in-step");
  await page.reload();
  await openBasket(page, { user: "8", bridge: { url: node.url, space: "cart-8", token: tokenFor("8") } });
  await expect.poll(() => status(page)).toBe("in-step");
  expect(await ids(page)).toBe("");
  await put(page, "pears");
  for (const [user, shown] of [["7", "apples"], ["8", "pears"], [":7", ""], ["7:", ""]]) {
    await page.reload();
    await openBasket(page, { user, bridge: { url: node.url, space: "cart-7", token: tokenFor("7") } });
    if (shown !== "") expect(await ids(page), user).toBe(shown);
  }
  const names = await page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
  expect(new Set(names).size).toBe(names.length);
  await close();
});

test("ac_10 what was not sent never goes out under another name", async ({ page }) => {
  const { shop, node, ask, close } = await openSites();
  let who = "7";
  await page.exposeFunction("newToken", () => tokenFor(who));
  await page.goto(shop.url);
  // A space that both may write: the node would take it from either.
  const bridge = { url: node.url, space: "shared" };
  await openBasket(page, { bridge });
  await expect.poll(() => status(page)).toBe("in-step");
  await node.kill();
  await put(page, "of 7");
  await page.reload();
  await node.resume();
  who = "8";
  await openBasket(page, { bridge });
  await expect.poll(() => link(page)).toEqual({ status: "needs-auth", detail: "other-user" });
  expect(await page.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(1);
  expect((await ask("/api/state/shared?after=0")).changes).toEqual([]);
  // The one whose they are is back.
  who = "7";
  await page.evaluate(() => /** @type {any} */ (window).state.resumeBridge());
  await expect.poll(() => status(page)).toBe("in-step");
  expect((await ask("/api/state/shared?after=0")).changes).toHaveLength(1);
  await close();
});

test("ac_10 signing out says what was not sent, erases it, and ends the other tabs", async ({ context }) => {
  const { shop, node, close } = await openSites();
  const [page, other] = [await context.newPage(), await context.newPage()];
  for (const tab of [page, other]) {
    await tab.goto(shop.url);
    await openBasket(tab, { user: "7", bridge: { url: node.url, space: "cart-7", token: tokenFor("7") } });
  }
  await put(page, "sent");
  await expect.poll(() => page.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(0);
  await node.kill();
  await put(page, "unsent 1");
  await put(other, "unsent 2");
  await expect.poll(() => page.evaluate(() => /** @type {any} */ (window).state.unsent)).toBe(2);
  expect(await page.evaluate(() => /** @type {any} */ (window).state.close({ erase: true }))).toEqual({ unsent: 2 });
  await expect.poll(() => other.evaluate(() => /** @type {any} */ (window).ended)).toBe("erased");
  expect(await page.evaluate(() => /** @type {any} */ (window).ended)).toBe("erased");
  const databases = () => page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name).filter((name) => name?.includes("basket")));
  await expect.poll(databases).toEqual([]);
  await openBasket(page, { user: "7" , bridge: { url: node.url, space: "cart-7", token: tokenFor("7") } });
  expect(await ids(page)).toBe("");
  await close();
});

test("ac_04 a secret key is refused in a page, wherever it is given, in words that say what to use", async ({ page }) => {
  const { shop, node, dashboard, close } = await openSites();
  await page.goto(shop.url);
  const given = await page.evaluate(async (token) => {
    const [{ openState }, { startViewer }, { connect }] = await Promise.all(
      ["state", "viewer", "client"].map((door) => import(/** @type {any} */ (`/pkg/${door}.js`))),
    );
    const attempts = [
      () => openState({ name: "secret", bridge: { space: "cart-7", token } }),
      () => startViewer({ token }),
      () => connect({ token }),
    ];
    return attempts.map((attempt) => {
      try {
        attempt();
        return "accepted";
      } catch (error) {
        return `${/** @type {any} */ (error).name} ${/** @type {any} */ (error).code}: ${/** @type {any} */ (error).message}`;
      }
    });
  }, dashboard);
  for (const said of given) expect(said).toMatch(/^SynclineError secret-key: .*belongs on servers.*publishable key/);
  expect(given.join()).not.toContain(dashboard);
  // From a function it comes later, and goes nowhere.
  let requests = 0;
  page.on("request", (request) => request.url().startsWith(node.url) && (requests += 1));
  await page.exposeFunction("newToken", () => dashboard);
  await openBasket(page, { bridge: { url: node.url, space: "cart-7" } });
  await expect.poll(() => link(page)).toEqual({ status: "needs-auth", detail: "secret-key" });
  expect(requests).toBe(0);
  await close();
});

test("ac_09 a viewer whose token has ended asks for another one, and one whose token is no use ends and says so", async ({ page }) => {
  const { shop, node, ask, close } = await openSites();
  let calls = 0;
  await page.exposeFunction("newToken", () => ((calls += 1), tokenFor("7", calls === 1 ? -120 : 600)));
  await page.goto(shop.url);
  await page.evaluate(async (url) => {
    const tab = /** @type {any} */ (window);
    const { startViewer } = await import(/** @type {any} */ ("/pkg/viewer.js"));
    tab.viewer = startViewer({ endpoint: `${url}/api/viewer`, token: () => tab.newToken() });
  }, node.url);
  await expect.poll(async () => (await ask("/api/viewer")).viewers).toBe(1);
  expect(calls).toBe(2);
  await page.evaluate(() => /** @type {any} */ (window).viewer.stop());
  await expect.poll(async () => (await ask("/api/viewer")).viewers).toBe(0);
  const said = await page.evaluate(
    async ([url, token]) => {
      const { startViewer } = await import(/** @type {any} */ ("/pkg/viewer.js"));
      return new Promise((resolve) => startViewer({ endpoint: `${url}/api/viewer`, token, onError: (/** @type {any} */ { code, reason }) => resolve(`${code} ${reason}`) }));
    },
    [node.url, `${tokenFor("7").slice(0, -4)}AAAA`],
  );
  expect(said).toBe("needs-auth token-invalid");
  expect((await ask("/api/viewer")).viewers).toBe(0);
  await close();
});
