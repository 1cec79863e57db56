// The bench `state`: one toggle until another tab has it, start with 10,000 entities, the memory they take, and what a page loads.
// Each contender is `peers/<name>.js`, bundled and minified by esbuild; README.md says what is fair about it and what is not.
// Options: --toggles=N (200), --rounds=N (3), --entities=N (10000), --only=pages or --only=extension.

import { mkdtemp, readFile, rm, writeFile, cp, mkdir } from "node:fs/promises";
import { createServer } from "node:http";
import { loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { brotliCompressSync } from "node:zlib";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const { values } = parseArgs({
  options: {
    toggles: { type: "string", default: "200" },
    rounds: { type: "string", default: "3" },
    entities: { type: "string", default: "10000" },
    only: { type: "string" },
  },
});
const [TOGGLES, ROUNDS, ENTITIES] = [values.toggles, values.rounds, values.entities].map(Number);
// Slower than anything measured, so that one toggle is over before the next.
const PAUSE_MS = 15;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const PAGE = ["syncline", "raw", "channel", "rxdb", "tinybase", "yjs"];
const EXTENSION = ["syncline", "raw", "webext-storage"];
const STORES = ["syncline", "rxdb", "tinybase", "yjs"];
const WASM = await readFile(new URL("../../web/pkg/syncline_state_bg.wasm", import.meta.url));

const bundles = new Map();
for (const name of new Set([...PAGE, ...EXTENSION])) bundles.set(name, await bundle(name));

/** @param {import("esbuild").BuildOptions} [options] */
function bundled(name, options) {
  return build({
    entryPoints: [join(import.meta.dirname, `peers/${name}.js`)],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
    logLevel: "error",
    ...options,
  });
}

async function bundle(name) {
  return (await bundled(name)).outputFiles[0].contents;
}

/** What a page loads of a contender before it asks for anything else: scripts that are imported on demand do not count. */
async function loadedBytes(name) {
  const { outputFiles, metafile } = await bundled(name, { splitting: true, metafile: true, outdir: import.meta.dirname });
  const contents = new Map(outputFiles.map((file) => [file.path, file.contents]));
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [path, { ...output, bytes: contents.get(resolve(path)) }]));
  const [entry] = [...outputs].find(([, { entryPoint }]) => entryPoint?.endsWith(`peers/${name}.js`));
  const loaded = new Set([entry]);
  for (const path of loaded) {
    for (const { path: next, kind } of outputs.get(path).imports) if (kind === "import-statement") loaded.add(next);
  }
  const scripts = [...loaded].map((path) => brotliCompressSync(outputs.get(path).bytes).length);
  return scripts.reduce((sum, bytes) => sum + bytes, name === "syncline" ? brotliCompressSync(WASM).length : 0);
}

