// Every snippet of README.md, the guides and the packages' READMEs, pasted: commands are run in the order of their document
// against a fresh node, in a folder of their own; TOML is checked by the node, JSON parsed, JavaScript bundled with the package.
// A snippet that names a file (```py file=worker.py) is written there. A snippet `output` is what the last command before it says; `…` stands
// for anything. A tutorial starts a node of its own, with the file that it has written.
// What cannot be pasted here is named below with its reason.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, copyFile, cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { commands, expectOutput, ROOT, run, snippets } from "./support/documents.js";
import { openDatabase } from "./support/sqlite.js";
import { expect, test as base } from "@playwright/test";
import { build } from "esbuild";
import { Node } from "./support/node.js";

import { startUpstreams } from "../../apps/stand-ins/e2e/upstreams.js";

const PLATFORM_README = "crates/syncline-browser/js/README.md";
const BOOKSHELF_README = "apps/bookshelf/browser/js/README.md";
const BINARY = process.env.SYNCLINE_BIN ?? "";

/** By the beginning of a command: why it is not run here. */
const NOT_RUN = /** @type {[RegExp, string][]} */ ([
  [/^cargo /, "builds and tests everything, this test included"],
  [/^(install|systemctl|journalctl) /, "changes the machine's own services"],
  [/^npm install \.\/dist\//, "needs what `cargo xtask dist` makes"],
  [/^syncline serve( &)?$/, "the node is started by the test, on a port of its own"],
  [/^syncline demo upstreams( --listen .*)?$/, "the stand-ins are started by the test, on a port of their own"],
  [/--(watch|follow)$/, "runs until it is ended"],
  [/^syncline worker /, "runs until it is ended; tests of processes run workers of every kind"],
  [/\/api\/guestbook/, "a part of the reader's own: examples/own-part has a test"],
  [/^(esbuild app\.js|cp node_modules\/syncline)/, "has a test of its own, below: the result has to run in a browser"],
]);

/** These go on until they are ended: they are started, and ended with their document. */
const BACKGROUND = /^(syncline serve$|syncline demo call --every|serversync$)/;

/** Commands that the text says may fail, or whose example stands for something of the reader's own. */
const MAY_FAIL = /** @type {[RegExp, string][]} */ ([
  [/^syncline lock release nightly --force/, "nobody holds it any more"],
  [/^syncline outbox (show|discard) 42/, "42 stands for the number of an entry of the reader's"],
  [/^syncline scan/, "a stand-in's library does not have every book, and the command says so by its exit code"],
  [/^curl -sN --max-time/, "ends the stream by its time limit"],
  [/^syncline token revoke/, "the issuer is in shop.toml, which the test's node does not have; a process test does it with one that has"],
  [/^syncline key remove box-7/, "it was removed a page before"],
  [/^syncline queue remove words tide/, "it was removed a page before"],
  [/^syncline doctor --from/, "both addresses stand for the reader's own"],
]);

// These two go on in a browser: tutorials.spec.js does all that they say.
const IN_BROWSER = ["docs/tutorial-frontend.md", "docs/tutorial-extension.md"];
const documents = ["README.md", ...(await readdir(join(ROOT, "docs"))).filter((name) => name.endsWith(".md")).sort().map((name) => `docs/${name}`), PLATFORM_README, BOOKSHELF_README];

const test = /** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & { world: any }, {}>} */ (
  base.extend({
    world: async ({}, use) => {
      const folder = await mkdtemp(join(tmpdir(), "syncline-documents-"));
      const upstreams = await startUpstreams();
      const words = (await snippets("docs/queue.md")).find(({ language, text }) => language === "toml" && text.includes('"words"'));
      const queue = (words?.text ?? "").replaceAll("http://127.0.0.1:3001", upstreams.url);
      // What the guide of the outbox declares at its receiver.
      const config = `${queue}\n[[entities]]\nname = "order"\n`;
      const node = await Node.start({ config, environment: { ...upstreams.environment, RECORDINGS_DIR: join(folder, "front-recordings"), DATABASE_URL: `sqlite:${join(folder, "syncline.db")}` } });
      await writeFile(join(folder, "backup.sh"), "#!/bin/sh\nexit 0\n");
      await chmod(join(folder, "backup.sh"), 0o755);
      await use({ folder, node, upstreams });
      await node.remove();
      await upstreams.remove();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  })
);

for (const document of documents.filter((name) => !IN_BROWSER.includes(name))) {
  test(`cn_13 every command of ${document} does what it says`, async ({ world: { folder, node, upstreams } }) => {
    test.setTimeout(240_000);
    const environment = {
      PATH: `${dirname(BINARY)}:${process.env.PATH}`,
      HOME: folder,
      HOSTNAME: "here",
      SYNCLINE_URL: node.url,
      DATABASE_URL: `sqlite:${join(folder, "syncline.db")}`,
      LANG: "C.UTF-8",
    };
    /** @type {import("node:child_process").ChildProcess[]} */
    const running = [];
    let exports = "";
    let said = "";
    /** @type {Node | null} */
    let own = null;
    try {
      for (const snippet of await snippets(document)) {
        if (snippet.file) await writeFile(join(folder, snippet.file), snippet.text);
        if (snippet.language === "output") expectOutput(said, snippet.text, `${document}:${snippet.line}`);
        if (snippet.language !== "sh" || snippet.file) continue;
        for (const { command, line } of commands(snippet)) {
          if (document.startsWith("docs/tutorial-") && command === "syncline serve") {
            const config = await readFile(join(folder, "syncline.toml"), "utf8").catch(() => "");
            own = await Node.start({ config, environment: { SYNCLINE_APPS: "" } });
            environment.SYNCLINE_URL = own.url;
            continue;
          }
          if (NOT_RUN.some(([pattern]) => pattern.test(command))) continue;
          const here = command
            .replaceAll("http://127.0.0.1:3000", own?.url ?? node.url)
            .replaceAll("http://127.0.0.1:3001", upstreams.url)
            .replaceAll("/tmp/", `${folder}/`)
            .replaceAll("target/debug/", "");
          if (here.startsWith("export ")) exports += `${here}; `;
          else if (BACKGROUND.test(here.replace(/^(\w+=\S+ )+/, ""))) {
            // A second node has a port of its own.
            const child = spawn("bash", ["--norc", "-c", `${exports}exec env ${here}`], { cwd: folder, env: { ...environment, SYNCLINE_LISTEN: "127.0.0.1:0" }, stdio: "ignore" });
            running.push(child);
            // In the guide somebody opens the next terminal when this one has begun.
            if (/demo call/.test(here)) await expect.poll(() => existsSync(`${folder}/box.db`), { timeout: 60_000 }).toBe(true);
            if (/serversync$/.test(here)) await expect.poll(async () => (await run(`${exports}syncline outbox stats`, folder, environment)).code, { timeout: 60_000 }).toBe(0);
          } else {
            const { code, output } = await run(`${exports}${here}`, folder, environment);
            said = output;
            const mayFail = MAY_FAIL.some(([pattern]) => pattern.test(command)) && code !== 2 && code < 126;
            expect(mayFail || code === 0, `${document}:${line}: ${command}\nexit code ${code}\n${output}`).toBe(true);
            expect(output, `${document}:${line}: ${command}`).not.toMatch(/"code":"|unrecognized|panicked/);
          }
        }
      }
      if (document === "docs/serversync.md") {
        await expect.poll(async () => (await node.ask("/api/entities/call_log")).entities.length, { timeout: 60_000 }).toBeGreaterThan(0);
      }
    } finally {
      await own?.remove();
      for (const child of running) {
        child.kill("SIGKILL");
        if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      }
    }
  });
}

test("cn_10 the README begins with the problem and a picture, and has three ways to start before the source tree", async () => {
  const text = await readFile(join(ROOT, "README.md"), "utf8");
  const places = ["You have written this by hand", "](docs/images/race.png)", "| you need | use | instead of |", "It is not for you", "**A binary.**", "**An npm package**", "**Crates**", "## From the source tree"];
  const found = places.map((words) => text.indexOf(words));
  expect(found.every((at, index) => at > (found[index - 1] ?? -1)), `${found}`).toBe(true);
  expect((await readFile(join(ROOT, "docs/images/race.png"))).length).toBeLessThan(100_000);
});

test("cn_13 every TOML snippet is a configuration that its program takes", async () => {
  const folder = await mkdtemp(join(tmpdir(), "syncline-documents-"));
  for (const document of documents) {
    for (const { text, line } of (await snippets(document)).filter(({ language }) => language === "toml")) {
      // Kinds of files and routes are declared to the program that sends them.
      const isOfNode = !/^\[\[(files|routes)\]\]/m.test(text);
      const file = join(folder, isOfNode ? "syncline.toml" : "files.toml");
      await writeFile(file, text);
      const environment = { PATH: `${dirname(BINARY)}:${process.env.PATH}`, SYNCLINE_DATA: join(folder, "data") };
      const box = { DATABASE_URL: `sqlite:${join(folder, "box.db")}?mode=rwc`, FRONTEND_BASE_URL: "http://127.0.0.1:9", WAREHOUSE_TOKEN: "a-token-of-the-warehouse", PARTNER_SECRET: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" };
      const command = isOfNode ? "syncline serve --check" : "serversync --check --config files.toml";
      const { code, output } = await run(command, folder, isOfNode ? environment : { ...environment, ...box });
      expect(code, `${document}:${line}\n${output}`).toBe(0);
    }
  }
  await rm(folder, { recursive: true, force: true });
});

test("cn_13 every JavaScript snippet is whole with the package, and every JSON snippet is JSON", async () => {
  for (const document of documents) {
    for (const { language, text, line } of await snippets(document)) {
      const place = `${document}:${line}`;
      if (language === "json") JSON.parse(text);
      if (!["js", "jsx"].includes(language)) continue;
      const result = await build({
        stdin: { contents: text, loader: "jsx", resolveDir: join(ROOT, "web"), sourcefile: place },
        bundle: true,
        write: false,
        format: "esm",
        logLevel: "silent",
        alias: aliases,
        external: ["./pkg/*", "react", "react-dom"],
      }).catch((error) => error);
      expect(result.errors ?? [], place).toEqual([]);
      // A name that is not exported is only warned of.
      expect((result.warnings ?? []).map((/** @type {any} */ warning) => warning.text), place).toEqual([]);
    }
  }
});

const DOORS = ["state", "lock", "autosave", "queue", "viewer", "wasm", "client", "run-worker", "react"];
const aliases = Object.fromEntries([
  ...DOORS.map((door) => [`syncline/${door}`, join(ROOT, `web/pkg/${door}.js`)]),
  ["syncline", join(ROOT, "web/pkg/syncline.js")],
  ["syncline-bookshelf", join(ROOT, "web/pkg/bookshelf/covers.js")],
]);

test("ss_01 the SQL of the outbox guide leaves an entry in the box's own database", async ({ world: { folder } }) => {
  const environment = { PATH: `${dirname(BINARY)}:${process.env.PATH}`, DATABASE_URL: `sqlite:${join(folder, "box.db")}`, RECORDINGS_DIR: join(folder, "recordings") };
  expect((await run("syncline demo call", folder, environment)).code).toBe(0);
  const [sql] = (await snippets("docs/serversync.md")).filter(({ language, text }) => language === "sql" && text.includes("call_logs"));
  const database = await openDatabase(join(folder, "box.db"));
  const { code, output } = await database(sql.text);
  expect(code, output).toBe(0);
});

// The README named two files to copy, and the worker among them asked for three more.
test("cn_13 a page that is bundled with esbuild as the packages' READMEs say runs every system", async ({ page }) => {
  const folder = await mkdtemp(join(tmpdir(), "syncline-bundled-"));
  const modules = join(folder, "node_modules");
  // As npm installs them: the bookshelf's package has what a node serves of it, and what leads to the platform's.
  await cp(join(ROOT, dirname(BOOKSHELF_README)), join(modules, "syncline-bookshelf"), { recursive: true });
  await cp(join(ROOT, "web/pkg/bookshelf"), join(modules, "syncline-bookshelf/bookshelf"), { recursive: true });
  await symlink(join(ROOT, "web/pkg"), join(modules, "syncline"));
  await writeFile(join(folder, "app.js"), APPLICATION);
  const [bundling] = (await snippets(PLATFORM_README)).filter(({ text }) => text.startsWith("esbuild "));
  const [copying] = (await snippets(BOOKSHELF_README)).filter(({ text }) => text.startsWith("cp "));
  const { code, output } = await run(`${bundling.text}${copying.text}`, folder, { PATH: `${join(ROOT, "web/node_modules/.bin")}:${process.env.PATH}` });
  expect(code, output).toBe(0);
  const server = createServer((request, response) => {
    const name = new URL(request.url ?? "/", "http://page").pathname;
    if (name === "/api/viewer") return response.setHeader("content-type", "application/json").end('{"success":true}');
    if (name === "/") return response.setHeader("content-type", "text/html").end(PAGE);
    readFile(join(folder, "dist", name)).then(
      (bytes) => response.setHeader("content-type", name.endsWith(".wasm") ? "application/wasm" : "text/javascript").end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  await page.goto(`http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}/`);
  const done = await page.waitForFunction(() => /** @type {any} */ (globalThis).done);
  expect(await done.jsonValue()).toEqual({ state: true, lock: "web-lock", autosave: "", queue: "a done", covers: undefined, viewer: "string" });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

const PAGE = '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/app.js"></script>';
const APPLICATION = `
import { acquireProjectLock, createQueue, openAutoSave, openState, startViewer } from "syncline";
import { openCoverCache } from "syncline-bookshelf";
const state = openState();
await state.put("milk", { checked: true });
const { lease } = await acquireProjectLock();
const save = openAutoSave({ project: "other" });
await save.ready;
const queue = createQueue({ name: "kept", persist: true, run: async (key) => key + " done" });
await queue.enqueue("a");
const covers = await openCoverCache();
const viewer = startViewer();
globalThis.done = {
  state: state.get("milk").checked, lock: lease.source, autosave: save.text, queue: await queue.result("a"),
  covers: covers.get("4101010013"), viewer: typeof (await viewer.sessionId),
};
`;

// The snippet opened the state while the module was loaded, which stopped the build of every application that renders on a server.
test("re_08 the React snippet of the state guide renders on a server, and follows the state in a page", async ({ page }) => {
  const [snippet] = (await snippets("docs/state.md")).filter(({ language }) => language === "jsx");
  const folder = await mkdtemp(join(ROOT, "web/e2e/results-react-"));
  const bundle = (/** @type {string} */ contents, /** @type {import("esbuild").Platform} */ platform) =>
    build({
      stdin: { contents: `${snippet.text}\n${contents}`, loader: "jsx", resolveDir: join(ROOT, "web") },
      alias: aliases,
      bundle: true,
      format: platform === "node" ? "cjs" : "esm",
      platform,
      jsx: "automatic",
      outfile: join(folder, platform === "node" ? "server.cjs" : "app.js"),
      define: { "process.env.NODE_ENV": '"production"' },
      logLevel: "silent",
    });
  try {
    await bundle(`import { renderToString } from "react-dom/server"; console.log(renderToString(<><Milk /><Count /></>));`, "node");
    const rendered = await run("node server.cjs", folder, { PATH: process.env.PATH });
    expect(rendered).toEqual({ code: 0, output: '<input type="checkbox" readOnly=""/><p>0<!-- --> entries</p>\n' });
    await bundle(`import { hydrateRoot } from "react-dom/client"; hydrateRoot(document.getElementById("root"), <><Milk /><Count /></>); globalThis.state = state;`, "browser");
    for (const name of await readdir(join(ROOT, "web/pkg"))) if (name.endsWith(".wasm")) await copyFile(join(ROOT, "web/pkg", name), join(folder, name));
    const server = createServer((request, response) => {
      if (request.url === "/") return response.setHeader("content-type", "text/html").end(`<!doctype html><link rel="icon" href="data:,"><div id="root">${rendered.output.trim()}</div><script type="module" src="/app.js"></script>`);
      readFile(join(folder, request.url ?? "")).then(
        (bytes) => response.setHeader("content-type", request.url?.endsWith(".wasm") ? "application/wasm" : "text/javascript").end(bytes),
        () => response.writeHead(404).end(),
      );
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    await page.goto(`http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}/`);
    await page.waitForFunction(() => "state" in globalThis);
    await page.evaluate(() => /** @type {any} */ (globalThis).state().put("milk", { checked: true }));
    await expect(page.getByRole("checkbox")).toBeChecked();
    await expect(page.getByText("1 entries")).toBeVisible();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
