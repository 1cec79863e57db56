// Shared state in React, bundled as applications are: components follow by useSyncExternalStore, and only those that show
// what changed are rendered.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, test } from "@playwright/test";
import { build } from "esbuild";

const WEB = join(import.meta.dirname, "..");

const APPLICATION = `
import { createElement as h, StrictMode, useSyncExternalStore } from "react";
import { createRoot } from "react-dom/client";
import { openState } from "syncline";

const settings = { schema: { colour: { type: "string", default: "#6441a5" } } };
const state = openState({ wasmUrl: "/syncline_state_bg.wasm", settings });
window.state = state;
window.renders = { milk: 0, bread: 0, all: 0 };

function Box({ id }) {
  const item = useSyncExternalStore((changed) => state.subscribe(id, changed), () => state.get(id));
  window.renders[id]++;
  const toggle = () => state.put(id, { checked: !item?.checked });
  return h("label", null, h("input", { type: "checkbox", checked: item?.checked ?? false, onChange: toggle }), id);
}

function Count() {
  const { entities, settings } = useSyncExternalStore(state.subscribe, state.getSnapshot);
  window.renders.all++;
  return h("p", null, entities.size + " " + settings.colour);
}

createRoot(document.getElementById("root")).render(
  h(StrictMode, null, h(Box, { id: "milk" }), h(Box, { id: "bread" }), h(Count)),
);
`;

/** @type {import("@playwright/test").TestType<import("@playwright/test").PlaywrightTestArgs & { site: string }, {}>} */
const withSite = test.extend({
  site: async ({}, use) => {
    const bundled = await build({
      stdin: { contents: APPLICATION, resolveDir: WEB },
      alias: { syncline: join(WEB, "pkg/syncline.js") },
      bundle: true,
      format: "esm",
      write: false,
      define: { "process.env.NODE_ENV": '"development"' },
    });
    const server = createServer(async ({ url }, response) => {
      if (url === "/app.js") response.setHeader("content-type", "text/javascript").end(bundled.outputFiles[0].text);
      else if (url?.endsWith(".wasm")) {
        response.setHeader("content-type", "application/wasm").end(await readFile(join(WEB, "pkg", url)));
      } else {
        response.setHeader("content-type", "text/html");
        response.end('<!doctype html><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/app.js"></script>');
      }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
    const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
    await use(`http://127.0.0.1:${port}`);
    server.closeAllConnections();
    server.close();
  },
});

withSite("st_12 two tabs of a React application stay in step, and only what changed is rendered", async ({ context, site }) => {
  /** @type {string[]} */
  const errors = [];
  context.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  context.on("weberror", (error) => errors.push(String(error.error())));
  const [one, other] = [await context.newPage(), await context.newPage()];
  for (const page of [one, other]) {
    await page.goto(site);
    await page.waitForFunction(() => /** @type {any} */ (window).state?.isReady);
  }
  const renders = () => other.evaluate(() => ({ .../** @type {any} */ (window).renders }));
  const before = await renders();
  await one.getByLabel("milk").check();
  await expect(other.getByLabel("milk")).toBeChecked();
  await expect(other.locator("p")).toHaveText(/^1 #/);
  const after = await renders();
  expect(after.bread, "the other box was not touched").toBe(before.bread);
  expect(after.milk).toBeGreaterThan(before.milk);

  await other.getByLabel("bread").check();
  await other.getByLabel("milk").uncheck();
  await expect(one.getByLabel("bread")).toBeChecked();
  await expect(one.getByLabel("milk")).not.toBeChecked();
  await one.reload();
  await expect(one.getByLabel("bread")).toBeChecked();
  expect(errors).toEqual([]);
});
