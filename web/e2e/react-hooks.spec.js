// The hooks of `syncline/react` as the package's README shows them (RE-08), in React's StrictMode: rendered by a server, hydrated in two
// tabs whose node is a real one. What the two say to each other, and that nothing is left when the components are gone.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { passOn } from "./support/pass-on.js";
import { expect, test as base } from "./support/test.js";

const WEB = join(import.meta.dirname, "..");
const README = join(WEB, "pkg/README.md");
const ALIASES = Object.fromEntries([
  ...["state", "lock", "autosave", "queue", "viewer", "react"].map((door) => [`syncline/${door}`, join(WEB, `pkg/${door}.js`)]),
  ["syncline", join(WEB, "pkg/syncline.js")],
]);

async function application() {
  const [, snippet] = /^## React and Next\.js\n\n```jsx\n([^]*?)^```/m.exec(await readFile(README, "utf8")) ?? [];
  if (snippet === undefined) throw new Error("the README has no snippet for React");
  const parts = {
    "hooks.jsx": snippet,
    "app.jsx": `import { StrictMode, useEffect, useState } from "react";
      import { useLink, useQueue, useSettings } from "syncline/react";
      import { createQueue } from "syncline/queue";
      import { Count, Export, Milk, Notes, Viewer, state } from "hooks.jsx";
      export { state };
      const queue = typeof window === "undefined" ? null : createQueue({ name: "words", run: async (key) => key });
      globalThis.queue = queue;
      globalThis.renders = 0;
      function Work() {
        return <p id="work">{useQueue(queue)?.done ?? "-"} {JSON.stringify(useSettings(state))} {String(useLink(state))}</p>;
      }
      function Counted() {
        globalThis.renders += 1;
        return <Milk />;
      }
      function App() {
        const [isShown, show] = useState(true);
        useEffect(() => void (globalThis.show = show), []);
        return isShown ? <><Counted /><Count /><Notes /><Export /><Viewer /><Work /></> : <p>nothing</p>;
      }
      export const app = <StrictMode><App /></StrictMode>;`,
    "server.jsx": `import { renderToString } from "react-dom/server"; import { app } from "app.jsx"; process.stdout.write(renderToString(app));`,
    "browser.jsx": `import { hydrateRoot } from "react-dom/client"; import { app, state } from "app.jsx";
      globalThis.state = state;
      hydrateRoot(document.getElementById("root"), app);`,
  };
  const folder = await mkdtemp(join(WEB, "e2e/results-hooks-"));
  const bundle = (/** @type {string} */ entry, /** @type {import("esbuild").Platform} */ platform, /** @type {string} */ name) =>
    build({
      entryPoints: [entry],
      alias: ALIASES,
      bundle: true,
      jsx: "automatic",
      // What React checks and does twice, it does in development alone.
      define: { "process.env.NODE_ENV": '"development"' },
      format: platform === "node" ? "cjs" : "esm",
      platform,
      outfile: join(folder, name),
      logLevel: "silent",
      plugins: [
        {
          name: "parts",
          setup({ onResolve, onLoad }) {
            onResolve({ filter: /^\w+\.jsx$/ }, ({ path }) => ({ path, namespace: "parts" }));
            onLoad({ filter: /./, namespace: "parts" }, ({ path }) => ({
              contents: parts[/** @type {keyof typeof parts} */ (path)],
              loader: "jsx",
              resolveDir: WEB,
            }));
          },
        },
      ],
    });
  try {
    await bundle("server.jsx", "node", "server.cjs");
    await bundle("browser.jsx", "browser", "app.js");
    const { stdout, stderr } = await promisify(execFile)("node", [join(folder, "server.cjs")]);
    return { rendered: stdout, complaints: stderr, script: await readFile(join(folder, "app.js")) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** @type {import("@playwright/test").TestType<any, any>} */
const test = /** @type {any} */ (base).extend({
  site: async (/** @type {any} */ { node }, /** @type {any} */ use) => {
    const { rendered, complaints, script } = await application();
    const server = createServer((request, response) => {
      const { url = "/" } = request;
      if (url.startsWith("/api/")) passOn(request, response, node.url);
      else if (url === "/app.js") response.setHeader("content-type", "text/javascript").end(script);
      else if (url === "/") {
        response.setHeader("content-type", "text/html");
        response.end(`<!doctype html><link rel="icon" href="data:,"><div id="root">${rendered}</div><script type="module" src="/app.js"></script>`);
      } else {
        readFile(join(WEB, "pkg", url)).then(
          (bytes) => response.setHeader("content-type", url.endsWith(".wasm") ? "application/wasm" : "text/javascript").end(bytes),
          () => response.writeHead(404).end(),
        );
      }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
    await use({ url: `http://127.0.0.1:${port}`, rendered, complaints });
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  },
});

/** @typedef {import("@playwright/test").Page} Page */

async function openApplication(/** @type {import("@playwright/test").BrowserContext} */ context, /** @type {string} */ url) {
  const page = await context.newPage();
  /** @type {string[]} */
  const complaints = [];
  // Who waits for another tab says so once.
  const isExpected = (/** @type {string} */ text) => text.includes("another tab holds the project");
  page.on("console", (line) => ["error", "warning"].includes(line.type()) && !isExpected(line.text()) && complaints.push(line.text()));
  await page.goto(url);
  await page.waitForFunction("typeof show === 'function' && state.isReady");
  return Object.assign(page, { complaints });
}

test("re_08 hooks render on a server as in the first render of a page, and nothing is opened there", async ({ site, context }) => {
  expect(site.complaints).toBe("");
  expect(site.rendered).toContain("<p>0<!-- --> things</p>");
  expect(site.rendered).toContain("opening");
  expect(site.rendered).toContain("disabled");
  const page = await openApplication(context, site.url);
  await expect(page.getByText("0 things")).toBeVisible();
  expect(page.complaints, "React compares what it finds with what it renders").toEqual([]);
});

test("re_08 two tabs show the same state, hold a project one after the other, and follow one document, in StrictMode", async ({ site, context, node }) => {
  const [one, other] = [await openApplication(context, site.url), await openApplication(context, site.url)];
  await one.getByLabel("milk").check();
  await expect(other.getByLabel("milk")).toBeChecked();
  await expect(other.getByText("1 things")).toBeVisible();

  // A component of one entity is not rendered for others.
  const renders = await other.evaluate("renders");
  await one.evaluate("state.put('bread', { checked: true })");
  await expect(other.getByText("2 things")).toBeVisible();
  expect(await other.evaluate("renders")).toBe(renders);

  await one.evaluate("queue.enqueue(['a', 'b'])");
  await expect(one.locator("#work")).toHaveText("2 {} null");

  const holders = async () => {
    const held = await Promise.all([one, other].map((page) => page.getByRole("button", { name: "export" }).isEnabled()));
    return held.filter(Boolean).length;
  };
  await expect.poll(holders).toBe(1);
  const [holds, waits] = (await one.getByRole("button", { name: "export" }).isEnabled()) ? [one, other] : [other, one];

  const editors = [one, other].map((page) => page.getByRole("textbox"));
  await expect.poll(async () => (await Promise.all(editors.map((editor) => editor.isEditable()))).filter(Boolean).length).toBe(1);
  const [writes, reads] = (await editors[0].isEditable()) ? editors : [editors[1], editors[0]];
  await writes.fill("written in one tab");
  await expect(reads).toHaveValue("written in one tab");
  const ask = async () => /** @type {any} */ (await (await fetch(`${node.url}/api/viewer`)).json()).viewers;
  await expect.poll(ask).toBe(2);

  // The components go: another tab has all of it, and nobody watches there any more.
  await holds.evaluate("show(false)");
  await expect(waits.getByRole("button", { name: "export" })).toBeEnabled();
  await expect(waits.getByRole("textbox")).toBeEditable();
  await expect(waits.getByRole("textbox")).toHaveValue("written in one tab");
  await expect.poll(ask).toBe(1);
  await holds.evaluate("show(true)");
  await expect(holds.getByRole("textbox")).toHaveValue("written in one tab");
  await expect(holds.getByRole("button", { name: "export" })).toBeDisabled();
  for (const page of [one, other]) expect(page.complaints).toEqual([]);
});
