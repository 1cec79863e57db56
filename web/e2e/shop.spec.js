// The example in examples/shop/site as its README runs it: a shop on one origin, a node on another, visitors who each have a basket.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AxeBuilder } from "@axe-core/playwright";
import { Node } from "./support/node.js";
import { expect, test } from "./support/test.js";

const SITE = join(import.meta.dirname, "../../examples/shop/site");
const SECRET = "a-secret-that-the-shop-and-its-node-share";

test.use({ expectedErrors: /Failed to load resource|net::ERR_/ });

/** A port that was free a moment ago: the node has to know the shop's address before the shop starts, and the other way round. */
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

/** The shop's back end and its node. */
async function openShop() {
  const folder = await mkdtemp(join(tmpdir(), "syncline-e2e-shop-"));
  const secret = join(folder, "shop.secret");
  await writeFile(secret, `${SECRET}\n`);
  const [shopPort, nodePort] = [await freePort(), await freePort()];
  const [url, nodeUrl] = [`http://127.0.0.1:${shopPort}`, `http://127.0.0.1:${nodePort}`];
  const config = `[[issuers]]
name = "shop"
issuer = "${url}"
audience = "${nodeUrl}"
keys = [{ kid = "shop-1", secret_file = "${secret}" }]
origins = ["${url}"]
may = ["state:basket-{sub}:read,write"]
`;
  const node = await Node.start({ config, environment: { SYNCLINE_TOKEN: "the-owner-s-token-0123456789abcdef", SYNCLINE_LISTEN: `127.0.0.1:${nodePort}` } });
  const environment = { PATH: process.env.PATH, PORT: String(shopPort), NODE_URL: nodeUrl, SECRET_FILE: secret };
  const shop = spawn("npm", ["start", "--silent"], { cwd: SITE, env: environment, stdio: ["ignore", "pipe", "inherit"], detached: true });
  await new Promise((resolve, reject) => {
    createInterface({ input: /** @type {import("node:stream").Readable} */ (shop.stdout) }).on("line", (line) => line.startsWith("the shop is at") && resolve(line));
    shop.on("exit", (code) => reject(new Error(`the shop ended with ${code}`)));
  });
  const close = async () => {
    const ended = once(shop, "exit");
    // npm and what it started.
    process.kill(-(/** @type {number} */ (shop.pid)), "SIGTERM");
    await ended;
    await node.remove();
    await rm(folder, { recursive: true, force: true });
  };
  return { url, node, close };
}

async function comeIn(/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ name) {
  await page.getByLabel("Name").fill(name);
  await page.keyboard.press("Enter");
  await expect(page.locator("#link")).toHaveText("In step");
}

const basket = (/** @type {import("@playwright/test").Page} */ page) =>
  page.locator("#basket li").evaluateAll((rows) => rows.map((row) => `${/** @type {HTMLElement} */ (row).dataset.id} ${row.querySelector(".n")?.textContent}`).join(", "));

test("ac_06 ac_10 each visitor of the shop has a basket on every device, and nobody else's", async ({ context }) => {
  const browser = /** @type {import("@playwright/test").Browser} */ (context.browser());
  const { url, node, close } = await openShop();
  const contexts = [await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme: "dark" }), await browser.newContext()];
  const [phone, laptop] = await Promise.all(contexts.map((each) => each.newPage()));
  for (const page of [phone, laptop]) {
    await page.goto(url);
    await comeIn(page, "ada");
  }
  await phone.getByRole("button", { name: "Add Apples" }).click();
  await expect.poll(() => basket(laptop)).toBe("apples 1");
  await laptop.getByRole("button", { name: "One more: Apples" }).click();
  await laptop.getByRole("button", { name: "Add Coffee" }).click();
  await expect.poll(() => basket(phone)).toBe("apples 2, coffee 1");
  await expect(phone.locator("#total")).toHaveText("Together €13.30");
  for (const page of [phone, laptop]) {
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]).analyze();
    expect(violations.map(({ id }) => id)).toEqual([]);
  }
  await phone.screenshot({ path: "e2e/results/screens/shop-phone-dark.png", fullPage: true });
  await laptop.screenshot({ path: "e2e/results/screens/shop-desktop-light.png", fullPage: true });

  // Offline the basket waits; signing out says so, and leaves nothing behind.
  await node.kill();
  await laptop.getByRole("button", { name: "Add Honey" }).click();
  await expect(laptop.locator("#link")).toHaveText("Offline: kept on this device");
  /** @type {string[]} */
  const asked = [];
  laptop.on("dialog", (dialog) => (asked.push(dialog.message()), dialog.dismiss()));
  await laptop.getByRole("button", { name: "Sign out" }).click();
  await expect.poll(() => asked.join()).toContain("One change was not sent yet");
  await node.resume();
  await expect.poll(() => basket(phone), { timeout: 30_000 }).toBe("apples 2, coffee 1, honey 1");
  await expect(laptop.locator("#link")).toHaveText("In step", { timeout: 30_000 });
  await laptop.getByRole("button", { name: "Sign out" }).click();
  await expect(laptop.getByRole("heading", { name: "Who is shopping?" })).toBeVisible();
  await expect.poll(() => laptop.evaluate(async () => (await indexedDB.databases()).filter(({ name }) => name?.includes("ada")).length)).toBe(0);

  // The next visitor of this device finds an empty basket.
  await comeIn(laptop, "bob");
  expect(await basket(laptop)).toBe("");
  await laptop.getByRole("button", { name: "Add Soap" }).click();
  await expect.poll(() => basket(laptop)).toBe("soap 1");
  await expect(laptop.locator("#link")).toHaveText("In step");
  expect(await basket(phone)).toBe("apples 2, coffee 1, honey 1");
  // And can reach no other, although both tokens are the shop's.
  const reached = await laptop.evaluate(async (node) => {
    const { token } = await (await fetch("/token")).json();
    return (await fetch(`${node}/api/state/basket-ada`, { headers: { authorization: `Bearer ${token}` } })).status;
  }, node.url);
  expect(reached).toBe(403);
  await Promise.all(contexts.map((each) => each.close()));
  await close();
});
