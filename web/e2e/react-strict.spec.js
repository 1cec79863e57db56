// The React snippets of the guides in React's StrictMode, as every application in development runs them: effects are run, undone
// and run again. Rendered by a server first, then hydrated in a real page whose node is a real one. Afterwards there is one of
// everything, and nothing when the components are gone.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { passOn } from "./support/pass-on.js";
import { expect, test as base } from "./support/test.js";

const ROOT = join(import.meta.dirname, "../..");
const WEB = join(ROOT, "web");
const ALIASES = Object.fromEntries([
  ...["state", "lock", "autosave", "queue", "viewer"].map((door) => [`syncline/${door}`, join(WEB, `pkg/${door}.js`)]),
  ["syncline", join(WEB, "pkg/syncline.js")],
]);

const guide = (/** @type {string} */ name) => readFile(join(ROOT, "docs", name), "utf8");

/** The JSX snippets of a guide, in their order. */
async function snippets(/** @type {string} */ name) {
  return [...(await guide(name)).matchAll(/^```jsx\n([^]*?)^```/gm)].map(([, text]) => text);
}

/** All of the guides' components in one application, whose parts can be taken away and put back with `show(name, isShown)`. */
async function application() {
  const [shared, owned] = await snippets("state.md");
  const [viewer] = await snippets("viewer.md");
  const [, effect] = /In React, in an effect: `(useEffect[^`]+)`/.exec(await guide("lock.md")) ?? [];
  const parts = {
    "shared.jsx": `${shared}\nexport { state };`,
    "owned.jsx": owned,
    "viewer.jsx": viewer.replace("https://node.example", ""),
    "editor.jsx": `import { useEffect, useRef } from "react";
      import { openAutoSave } from "syncline";
      export function Editor() {
        const ref = useRef(null);
        ${effect};
        return <textarea ref={ref} aria-label="text" />;
      }`,
    "app.jsx": `import { StrictMode, useEffect, useState } from "react";
      import { Count, Milk } from "shared.jsx";
      import { Notes } from "owned.jsx";
      import { Viewer } from "viewer.jsx";
      import { Editor } from "editor.jsx";
      export { state } from "shared.jsx";
      function App() {
        const [hidden, setHidden] = useState([]);
        useEffect(() => {
          globalThis.show = (name, isShown) => setHidden((names) => (isShown ? names.filter((one) => one !== name) : [...names, name]));
        }, []);
        const all = { Milk, Count, Notes, Viewer, Editor };
        return Object.entries(all).map(([name, Part]) => (hidden.includes(name) ? null : <Part key={name} />));
      }
      export const app = <StrictMode><App /></StrictMode>;`,
    "server.jsx": `import { renderToString } from "react-dom/server"; import { app } from "app.jsx"; process.stdout.write(renderToString(app));`,
    "browser.jsx": `import { hydrateRoot } from "react-dom/client"; import { app, state } from "app.jsx";
      globalThis.shared = state;
      hydrateRoot(document.getElementById("root"), app);`,
  };
  const bundle = (/** @type {string} */ entry, /** @type {import("esbuild").Platform} */ platform, /** @type {string} */ outfile) =>
    build({
      entryPoints: [entry],
      alias: ALIASES,
      bundle: true,
      jsx: "automatic",
      // What React checks and does twice, it does in development alone.
      define: { "process.env.NODE_ENV": '"development"' },
      format: platform === "node" ? "cjs" : "esm",
      platform,
      outfile,
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
  const folder = await mkdtemp(join(WEB, "e2e/results-strict-"));
  try {
    await bundle("server.jsx", "node", join(folder, "server.cjs"));
    await bundle("browser.jsx", "browser", join(folder, "app.js"));
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

/** A tab with the application; `window.alive` has the channels and workers that are open, by name. */
async function openApplication(/** @type {import("@playwright/test").BrowserContext} */ context, /** @type {string} */ url) {
  const page = await context.newPage();
  await page.addInitScript(() => {
    const tab = /** @type {any} */ (window);
    /** @type {Record<string, number>} */
    const alive = (tab.alive = {});
    const { BroadcastChannel, Worker } = tab;
    const count = (/** @type {string} */ name, /** @type {any} */ it, /** @type {string} */ end) => {
      alive[name] = (alive[name] ?? 0) + 1;
      const ends = it[end].bind(it);
      let isOpen = true;
      it[end] = () => {
        if (isOpen) alive[name] -= 1;
        isOpen = false;
        ends();
      };
      return it;
    };
    tab.BroadcastChannel = function (/** @type {string} */ name) {
      return count(name, new BroadcastChannel(name), "close");
    };
    tab.Worker = function (/** @type {string} */ address, /** @type {WorkerOptions} */ options) {
      return count(options.name ?? "worker", new Worker(address, options), "terminate");
    };
  });
  await page.goto(url);
  await page.waitForFunction(() => "show" in window);
  return page;
}

const alive = (/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ name) =>
  page.evaluate((name) => /** @type {any} */ (window).alive[name] ?? 0, name);

const show = (/** @type {import("@playwright/test").Page} */ page, /** @type {string} */ name, /** @type {boolean} */ isShown) =>
  page.evaluate(([name, isShown]) => /** @type {any} */ (window).show(name, isShown), /** @type {const} */ ([name, isShown]));

test.setTimeout(120_000);

test("re_08 the React snippets of the guides render on a server", async (/** @type {any} */ { site }) => {
  expect(site.complaints).toBe("");
  expect(site.rendered).toBe(
    '<input type="checkbox" readOnly=""/><p>0<!-- --> entries</p><button>0<!-- --> notes</button><textarea aria-label="text"></textarea>',
  );
});

test("re_08 under StrictMode the shared state is opened once, and follows another tab however often its components come and go", async (/** @type {any} */ {
  context,
  site,
}) => {
  const [one, other] = [await openApplication(context, site.url), await openApplication(context, site.url)];
  const put = (/** @type {string} */ id, /** @type {boolean} */ checked) =>
    other.evaluate(([id, checked]) => /** @type {any} */ (window).shared().put(id, { checked }), /** @type {const} */ ([id, checked]));
  for (let round = 0; round < 4; round++) {
    await put("milk", true);
    await put(`entry ${round}`, true);
    await expect(one.getByRole("checkbox")).toBeChecked();
    await expect(one.getByText(`${round + 2} entries`)).toBeVisible();
    for (const name of ["Milk", "Count"]) await show(one, name, false);
    await expect(one.getByRole("checkbox")).toHaveCount(0);
    await put("milk", false);
    for (const name of ["Milk", "Count"]) await show(one, name, true);
    await expect(one.getByRole("checkbox")).not.toBeChecked();
    await put("milk", true);
    await expect(one.getByRole("checkbox")).toBeChecked();
    expect(await alive(one, "syncline-state:state")).toBe(1);
  }
});

test("re_08 st_31 under StrictMode a state that an effect opens is open once and talks to the node, and is gone with its component", async (/** @type {any} */ {
  context,
  site,
  node,
}) => {
  const page = await openApplication(context, site.url);
  const onNode = async () => (await node.ask("/api/state/notes")).changes.filter((/** @type {any} */ change) => "value" in change).length;
  const LEADER = "syncline-lead:syncline-state-bridge:notes";
  for (let round = 0; round < 4; round++) {
    await expect(page.getByText(`${round} notes`)).toBeVisible();
    await expect.poll(() => alive(page, "syncline-state:notes")).toBe(1);
    await expect.poll(() => alive(page, LEADER)).toBe(1);
    await page.getByText(`${round} notes`).click();
    await expect(page.getByText(`${round + 1} notes`)).toBeVisible();
    await expect.poll(onNode, { timeout: 30_000 }).toBe(round + 1);
    await show(page, "Notes", false);
    await expect.poll(() => alive(page, "syncline-state:notes")).toBe(0);
    await expect.poll(() => alive(page, LEADER)).toBe(0);
    // At once, too: the one that goes and the one that comes meet.
    await show(page, "Notes", true);
  }
  await show(page, "Notes", false);
  await show(page, "Notes", true);
  await expect(page.getByText("4 notes")).toBeVisible();
  await expect.poll(() => alive(page, "syncline-state:notes")).toBe(1);
});

test("lk_31 under StrictMode a bound editor holds its project once, and gives it back with its component", async (/** @type {any} */ { context, site }) => {
  const first = await openApplication(context, site.url);
  const editorOf = (/** @type {import("@playwright/test").Page} */ page) => page.getByRole("textbox", { name: "text" });
  await expect(editorOf(first)).toBeEditable();
  await editorOf(first).pressSequentially("one");
  const second = await openApplication(context, site.url);
  await expect(editorOf(second)).toHaveValue("one");
  await expect(editorOf(second)).not.toBeEditable();
  expect(await alive(first, "syncline-lock")).toBe(1);

  // Gone and back, as when a view replaces another, and the other tab meanwhile: one of them can be typed into, never both.
  for (const [holder, waiting, text] of /** @type {const} */ ([[first, second, " two"], [second, first, " three"]])) {
    await show(holder, "Editor", false);
    await expect(editorOf(waiting)).toBeEditable({ timeout: 30_000 });
    await show(holder, "Editor", true);
    await expect(editorOf(holder)).toBeVisible();
    await expect(editorOf(holder)).not.toBeEditable();
    await editorOf(waiting).press("End");
    await editorOf(waiting).pressSequentially(text);
    await expect(editorOf(holder)).toHaveValue(new RegExp(`${text}$`));
  }
  await expect(editorOf(first)).toHaveValue("one two three");
});

test("re_08 vw_05 under StrictMode a page is one viewer, and none when the component is gone", async (/** @type {any} */ { context, site, node }) => {
  const page = await openApplication(context, site.url);
  const viewers = async () => (await node.ask("/api/viewer")).viewers;
  await expect.poll(viewers).toBe(1);
  expect(await alive(page, "syncline-viewer")).toBe(1);
  await show(page, "Viewer", false);
  await expect.poll(() => alive(page, "syncline-viewer")).toBe(0);
  await expect.poll(viewers).toBe(0);
  await show(page, "Viewer", true);
  await expect.poll(viewers).toBe(1);
  expect(await alive(page, "syncline-viewer")).toBe(1);
});
