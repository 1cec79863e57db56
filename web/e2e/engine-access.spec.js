// Pages of other sites in Firefox and WebKit (AC-06): state, lock, queue, events and viewer of a node on another origin, for a page that it lets in and
// not for another.

import { callInPage, openSites, tokenFor } from "./support/sites.js";
import { expect, openTab, test } from "./support/engines.js";

test.setTimeout(120_000);

test("ac_06 a page of a listed origin uses every system of a node on another origin, and a stranger none, in the other engines", async ({ open }) => {
  const { shop, stranger, node, publishable, ask, holders, close } = await openSites();
  const browser = await open();
  const tab = await openTab(browser, shop.url);
  const token = tokenFor("7");
  const heard = await tab.evaluate(
    async (url, token) => {
      const page = /** @type {any} */ (window);
      let asked = 0;
      const ask = async () => ((asked += 1), token);
      const [{ openState }, { connect }, { startViewer }] = await Promise.all(
        ["state", "client", "viewer"].map((door) => import(/** @type {any} */ (`/pkg/${door}.js`))),
      );
      const client = connect({ url, token: ask });
      /** @type {(event: any) => void} */
      let waiting = () => {};
      const told = (/** @type {string} */ type) =>
        new Promise((resolve) => (waiting = (event) => event.type.startsWith(type) && resolve(event)));
      const opened = told("open");
      client.listen({ topics: "lock,queue" }, (/** @type {any} */ event) => waiting(event));
      await opened;
      const locked = told("lock");
      const lease = await client.call("POST", "/api/locks/doc:1/acquire", { holder: "tab", ttl_ms: 30_000 });
      await locked;
      const queued = told("queue");
      await client.call("POST", "/api/queues/words", { kind: "new", keys: ["a"] });
      await queued;
      page.viewer = startViewer({ endpoint: `${url}/api/viewer`, token: ask });
      await page.viewer.sessionId;
      page.state = openState({ name: "basket", bridge: { url, space: "cart-7", token: ask } });
      await page.state.ready;
      await page.state.put("apples", { n: 3 });
      return { fencing: typeof lease.token, asked };
    },
    node.url,
    token,
  );
  expect(heard).toEqual({ fencing: "number", asked: 1 });
  await expect.poll(async () => (await ask("/api/state/cart-7?after=0")).changes.length, { timeout: 20_000 }).toBe(1);
  await expect.poll(async () => (await ask("/api/viewer")).viewers).toBe(1);
  expect(await holders()).toEqual(["7/tab"]);

  const thief = await openTab(browser, stranger.url);
  for (const stolen of [token, publishable, null]) {
    for (const [path, body] of [["/api/state/shared", null], ["/api/locks/doc:2/acquire", { holder: "thief", ttl_ms: 5_000 }], ["/api/queues/words", { kind: "new", keys: ["b"] }]]) {
      expect(await thief.evaluate(callInPage, { url: node.url + path, token: stolen, body })).toEqual({ kept: true });
    }
  }
  expect(await holders()).toEqual(["7/tab"]);
  await close();
});
