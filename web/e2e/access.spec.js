// Pages of other sites (AC-06), in a real browser: a shop on one origin uses a node on another, and a site that has stolen its
// visitor's token or its publishable key can do nothing with them. engine-access.spec.js does the same in other engines.

import { callInPage, forgedTokens, OWNER, openSites, tokenFor } from "./support/sites.js";
import { expect, test } from "./support/test.js";

/** @typedef {import("@playwright/test").Page} Page */

const call = (/** @type {Page} */ page, /** @type {string} */ url, /** @type {string | null} */ token, /** @type {unknown} */ body = null) =>
  page.evaluate(callInPage, { url, token, body });

const openBasket = (/** @type {Page} */ page, /** @type {object} */ bridge) =>
  page.evaluate(async (bridge) => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    const tab = /** @type {any} */ (window);
    tab.state = openState({ name: `basket ${bridge.space}`, bridge });
    await tab.state.ready;
  }, /** @type {any} */ (bridge));

const basket = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).state.ids().sort().join(" "));

test.use({ expectedErrors: /Failed to load resource|blocked by CORS policy|net::ERR_/ });

test("ac_06 a visitor of a shop syncs a basket with a node on another origin, on two devices", async ({ context }) => {
  const browser = /** @type {import("@playwright/test").Browser} */ (context.browser());
  const { shop, node, close } = await openSites();
  const devices = [await browser.newContext(), await browser.newContext()];
  const bridge = { url: node.url, space: "cart-7", token: tokenFor("7") };
  const [phone, laptop] = await Promise.all(devices.map((device) => device.newPage()));
  for (const page of [phone, laptop]) {
    await page.goto(shop.url);
    await openBasket(page, bridge);
  }
  await phone.evaluate(() => /** @type {any} */ (window).state.put("apples", { n: 3 }));
  await expect.poll(() => basket(laptop)).toBe("apples");
  await laptop.evaluate(() => /** @type {any} */ (window).state.put("pears", { n: 1 }));
  await expect.poll(() => basket(phone)).toBe("apples pears");
  await Promise.all(devices.map((device) => device.close()));
  await close();
});

test("ac_06 ac_07 a page of a listed origin reaches what its token grants and nothing else", async ({ page }) => {
  const { shop, node, close } = await openSites();
  await page.goto(shop.url);
  const token = tokenFor("7");
  expect(await call(page, `${node.url}/api/locks/doc:1/acquire`, token, { holder: "tab", ttl_ms: 5_000 })).toMatchObject({ status: 200 });
  expect(await call(page, `${node.url}/api/queues/words`, token, { kind: "new", keys: ["a"] })).toMatchObject({ status: 202, added: 1 });
  expect(await call(page, `${node.url}/api/session`, token)).toMatchObject({ status: 200, authenticated: true, subject: "7" });
  expect(await call(page, `${node.url}/api/state/cart-8`, token)).toMatchObject({ status: 403, code: "forbidden", grant: "state:cart-8:read" });
  expect(await call(page, `${node.url}/api/kv`, token)).toMatchObject({ status: 403 });
  // The list shows the locks that this page may see, and names who holds them by who they are.
  await call(page, `${node.url}/api/locks/doc:2/acquire`, tokenFor("8"), { holder: "other", ttl_ms: 5_000 });
  const { locks } = /** @type {any} */ (await call(page, `${node.url}/api/locks`, token));
  expect(locks.map((/** @type {any} */ lock) => `${lock.name} ${lock.holder}`).sort()).toEqual(["doc:1 7/tab", "doc:2 8/other"]);
  await close();
});

