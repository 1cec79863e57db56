// The extension's parts that need no browser: its manifest is true, its settings are checked, its list is in order, and its
// colours can be read.

import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Entries, entryOf } from "../extension/entries.js";
import { checkNodeAddress, DEFAULT_NODE_ADDRESS } from "../extension/node-address.js";
import { hostOf } from "../extension/settings-form.js";
import { settings } from "../extension/settings.js";
import { nextCorner, readPlace } from "../extension/surface.js";
import { initSync, openState } from "../../../web/pkg/state.js";
import { accentsOf, contrast } from "../extension/theme.js";

const EXTENSION = join(import.meta.dirname, "../extension");
const manifest = JSON.parse(await readFile(join(EXTENSION, "manifest.json"), "utf8"));

test("st_25 the manifest asks for storage alone, allows WASM to its own pages and nothing from elsewhere", async () => {
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, "../../../web/pkg/package.json"), "utf8"));
  assert.equal(manifest.version, version);
  assert.deepEqual(manifest.permissions, ["storage"]);
  for (const asked of ["host_permissions", "optional_permissions", "externally_connectable"]) assert.equal(asked in manifest, false);
  const policy = manifest.content_security_policy.extension_pages;
  assert.match(policy, /default-src 'none'; script-src 'self' 'wasm-unsafe-eval';/);
  assert.doesNotMatch(policy, /https?:|\*|unsafe-inline|'unsafe-eval'/);
  const [{ resources, use_dynamic_url: isHidden }] = manifest.web_accessible_resources;
  assert.deepEqual([resources, isHidden], [["runtime.html"], true]);
});

test("st_15 names are written in one place, and everybody else uses them", async () => {
  const names = Object.entries(globalThis.synclineNames).filter(([, value]) => typeof value === "string");
  assert.notEqual(names.length, 0);
  for (const file of (await readdir(EXTENSION)).filter((file) => file.endsWith(".js") && file !== "names.js")) {
    const text = await readFile(join(EXTENSION, file), "utf8");
    for (const [, value] of names) assert.equal(text.includes(`"${value}"`), false, `${file} spells out ${value}`);
  }
});

test("st_25 content scripts import nothing and know nothing of WASM", async () => {
  for (const file of manifest.content_scripts[0].js) {
    const code = (await readFile(join(EXTENSION, file), "utf8")).replace(/^\s*\/\/.*$/gm, "");
    assert.doesNotMatch(code, /\bimport\b|\bexport\b|WebAssembly|navigator\.locks|indexedDB|localStorage/, file);
  }
});

test("design tokens are the console's: the extension's pages load them first and redefine the accent alone", async () => {
  const defined = (text) => [...text.matchAll(/^\s*(--[\w-]+):/gm)].map(([, name]) => name);
  const tokens = defined(await readFile(join(import.meta.dirname, "../../../web/console/assets/tokens.css"), "utf8"));
  const own = defined(await readFile(join(EXTENSION, "style.css"), "utf8"));
  assert.deepEqual(own, ["--accent", "--accent-hover", "--on-accent"]);
  for (const file of (await readdir(EXTENSION)).filter((file) => file.endsWith(".html"))) {
    const sheets = [...(await readFile(join(EXTENSION, file), "utf8")).matchAll(/rel="stylesheet" href="([^"]+)"/g)].map(([, name]) => name);
    assert.deepEqual(sheets, ["tokens.css", "style.css", "checklist.css"], file);
  }
  for (const sheet of ["style.css", "checklist.css"]) {
    for (const [, name] of (await readFile(join(EXTENSION, sheet), "utf8")).matchAll(/var\((--[\w-]+)/g)) assert.equal(tokens.includes(name), true, name);
  }
});

test("every file the manifest names is there, and every icon has the size it claims", async () => {
  const scripts = manifest.content_scripts.flatMap(({ js }) => js);
  const resources = manifest.web_accessible_resources.flatMap(({ resources }) => resources);
  const pages = [manifest.action.default_popup, manifest.options_ui.page, manifest.background.service_worker];
  for (const file of [...pages, ...scripts, ...resources]) {
    assert.notEqual((await readFile(join(EXTENSION, file))).length, 0, file);
  }
  for (const [size, file] of [...Object.entries(manifest.icons), ...Object.entries(manifest.action.default_icon)]) {
    const png = await readFile(join(EXTENSION, file));
    assert.equal(png.toString("latin1", 1, 4), "PNG", file);
    assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [Number(size), Number(size)], file);
  }
});

test("the node's address is kept as an origin, and anything else is refused with a sentence", () => {
  const good = [
    [DEFAULT_NODE_ADDRESS, DEFAULT_NODE_ADDRESS],
    [" https://box.example:8443/path?query#part ", "https://box.example:8443/"],
    ["http://[::1]:3000", "http://[::1]:3000/"],
  ];
  for (const [text, address] of good) assert.deepEqual(checkNodeAddress(text), { address });

  const bad = [
    "",
    "   ",
    "box",
    "ftp://box/",
    "javascript:alert(1)",
    "http://name:secret@box/",
    `http://${"b".repeat(2_000)}/`,
    3,
    null,
    {},
  ];
  for (const text of bad) {
    const { address, problem } = checkNodeAddress(text);
    assert.equal(address, undefined, String(text));
    assert.match(problem, /^[A-Z].*[.0-9/]$/, String(text));
  }
});

