// The runtime surface on sites that allow nothing, and under an extension that is reloaded, disabled or looked for.

import { add, entry, expand, expect, findSurface, storage, surfaceOn, test } from "./extension.js";

for (const site of ["strict", "isolated"]) {
  test(`st_25 the surface works on a page that is ${site}`, async ({ extension, sites }) => {
    const options = await extension.open("options.html");
    await add(options, "milk");
    const page = await extension.visit(`${sites.url}/${site}`);
    const frame = await surfaceOn(page);
    await expect(frame.getByRole("button", { name: "Open the checklist, 0 of 1 done" })).toBeVisible();
    await expand(frame);
    await entry(frame, "milk").check();
    await expect(entry(options, "milk")).toBeChecked();
    await add(frame, "bread");
    await expect(entry(options, "bread")).not.toBeChecked();
  });
}

test("st_25 on a page that replaces its document the surface comes back", async ({ extension, sites }) => {
  const page = await extension.visit(`${sites.url}/plain`);
  await expect((await surfaceOn(page)).locator("body")).toBeVisible();
  const old = findSurface(page);
  await page.evaluate(() => {
    const fresh = document.createElement("html");
    fresh.lang = "en";
    fresh.innerHTML = "<head><title>another</title></head><body><main><h1>Another</h1></main></body>";
    document.replaceChild(fresh, document.documentElement);
  });
  await expect.poll(() => findSurface(page) !== undefined && findSurface(page) !== old).toBe(true);
  const frame = await surfaceOn(page);
  await expand(frame);
  await add(frame, "milk");
  await expect(entry(frame, "milk")).not.toBeChecked();
});

test("st_25 a page in a sandbox, where a frame could do nothing, is left alone", async ({ extension, sites }) => {
  const sandboxed = await extension.visit(`${sites.url}/sandbox`);
  // Once a later page has its surface, the earlier one would have had it.
  await expect((await surfaceOn(await extension.visit(`${sites.url}/plain`))).locator("body")).toBeVisible();
  expect(findSurface(sandboxed)).toBeUndefined();
});

test("st_25 the content script is plain JavaScript that knows nothing of WASM", async ({ extension, sites }) => {
  const requests = /** @type {string[]} */ ([]);
  const page = await extension.context.newPage();
  page.on("request", (request) => requests.push(`${request.frame() === page.mainFrame() ? "page" : "frame"} ${request.url()}`));
  await page.goto(`${sites.url}/strict`);
  await expand(await surfaceOn(page));
  const wasm = requests.filter((request) => request.endsWith(".wasm"));
  expect(wasm).toEqual([`frame ${extension.origin}/pkg/syncline_state_bg.wasm`]);
});

test("st_25 after a reload old surfaces leave without a word, and new ones work on what was stored", async ({ extension, sites }) => {
  const old = await extension.visit(`${sites.url}/plain`);
  const strict = await extension.visit(`${sites.lanUrl}/strict`);
  const frame = await surfaceOn(old);
  await expand(frame);
  await add(frame, "milk");
  await expect(entry(await surfaceOn(strict), "milk")).not.toBeChecked();
  await expect.poll(async () => Object.keys(await storage.get(frame)).some((key) => key.startsWith("trackedEntity:"))).toBe(true);

  await extension.reload();
  await expect.poll(() => findSurface(old) ?? findSurface(strict)).toBeUndefined();
  // Whatever happens on the page now, nobody answers.
  await old.bringToFront();
  await old.mouse.click(5, 5);
  await old.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));

  const site = await extension.visit(`${sites.lanUrl}/plain`);
  const fresh = await surfaceOn(site);
  await entry(fresh, "milk").check();
  const options = await extension.open("options.html");
  await expect(entry(options, "milk")).toBeChecked();
  // The old tab gets its surface back when it is loaded again.
  await old.reload();
  await expect(entry(await surfaceOn(old), "milk")).toBeChecked();
});

test("st_25 a surface that is used while the extension is reloaded goes quiet by itself", async ({ extension, sites }) => {
  const site = await extension.visit(`${sites.url}/plain`);
  const frame = await surfaceOn(site);
  await expand(frame);
  await add(frame, "milk");
  await expect(entry(frame, "milk")).not.toBeChecked();
  await frame.evaluate(() => {
    const press = (/** @type {string} */ what) => /** @type {HTMLElement | null} */ (document.querySelector(what))?.click();
    setInterval(() => ["#move", ".entry input"].forEach(press), 10);
  });
  await extension.reload();
  await expect.poll(() => findSurface(site)).toBeUndefined();
});

test("st_09 that nobody is there to hear of a change is a report, and the change is stored", async ({ extension }) => {
  const options = extension.welcome;
  await extension.coordinator.stop();
  const report = await options.evaluate(async () => {
    const here = /** @type {any} */ (globalThis);
    const { openState } = await import(here.chrome.runtime.getURL("pkg/state.js"));
    const state = openState();
    const reported = new Promise((resolve) =>
      state.subscribe((/** @type {any} */ event) => event.type === "report" && resolve(event.report)),
    );
    await state.put("milk", { checked: true, timestamp: Date.now() });
    return reported;
  });
  expect(report).toBe("no-receiver");
  expect(await storage.get(options)).toMatchObject({ "trackedEntity:milk": { checked: true } });
  await expect(entry(options, "milk")).toBeChecked();
  await expect(options.locator("#notices")).toBeHidden();
});

test("st_25 a page finds neither the extension nor its frame", async ({ extension, sites }) => {
  const page = await extension.visit(`${sites.url}/plain`);
  await expand(await surfaceOn(page));
  const found = await page.evaluate(async (origin) => {
    const host = document.documentElement.lastElementChild;
    const loads = (/** @type {string} */ url) => fetch(url).then(() => true, () => false);
    return {
      tree: host?.shadowRoot ?? null,
      loaded: performance.getEntriesByType("resource").filter(({ name }) => name.startsWith("chrome-extension:")).length,
      frame: await loads(`${origin}/runtime.html`),
      names: await loads(`${origin}/names.js`),
      global: "synclineNames" in window,
    };
  }, extension.origin);
  // The page was refused what it tried, which the browser says in the console.
  extension.errors.splice(0);
  expect(found).toEqual({ tree: null, loaded: 0, frame: false, names: false, global: false });
});

test("st_25 a page that goes and comes back shows what happened meanwhile", async ({ extension, sites }) => {
  const options = await extension.open("options.html");
  await add(options, "milk");
  const page = await extension.visit(`${sites.url}/plain`);
  const before = await surfaceOn(page);
  await expand(before);
  await expect(entry(before, "milk")).not.toBeChecked();
  await page.goto(`${sites.url}/strict`);
  await entry(options, "milk").check();
  await add(options, "bread");
  await page.goBack();
  const frame = await surfaceOn(page);
  await expect(entry(frame, "milk")).toBeChecked();
  await expect(entry(frame, "bread")).not.toBeChecked();
});
