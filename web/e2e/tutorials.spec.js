// The tutorials that go on in a browser, line by line: their files are written, their commands run against a fresh node, and what they say happens in a
// page is done in Chromium.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { chromium, expect, test as base } from "@playwright/test";
import { CHROMIUM, FLAGS } from "./support/chromium.js";
import { commands, expectOutput, ROOT, run, snippets } from "./support/documents.js";
import { Node } from "./support/node.js";

const test = /** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & import("@playwright/test").PlaywrightWorkerArgs & { folder: string }, {}>} */ (
  base.extend({
    folder: async ({}, use) => {
      const folder = await mkdtemp(join(tmpdir(), "syncline-tutorial-"));
      await use(folder);
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  })
);

/** What npm would install. */
async function install(/** @type {string} */ folder) {
  await mkdir(join(folder, "node_modules"), { recursive: true });
  await symlink(join(ROOT, "web/pkg"), join(folder, "node_modules/syncline"));
  await symlink(join(ROOT, "web/node_modules/esbuild"), join(folder, "node_modules/esbuild"));
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

test.setTimeout(120_000);

test("cn_11 the page's tutorial: two tabs and another browser show one list, a server writes to it, and viewers are counted", async ({ browser, folder }) => {
  const port = await freePort();
  const site = `http://127.0.0.1:${port}`;
  /** @type {Node | null} */
  let node = null;
  /** @type {import("node:child_process").ChildProcess | null} */
  let server = null;
  const here = (/** @type {string} */ text) => text.replaceAll("http://127.0.0.1:8000", site).replaceAll("http://127.0.0.1:3000", node?.url ?? "").replaceAll("http.server 8000", `http.server ${port}`);
  const environment = () => ({ PATH: `${dirname(process.env.SYNCLINE_BIN ?? "")}:${join(ROOT, "web/node_modules/.bin")}:${process.env.PATH}`, HOME: folder, SYNCLINE_URL: node?.url });
  /** @type {import("@playwright/test").Page[]} */
  let pages = [];
  const contexts = [await browser.newContext(), await browser.newContext()];
  let said = "";
  try {
    for (const snippet of await snippets("docs/tutorial-frontend.md")) {
      if (snippet.file) await writeFile(join(folder, snippet.file), here(snippet.text));
      if (snippet.language === "output") expectOutput(said, snippet.text, `docs/tutorial-frontend.md:${snippet.line}`);
      if (snippet.language !== "sh") continue;
      for (const { command, line } of commands(snippet)) {
        if (command === "syncline serve") {
          const [toml] = (await snippets("docs/tutorial-frontend.md")).filter(({ file }) => file === "syncline.toml");
          node = await Node.start({ config: here(toml.text), environment: { SYNCLINE_APPS: "" } });
        } else if (command.startsWith("npm install ")) await install(folder);
        else if (command.includes("http.server")) {
          server = spawn("bash", ["-c", `exec ${here(command)}`], { cwd: folder, stdio: "ignore" });
          await expect.poll(() => fetch(site).then(({ status }) => status, () => 0)).toBe(200);
          pages = [await contexts[0].newPage(), await contexts[0].newPage(), await contexts[1].newPage()];
          for (const page of pages) {
            await page.goto(site);
            await expect(page.locator("#link")).toHaveText(/^(in-step|follows)$/);
          }
          await pages[0].getByLabel("Milk").check();
          for (const page of pages) await expect(page.getByLabel("Milk")).toBeChecked();
          await expect.poll(async () => (await fetch(`${node?.url}/api/state/list-ann/milk`)).status).toBe(200);
        } else {
          const { code, output } = await run(here(command), folder, environment());
          said = output;
          expect(code, `docs/tutorial-frontend.md:${line}: ${command}\n${output}`).toBe(0);
          if (command.includes("-X PUT")) for (const page of pages) await expect(page.getByLabel("Milk")).not.toBeChecked();
          if (command.startsWith("syncline viewers")) expect(JSON.parse(output).viewers).toBe(3);
        }
      }
    }
    // What the text says of a node that is away.
    await node?.kill();
    await pages[1].getByLabel("Milk").check();
    await expect(pages[0].getByLabel("Milk")).toBeChecked();
    await node?.resume();
    await expect(pages[2].getByLabel("Milk")).toBeChecked({ timeout: 60_000 });
  } finally {
    for (const context of contexts) await context.close();
    server?.kill();
    await node?.remove();
  }
});

test("cn_11 the extension's tutorial: popup, options page and service worker show the same entities", async ({ folder }) => {
  for (const snippet of await snippets("docs/tutorial-extension.md")) {
    if (snippet.file) await writeFile(join(folder, snippet.file), snippet.text);
    if (snippet.language !== "sh") continue;
    for (const { command, line } of commands(snippet)) {
      if (command.startsWith("npm install ")) await install(folder);
      else expect(await run(command, folder, { PATH: process.env.PATH }), `docs/tutorial-extension.md:${line}`).toEqual({ code: 0, output: "" });
    }
  }
  // A link into the tree is nothing that Chrome would load.
  await rm(join(folder, "node_modules"), { recursive: true });
  const profile = await mkdtemp(join(tmpdir(), "syncline-tutorial-profile-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: CHROMIUM, args: [...FLAGS, `--disable-extensions-except=${folder}`, `--load-extension=${folder}`] });
  try {
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
    const address = `chrome-extension://${new URL(worker.url()).host}/popup.html`;
    const [one, other] = [await context.newPage(), await context.newPage()];
    for (const page of [one, other]) await page.goto(address);
    await expect(one.locator("#times")).toHaveText("ticked 0 times");
    await one.getByLabel("Milk").check();
    await expect(other.getByLabel("Milk")).toBeChecked();
    await expect(other.locator("#times")).toHaveText("ticked 1 times");
    await other.getByLabel("Milk").uncheck();
    await expect(one.getByLabel("Milk")).not.toBeChecked();
  } finally {
    await context.close();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
});