function percentile(times, share) {
  const sorted = [...times].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Toggles in one tab until the other has each, and until it is stored as well; both clocks are the machine's. */
async function toggles(one, other, name) {
  await Promise.all([one, other].map((page) => page.evaluate((name) => window.begin(name), name)));
  return togglesOf(one, other);
}

async function togglesOf(one, other) {
  await other.evaluate(() => window.listen());
  const { begun, stored } = await one.evaluate(([count, pauseMs]) => window.toggleAll(count, pauseMs), [TOGGLES, PAUSE_MS]);
  const heard = await other.evaluate((count) => window.heardAll(count), TOGGLES);
  // The first ones warm up.
  const counted = (times) => times.map((at, number) => at - begun[number]).slice(Math.ceil(TOGGLES / 10));
  return { told: counted(heard), kept: counted(heard.map((at, number) => Math.max(at, stored[number]))) };
}

const HARNESS = `
const now = () => performance.timeOrigin + performance.now();
// DevTools count neither the memory of WASM modules nor which they are.
const memories = [];
const noting = (instantiate) => async (...given) => {
  const made = await instantiate.apply(WebAssembly, given);
  const { memory } = (made.instance ?? made).exports;
  if (memory) memories.push(memory);
  return made;
};
WebAssembly.instantiate = noting(WebAssembly.instantiate);
WebAssembly.instantiateStreaming = noting(WebAssembly.instantiateStreaming);
window.wasmBytes = () => memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
let peer, heard = [], waiting = () => {};
window.begin = async (name) => { peer = await (await import("/" + name + ".js")).open(); heard = []; };
window.listen = () => peer.hear((number) => { heard[number] ??= now(); waiting(); });
window.toggleAll = async (count, pauseMs) => {
  const [begun, stored] = [[], []];
  for (let number = 0; number < count; number++) {
    begun.push(now());
    await peer.toggle(number);
    stored.push(now());
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return { begun, stored };
};
window.heardAll = (count) => new Promise((resolve) => {
  waiting = () => { for (let n = 0; n < count; n++) if (heard[n] === undefined) return; resolve(heard); };
  waiting();
});
window.fill = async (count) => {
  const begun = performance.now();
  await peer.fill(count);
  return performance.now() - begun;
};
window.start = async (name) => {
  const { open } = await import("/" + name + ".js");
  const begun = performance.now();
  peer = await open();
  const size = await peer.size();
  return { ms: performance.now() - begun, size };
};
document.title = "bench";
`;

async function serve() {
  const server = createServer((request, response) => {
    const name = /^\/([\w-]+)\.js$/.exec(request.url)?.[1];
    if (name === "harness") response.setHeader("content-type", "text/javascript").end(HARNESS);
    else if (bundles.has(name)) response.setHeader("content-type", "text/javascript").end(bundles.get(name));
    else if (request.url.endsWith(".wasm")) response.setHeader("content-type", "application/wasm").end(WASM);
    else {
      response.setHeader("content-type", "text/html");
      response.end('<!doctype html><link rel="icon" href="data:,"><script type="module" src="/harness.js"></script>');
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

/** Runs every contender in turns, `rounds` times, another one first each time, each in a profile of its own; all figures of each. */
async function inTurns(names, turn) {
  const figures = new Map(names.map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (let at = 0; at < names.length; at++) {
      const name = names[(at + round) % names.length];
      figures.get(name).push(await turn(name));
    }
  }
  return figures;
}

async function tabs(context, url, count) {
  const pages = [];
  for (let index = 0; index < count; index++) {
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForFunction(() => document.title === "bench");
    pages.push(page);
  }
  return pages;
}

/** What a page keeps in memory after a collection: objects, buffers and WASM. */
async function heldBytes(session, page) {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize } = await session.send("Runtime.getHeapUsage");
  return usedSize + backingStorageSize + (await page.evaluate(() => window.wasmBytes()));
}

async function inPages(url) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS });
  try {
    const latency = await inTurns(PAGE, async (name) => {
      const context = await browser.newContext();
      const times = await toggles(...(await tabs(context, url, 2)), name);
      await context.close();
      return times;
    });
    const start = await inTurns(STORES, async (name) => {
      const context = await browser.newContext();
      const [writer, reader] = await tabs(context, url, 2);
      await writer.evaluate((name) => window.begin(name), name);
      const fillMs = await writer.evaluate((count) => window.fill(count), ENTITIES);
      await writer.close();
      const session = await context.newCDPSession(reader);
      const before = await heldBytes(session, reader);
      const { ms, size } = await reader.evaluate((name) => window.start(name), name);
      if (size !== ENTITIES) throw new Error(`${name} started with ${size} of ${ENTITIES} entities`);
      const bytes = (await heldBytes(session, reader)) - before;
      // Once more with two tabs, now that there is something beside the entity that changes.
      const [another] = await tabs(context, url, 1);
      await another.evaluate((name) => window.begin(name), name);
      const times = await togglesOf(another, reader);
      await context.close();
      return { ms, fillMs, bytes, ...times };
    });
    return { latency, start };
  } finally {
    await browser.close();
  }
}

async function inExtension() {
  const folder = await mkdtemp(join(tmpdir(), "syncline-bench-state-"));
  const extension = join(folder, "extension");
  await mkdir(extension);
  const manifest = {
    manifest_version: 3, name: "bench", version: "1", permissions: ["storage"], background: { service_worker: "worker.js" },
    content_security_policy: { extension_pages: "script-src 'self' 'wasm-unsafe-eval'; object-src 'self'" },
  };
  await writeFile(join(extension, "manifest.json"), JSON.stringify(manifest));
  await writeFile(join(extension, "worker.js"), "");
  await writeFile(join(extension, "page.html"), '<!doctype html><script type="module" src="harness.js"></script>');
  await writeFile(join(extension, "harness.js"), HARNESS);
  await writeFile(join(extension, "syncline_state_bg.wasm"), WASM);
  for (const name of EXTENSION) await writeFile(join(extension, `${name}.js`), bundles.get(name));
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: "/usr/bin/chromium",
    args: [...FLAGS, `--disable-extensions-except=${extension}`, `--load-extension=${extension}`],
  });
  try {
    const [worker = await context.waitForEvent("serviceworker")] = context.serviceWorkers();
    const url = new URL("/page.html", worker.url()).href;
    return await inTurns(EXTENSION, async (name) => {
      const pages = await tabs(context, url, 2);
      await pages[0].evaluate(() => chrome.storage.local.clear());
      const times = await toggles(...pages, name);
      await Promise.all(pages.map((page) => page.close()));
      return times;
    });
  } finally {
    await context.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function print(title, heads, rows) {
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column].length)));
  const line = (cells) => `| ${cells.map((cell, column) => (column ? cell.padStart(widths[column]) : cell.padEnd(widths[column]))).join(" | ")} |`;
  console.log(`\n${title}\n\n${line(heads)}`);
  console.log(`|${widths.map((width, column) => (column ? `${"-".repeat(width + 1)}:` : "-".repeat(width + 2))).join("|")}|`);
  for (const row of rows) console.log(line(row));
}

