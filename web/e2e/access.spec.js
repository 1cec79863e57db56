// Pages of other sites (AC-06), in a real browser: a shop on one origin syncs a basket with a node on another, and a site that has stolen
// its visitor's token can do nothing with it.

import { createHmac } from "node:crypto";
import { openLockServer } from "./support/lock-server.js";
import { Node } from "./support/node.js";
import { expect, test } from "./support/test.js";

const SECRET = "correct-horse-battery-staple-and-more";

/** What the shop's back end gives to a visitor who is signed in. */
function tokenFor(/** @type {string} */ sub, seconds = 600) {
  const encoded = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: "https://shop.example", aud: "https://node.example", sub, iat: now - 300, exp: now + seconds };
  const message = `${encoded({ alg: "HS256", typ: "JWT" })}.${encoded(claims)}`;
  return `${message}.${createHmac("sha256", SECRET).update(message).digest("base64url")}`;
}

/** A node that knows the shop's origin, the shop, and a site that nobody knows. */
async function openSites() {
  const [shop, stranger] = [await openLockServer(), await openLockServer()];
  const config = `[[issuers]]
name = "shop"
issuer = "https://shop.example"
audience = "https://node.example"
keys = [{ secret = "${SECRET}" }]
origins = ["${shop.url}"]
may = ["state:cart-{sub}:read,write", "lock:doc:*:hold,see", "queue:words:add,read", "viewer:*:count"]

[[queues]]
name = "words"
interval_ms = 0
url = "http://127.0.0.1:9/{key}"
`;
  const node = await Node.start({ config, environment: { SYNCLINE_TOKEN: "the-owner-s-token-0123456789abcdef" } });
  const close = async () => {
    await node.remove();
    await Promise.all([shop.close(), stranger.close()]);
  };
  return { shop, stranger, node, close };
}

/** What a page gets for a call: the status and the answer, or that the browser kept it from the page. */
const call = (/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ url, /** @type {string} */ token, /** @type {unknown} */ body) =>
  page.evaluate(
    async ({ url, token, body }) => {
      const method = body === null ? "GET" : "POST";
      const headers = { authorization: `Bearer ${token}`, ...(body === null ? {} : { "content-type": "application/json" }) };
      try {
        const answer = await fetch(url, { method, headers, ...(body === null ? {} : { body: JSON.stringify(body) }) });
        return { status: answer.status, ...(await answer.json()) };
      } catch {
        return { kept: true };
      }
    },
    { url, token, body: body ?? null },
  );

const openBasket = (/** @type {import("@playwright/test").Page} */ page, /** @type {object} */ bridge) =>
  page.evaluate(async (bridge) => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    const tab = /** @type {any} */ (window);
    tab.state = openState({ name: `basket ${bridge.space}`, bridge });
    await tab.state.ready;
  }, /** @type {any} */ (bridge));

const basket = (/** @type {import("@playwright/test").Page} */ page) =>
  page.evaluate(() => /** @type {any} */ (window).state.ids().sort().join(" "));

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
  expect(await call(page, `${node.url}/api/session`, token, undefined)).toMatchObject({ status: 200, authenticated: true, subject: "7" });
  expect(await call(page, `${node.url}/api/state/cart-8`, token, undefined)).toMatchObject({
    status: 403,
    code: "forbidden",
    grant: "state:cart-8:read",
  });
  expect(await call(page, `${node.url}/api/kv`, token, undefined)).toMatchObject({ status: 403 });
  // The list shows the one lock that this page may see, and names who holds it by who they are.
  await call(page, `${node.url}/api/locks/doc:2/acquire`, tokenFor("8"), { holder: "other", ttl_ms: 5_000 });
  const { locks } = /** @type {any} */ (await call(page, `${node.url}/api/locks`, token, undefined));
  expect(locks.map((/** @type {any} */ lock) => `${lock.name} ${lock.holder}`).sort()).toEqual(["doc:1 7/tab", "doc:2 8/other"]);
  await close();
});

test("ac_06 a stolen, expired or forged token is of no use", async ({ page }) => {
  const { shop, stranger, node, close } = await openSites();
  const token = tokenFor("7");
  // On another site the browser shows the page nothing, and the node has done nothing.
  await page.goto(stranger.url);
  const lock = `${node.url}/api/locks/doc:1/acquire`;
  expect(await call(page, lock, token, { holder: "thief", ttl_ms: 5_000 })).toEqual({ kept: true });
  expect(await call(page, `${node.url}/api/state/cart-7`, token, undefined)).toEqual({ kept: true });
  await page.goto(shop.url);
  const seen = /** @type {any} */ (await call(page, `${node.url}/api/locks`, token, undefined));
  expect(seen.locks).toEqual([]);
  expect(await call(page, lock, tokenFor("7", -120), { holder: "late", ttl_ms: 5_000 })).toMatchObject({ status: 401, code: "token-expired" });
  const forged = `${token.slice(0, -4)}AAAA`;
  expect(await call(page, lock, forged, { holder: "forger", ttl_ms: 5_000 })).toMatchObject({ status: 401, code: "token-invalid" });
  await close();
});

test("ac_09 a token is asked for once, and again when it has ended", async ({ page }) => {
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

test("ac_04 ac_09 a secret key is refused in a page, and a token that is no use is told in the status", async ({ page }) => {
  const { shop, node, close } = await openSites();
  await page.goto(shop.url);
  const refused = page.evaluate(async () => {
    const { openState } = await import(/** @type {any} */ ("/pkg/state.js"));
    openState({ name: "secret", bridge: { space: "cart-7", token: `slk_${"a".repeat(43)}` } });
  });
  await expect(refused).rejects.toThrow(/belongs on servers/);
  await openBasket(page, { url: node.url, space: "cart-8", token: tokenFor("7") });
  const link = () => page.evaluate(() => /** @type {any} */ (window).state.link);
  await expect.poll(link).toMatchObject({ status: "refused", detail: "forbidden" });
  await close();
});
