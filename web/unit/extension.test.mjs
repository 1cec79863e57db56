// The extension's parts that need no browser: its manifest is true, and its one setting is checked.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { checkNodeAddress, DEFAULT_NODE_ADDRESS } from "../extension/settings.js";

const EXTENSION = join(import.meta.dirname, "../extension");
const manifest = JSON.parse(await readFile(join(EXTENSION, "manifest.json"), "utf8"));

test("the manifest has the version of the package, asks for storage alone and allows WASM", async () => {
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, "../pkg/package.json"), "utf8"));
  assert.equal(manifest.version, version);
  assert.deepEqual(manifest.permissions, ["storage"]);
  assert.equal("host_permissions" in manifest || "content_scripts" in manifest, false);
  assert.match(manifest.content_security_policy.extension_pages, /script-src 'self' 'wasm-unsafe-eval';/);
});

test("every file the manifest names is there, and every icon has the size it claims", async () => {
  for (const file of [manifest.action.default_popup, manifest.options_ui.page, manifest.background.service_worker]) {
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