test("ac_06 ac_09 a page of another site holds a lock, adds to a queue, hears of both and is counted as a viewer, by a token function", async ({
  page,
}) => {
  const { shop, node, ask, close } = await openSites();
  let asked = 0;
  await page.exposeFunction("newToken", () => ((asked += 1), tokenFor("7")));
  await page.goto(shop.url);
  const heard = await page.evaluate(async (url) => {
    const tab = /** @type {any} */ (window);
    const token = () => tab.newToken();
    const { connect } = await import(/** @type {any} */ ("/pkg/client.js"));
    const { startViewer } = await import(/** @type {any} */ ("/pkg/viewer.js"));
    const client = connect({ url, token });
    /** @type {any[]} */
    const heard = [];
    const told = (/** @type {string} */ type) =>
      new Promise((resolve) => (tab.waiting = (/** @type {any} */ event) => event.type.startsWith(type) && resolve(event)));
    const opened = told("open");
    client.listen({ topics: "lock,queue" }, (/** @type {any} */ event) => (heard.push(event), tab.waiting(event)));
    await opened;
    const locked = told("lock");
    const lease = await client.call("POST", "/api/locks/doc:1/acquire", { holder: "tab", ttl_ms: 30_000 });
    await locked;
    await client.call("POST", "/api/locks/doc:1/release", { leaseId: lease.leaseId });
    const queued = told("queue");
    await client.call("POST", "/api/queues/words", { kind: "new", keys: ["a"] });
    await queued;
    tab.viewer = startViewer({ endpoint: `${url}/api/viewer`, token });
    await tab.viewer.sessionId;
    return heard.map(({ type }) => type);
  }, node.url);
  expect(heard.filter((type) => type.startsWith("lock")).length).toBeGreaterThan(0);
  expect(heard.filter((type) => type.startsWith("queue")).length).toBeGreaterThan(0);
  await expect.poll(async () => (await ask("/api/viewer")).viewers).toBe(1);
  await page.evaluate(() => /** @type {any} */ (window).viewer.stop());
  await expect.poll(async () => (await ask("/api/viewer")).viewers).toBe(0);
  // One function, three users of it: one question.
  expect(asked).toBe(1);
  await close();
});

test("ac_06 a site that nobody knows can do nothing with a stolen token, a stolen publishable key or the owner's cookie", async ({ page }) => {
  const { shop, stranger, node, publishable, ask, holders, close } = await openSites();
  // The owner is signed in, in this very browser.
  await page.goto(node.url);
  await page.getByLabel("Token", { exact: true }).fill(OWNER);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Overview");
  await page.goto(stranger.url);
  const lock = `${node.url}/api/locks/doc:1/acquire`;
  for (const token of [tokenFor("7"), publishable, OWNER, null]) {
    expect(await call(page, lock, token, { holder: "thief", ttl_ms: 5_000 })).toEqual({ kept: true });
    expect(await call(page, `${node.url}/api/state/shared`, token)).toEqual({ kept: true });
    expect(await call(page, `${node.url}/api/queues/words`, token, { kind: "new", keys: ["stolen"] })).toEqual({ kept: true });
  }
  // What needs no permission to be sent, a form for one, is not obeyed either.
  await page.evaluate(
    (url) => fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body: JSON.stringify({ kind: "new", keys: ["sent"] }) }).catch(() => {}),
    `${node.url}/api/queues/words`,
  );
  const events = page.evaluate(
    (url) => new Promise((resolve) => (new EventSource(url, { withCredentials: true }).onerror = () => resolve("refused"))),
    `${node.url}/api/events?topics=lock`,
  );
  expect(await events).toBe("refused");
  expect(await holders()).toEqual([]);
  expect((await ask("/api/queues")).queues[0]).toMatchObject({ name: "words", counts: { waiting: 0, failed: 0, dead: 0 } });
  // On the shop's own pages the key does what it is for, and no more.
  await page.goto(shop.url);
  expect(await call(page, `${node.url}/api/state/shared`, publishable)).toMatchObject({ status: 200 });
  expect(await call(page, `${node.url}/api/state/shared`, publishable, { changes: [] })).toMatchObject({ status: 403, grant: "state:shared:write" });
  expect(await call(page, lock, publishable, { holder: "menu", ttl_ms: 5_000 })).toMatchObject({ status: 403, grant: "lock:doc:1:hold" });
  await close();
});

test("ac_06 ac_05 an expired, a narrowed and a forged token can do nothing that they were not given", async ({ page }) => {
  const { shop, node, holders, close } = await openSites();
  await page.goto(shop.url);
  const lock = `${node.url}/api/locks/doc:1/acquire`;
  const take = { holder: "forger", ttl_ms: 5_000 };
  expect(await call(page, lock, tokenFor("7", -120), take)).toMatchObject({ status: 401, code: "token-expired" });
  const narrowed = tokenFor("7", 600, { may: ["state:cart-7:read", "state:cart-8:read,write", "kv:*:read"] });
  expect(await call(page, `${node.url}/api/state/cart-7`, narrowed)).toMatchObject({ status: 200 });
  expect(await call(page, lock, narrowed, take)).toMatchObject({ status: 403, grant: "lock:doc:1:hold" });
  // A list of grants of its own widens nothing.
  expect(await call(page, `${node.url}/api/state/cart-8`, narrowed)).toMatchObject({ status: 403 });
  expect(await call(page, `${node.url}/api/kv`, narrowed)).toMatchObject({ status: 403 });
  for (const [what, token] of Object.entries(forgedTokens())) {
    expect(await call(page, lock, token, take), what).toMatchObject({ status: 401, code: "token-invalid" });
  }
  expect(await holders()).toEqual([]);
  await close();
});
