// The browser package as it is shipped (web/pkg), where no browser is needed: what importing does, how loading fails and
// recovers, and that its documentation is complete. Needs `cargo xtask wasm` first.

import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const UNREACHABLE = "http://127.0.0.1:1/";
const PACKAGE = join(import.meta.dirname, "../pkg");
const SOURCES = join(import.meta.dirname, "../../crates/syncline-browser/js");
const MODULE = await readFile(join(PACKAGE, "syncline_queue_bg.wasm"));

/** Loads a copy of the package, so that each test begins with a module that is not initialised. */
async function freshPackage(t, door = "queue") {
  // Where React is found, which one of the doors is for.
  const folder = await mkdtemp(join(import.meta.dirname, "../pkg-unit-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await cp(PACKAGE, folder, { recursive: true });
  return import(pathToFileURL(join(folder, `${door}.js`)).href);
}

/** Serves what `answer` says for each request: `[status, body]`. */
async function serve(t, answer) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(request.url);
    const [status, body] = answer(requests.length);
    response.writeHead(status, { "content-type": "application/wasm" }).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}/module.wasm`, requests };
}

test("the package can be imported where there is no page, and a viewer there is a typed error", async (t) => {
  const { startViewer, SynclineError } = await freshPackage(t, "syncline");
  assert.throws(
    () => startViewer(),
    (error) => {
      assert.ok(error instanceof SynclineError && error instanceof Error);
      assert.equal(error.name, "SynclineError");
      assert.equal(error.code, "unsupported-environment");
      assert.equal(error.retryable, false);
      return true;
    },
  );
});

test("what needs the module says so until it is there", async (t) => {
  const { initSync, version } = await freshPackage(t);
  assert.throws(() => version(), { name: "SynclineError", code: "not-initialized", retryable: false });
  initSync(MODULE);
  initSync(MODULE);
  const { version: written } = JSON.parse(await readFile(join(PACKAGE, "package.json"), "utf8"));
  assert.equal(version(), written);
});

test("calls at the same time share one download, and later ones need none", async (t) => {
  const { init, version } = await freshPackage(t);
  const { url, requests } = await serve(t, () => [200, MODULE]);
  await Promise.all([init(url), init(new URL(url)), init(UNREACHABLE)]);
  await init(url);
  assert.equal(requests.length, 1);
  assert.match(version(), /^\d+\.\d+\.\d+$/);
});

test("a failed start tells what may pass from what will not, and can be tried again", async (t) => {
  const { init, version } = await freshPackage(t);
  const answers = [
    [503, ""],
    [404, ""],
    [200, "no module"],
    [200, MODULE.subarray(0, 500)],
    [200, MODULE],
  ];
  const { url, requests } = await serve(t, (count) => answers[count - 1]);
  const failed = (retryable) => ({ name: "SynclineError", code: "wasm-load-failed", retryable });

  await assert.rejects(init(url), failed(true), "the server is ill");
  await assert.rejects(init(url), failed(false), "there is no such file");
  await assert.rejects(init(url), failed(false), "something else is there");
  await assert.rejects(init(url), failed(false), "the file is cut short");
  await assert.rejects(init(UNREACHABLE), failed(true), "nobody answers");
  assert.throws(() => version(), { code: "not-initialized" });

  await init(url);
  assert.equal(requests.length, 5);
  assert.match(version(), /^\d+\.\d+\.\d+$/);
});

test("bytes and compiled modules will do, and wrong ones keep their cause", async (t) => {
  const first = await freshPackage(t);
  await first.init(Promise.resolve(MODULE));
  const second = await freshPackage(t);
  second.initSync(await WebAssembly.compile(MODULE));
  assert.equal(second.version(), first.version());

  const third = await freshPackage(t);
  assert.throws(
    () => third.initSync(new Uint8Array(3)),
    (error) => {
      assert.equal(error.code, "wasm-load-failed");
      assert.ok(error.cause instanceof WebAssembly.CompileError);
      return true;
    },
  );
});

// Node's fetch() reads no files: init() by itself failed there, and only there.
test("re_06 outside of pages the rules are found by themselves, beside the scripts", async (t) => {
  const { createQueue } = await freshPackage(t);
  const queue = createQueue({ name: "words", run: async (key) => key.toUpperCase() });
  t.after(() => queue.close());
  await queue.enqueue("apples");
  assert.equal(await queue.result("apples"), "APPLES");

  const { init, version } = await freshPackage(t, "state");
  await init();
  assert.match(version(), /^\d+\.\d+\.\d+$/);
  const missing = await freshPackage(t, "state");
  await assert.rejects(missing.init(new URL("nothing.wasm", import.meta.url)), { code: "wasm-load-failed" });
});

test("the types name exactly what is exported, and exactly the codes that occur", async (t) => {
  const front = await readFile(join(PACKAGE, "syncline.d.ts"), "utf8");
  const declared = [...front.matchAll(/^ {2}(\w+),$/gm)].map(([, name]) => name);
  const exported = await freshPackage(t, "syncline");
  assert.deepEqual(declared.sort(), Object.keys(exported).sort());

  const { exports } = JSON.parse(await readFile(join(PACKAGE, "package.json"), "utf8"));
  for (const door of Object.keys(exports).filter((name) => exports[name].types !== undefined && name !== ".")) {
    const own = await readFile(join(PACKAGE, exports[door].types), "utf8");
    const names = [...own.matchAll(/^export (?:function|class) (\w+)/gm)].map(([, name]) => name);
    const there = await freshPackage(t, door.slice("./".length));
    assert.notEqual(names.length, 0, door);
    for (const name of [...names, "SynclineError"]) assert.equal(typeof there[name], "function", `${door} ${name}`);
  }

  const types = await readFile(join(PACKAGE, "errors.d.ts"), "utf8");
  const promised = new Set([...types.matchAll(/^ {2}\| "([a-z-]+)"/gm)].map(([, code]) => code));
  const explained = new Set([...types.matchAll(/^ \* \| `([a-z-]+)` \|/gm)].map(([, code]) => code));
  const occurring = new Set();
  // In the sources, because the package has other names for what it does not export.
  for (const file of await readdir(SOURCES)) {
    if (!file.endsWith(".js")) continue;
    const text = await readFile(join(SOURCES, file), "utf8");
    for (const [, code] of text.matchAll(/new SynclineError\(\s*"([a-z-]+)"/g)) occurring.add(code);
  }
  assert.deepEqual([...promised].sort(), [...occurring].sort());
  assert.deepEqual([...explained].sort(), [...promised].sort());
});