const median = (numbers) => percentile(numbers, 0.5);

/** Each figure with its ratio to the first contender's. */
const beside = (figure, first, digits) => [figure.toFixed(digits), `${(figure / first).toFixed(2)}x`];

/** `which`: `told`, another tab has it; `kept`, and it is stored. */
function latencies(title, figures, which) {
  const summary = [...figures].map(([name, rounds]) => ({
    name,
    p50_ms: median(rounds.map((times) => percentile(times[which], 0.5))),
    p99_ms: median(rounds.map((times) => percentile(times[which], 0.99))),
  }));
  const [first] = summary;
  print(title, ["contender", "p50 ms", "to syncline", "p99 ms", "to syncline"], summary.map(({ name, p50_ms, p99_ms }) =>
    [name, ...beside(p50_ms, first.p50_ms, 2), ...beside(p99_ms, first.p99_ms, 2)]));
  return summary;
}

function starts(figures) {
  const summary = [...figures].map(([name, rounds]) => ({
    name,
    ms: median(rounds.map(({ ms }) => ms)),
    fill_ms: median(rounds.map(({ fillMs }) => fillMs)),
    bytes: median(rounds.map(({ bytes }) => bytes)),
  }));
  const [first] = summary;
  const heads = ["contender", "start ms", "to syncline", "memory MB", "to syncline", "add all ms", "to syncline"];
  print(`${ENTITIES} entities: start of a tab, memory, adding them`, heads, summary.map(({ name, ms, fill_ms, bytes }) =>
    [name, ...beside(ms, first.ms, 0), ...beside(bytes / 1e6, first.bytes / 1e6, 1), ...beside(fill_ms, first.fill_ms, 0)]));
  return summary;
}

console.log(`load average before: ${loadavg()[0].toFixed(1)}`);
const answers = { machine: { load_average: loadavg()[0] }, toggles: TOGGLES, rounds: ROUNDS, entities: ENTITIES };
if ((values.only ?? "pages") === "pages") {
  const server = await serve();
  const { latency, start } = await inPages(`http://127.0.0.1:${server.address().port}/`);
  server.close();
  answers.pages = latencies("One toggle until another tab has it, in pages", latency, "told");
  answers.pages_stored = latencies("One toggle until another tab has it and it is stored, in pages", latency, "kept");
  answers.start = starts(start);
  answers.pages_full = latencies(`The same among ${ENTITIES} entities, another tab has it`, start, "told");
  answers.pages_full_stored = latencies(`The same among ${ENTITIES} entities, and it is stored`, start, "kept");
}
if ((values.only ?? "extension") === "extension") {
  answers.extension = latencies("One toggle until another page of an extension has it", await inExtension(), "told");
}
answers.size = [];
for (const name of [...STORES, "webext-storage"]) answers.size.push({ name, brotli: await loadedBytes(name) });
print("What a page loads, minified, brotli", ["contender", "KB", "to syncline"], answers.size.map(({ name, brotli }) =>
  [name, ...beside(brotli / 1000, answers.size[0].brotli / 1000, 1)]));
if (process.env.BENCH_JSON) await writeFile(process.env.BENCH_JSON, JSON.stringify(answers, null, 2));