test("entries are kept newest first while they come, change and go", () => {
  const entries = new Entries();
  const title = (id, createdAt) => entryOf(id, { title: id.toUpperCase(), checked: false, createdAt });
  entries.load([title("a", 1), title("b", 3), entryOf("plain", { checked: true, timestamp: 5 })]);
  entries.put(title("c", 2));
  entries.put({ ...title("b", 3), checked: true });
  const ids = () => [...entries].map(({ id }) => id).join();
  assert.equal(ids(), "b,c,a,plain");
  assert.deepEqual([entries.size, entries.checked], [4, 2]);
  assert.equal(entries.next(entries.get("b"), ({ checked }) => checked).id, "plain");
  entries.delete("b");
  entries.delete("nobody");
  assert.equal(ids(), "c,a,plain");
  assert.deepEqual([entries.size, entries.checked], [3, 1]);
});

test("whatever is stored becomes an entry that can be shown", () => {
  for (const value of [{}, { title: "" }, { title: 3, checked: "yes", createdAt: "now" }, { createdAt: Number.NaN }]) {
    assert.deepEqual(entryOf("id", value), { id: "id", title: "id", checked: false, createdAt: 0 });
  }
});

test("st_03 settings are checked field by field, and those that were stored long ago are read and written as they are", async (t) => {
  initSync(await readFile(join(import.meta.dirname, "../../../web/pkg/syncline_state_bg.wasm")));
  const stored = { featureEnabled: false, scopeMode: "specific", scopeTargetId: "shop.example", themeToken: "#6441A5" };
  const keys = new Map([["syncSettings", JSON.stringify(stored)]]);
  const storage = {
    listen() {},
    get: async (names) => names.map((name) => [name, keys.get(name)]),
    set: async (entries) => entries.forEach(([key, text]) => keys.set(key, text)),
    remove: async () => {},
    list: async () => [...keys.keys()],
    send: async () => "acked",
    close() {},
  };
  const state = openState({ storage, settings });
  t.after(() => state.close());
  assert.deepEqual(state.settings, { featureEnabled: true, scopeMode: "all", themeToken: "#6441a5" });
  await state.ready;
  assert.deepEqual(state.settings, stored);
  const wrong = async (given, fields) => {
    await assert.rejects(state.setSettings(given), (error) => {
      assert.equal(error.code, "invalid-settings");
      assert.deepEqual(error.fields.map(({ field }) => field).sort(), fields);
      return true;
    });
  };
  await wrong({ featureEnabled: 1, scopeMode: "specific", themeToken: "red" }, ["featureEnabled", "scopeTargetId", "themeToken"]);
  await wrong({}, ["featureEnabled", "scopeMode", "themeToken"]);
  await wrong({ ...stored, scopeTargetId: " " }, ["scopeTargetId"]);
  await wrong({ ...stored, scopeTargetId: "x".repeat(257) }, ["scopeTargetId"]);
  for (const colour of ["red", "#12", "#12345", "#ggg", "#12345678 ", ""]) await wrong({ ...stored, themeToken: colour }, ["themeToken"]);
  for (const colour of ["#abc", "#abcd", "#aabbcc", "#aabbccdd"]) {
    const given = { featureEnabled: true, scopeMode: "all", themeToken: colour };
    await state.setSettings(given);
    assert.deepEqual(JSON.parse(keys.get("syncSettings")), given);
  }
});

test("st_03 a site is understood as people paste it", () => {
  const sites = [
    ["example.org", "example.org"],
    [" https://Example.ORG:8443/path?query ", "example.org"],
    ["localhost:3000", "localhost"],
    ["bücher.example", "xn--bcher-kva.example"],
    ["", ""],
    ["  ", ""],
    ["not a site", "not a site"],
  ];
  for (const [text, host] of sites) assert.equal(hostOf(text), host, text);
});

test("st_03 any colour becomes an accent that can be read on light and on dark", () => {
  for (const colour of ["#000", "#fff", "#ff0", "#6441a5", "#00ff00", "#0000ff80", "#777"]) {
    const accents = accentsOf(colour);
    const parts = (text) => text.match(/\d+/g).map(Number);
    const [light, dark] = accents["--accent"].map(parts);
    assert.ok(contrast(light, [255, 254, 251]) >= 4.5, `${colour} on light`);
    assert.ok(contrast(dark, [20, 28, 27]) >= 4.5, `${colour} on dark`);
    for (const [index, on] of accents["--on-accent"].map(parts).entries()) {
      assert.ok(contrast(on, [light, dark][index]) >= 4.5, `text on ${colour}`);
    }
  }
  for (const wrong of ["", "red", "#12", "#12345", "#ggg", null, 3]) assert.equal(accentsOf(wrong), null, String(wrong));
});

test("the place of the surface is one of four, whatever is stored", () => {
  assert.deepEqual(readPlace(undefined), { collapsed: true, corner: "bottom-right" });
  assert.deepEqual(readPlace({ collapsed: "no", corner: "middle" }), { collapsed: true, corner: "bottom-right" });
  assert.deepEqual(readPlace({ collapsed: false, corner: "top-left" }), { collapsed: false, corner: "top-left" });
  let corner = "bottom-right";
  for (let turn = 0; turn < 4; turn++) corner = nextCorner(corner);
  assert.equal(corner, "bottom-right");
});
