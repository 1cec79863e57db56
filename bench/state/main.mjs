// The bench `state`: one toggle until another tab has it, start with 10,000 entities, and what a page loads.
// Each contender is `peers/<name>.js`, bundled and minified by esbuild; README.md says what is fair about it and what is not.
// Options: --toggles=N (200), --rounds=N (3), --entities=N (10000), --only=pages or --only=extension.

import { mkdtemp, readFile, rm, writeFile, cp, mkdir } from "node:fs/promises";
import { createServer } from "node:http";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
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

async function bundle(name) {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, `peers/${name}.js`)],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
    logLevel: "error",
  });
  return outputFiles[0].contents;
}

function percentile(times, share) {
  const sorted = [...times].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Toggles in one tab until the other has each; both clocks are the machine's. */
async function toggles(one, other, name) {
  await Promise.all([one, other].map((page) => page.evaluate((name) => window.begin(name), name)));
  await other.evaluate(() => window.listen());
  const begun = await one.evaluate(([count, pauseMs]) => window.toggleAll(count, pauseMs), [TOGGLES, PAUSE_MS]);
  const heard = await other.evaluate((count) => window.heardAll(count), TOGGLES);
  // The first ones warm up.
  return begun.map((at, number) => heard[number] - at).slice(Math.ceil(TOGGLES / 10));
}

const HARNESS = `
const now = () => performance.timeOrigin + performance.now();
let peer, heard = [], waiting = () => {};
window.begin = async (name) => { peer = await (await import("/" + name + ".js")).open(); heard = []; };
window.listen = () => peer.hear((number) => { heard[number] ??= now(); waiting(); });
window.toggleAll = async (count, pauseMs) => {
  const begun = [];
  for (let number = 0; number < count; number++) {
    begun.push(now());
    await peer.toggle(number);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return begun;
};
window.heardAll = (count) => new Promise((resolve) => {
  waiting = () => { for (let n = 0; n < count; n++) if (heard[n] === undefined) return; resolve(heard); };
  waiting();
});
window.fill = async (count) => { await peer.fill(count); };
window.start = async (name) => {
  const { open } = await import("/" + name + ".js");
  const begun = performance.now();
  const size = await (await open()).size();
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

/** Runs every contender in turns, `rounds` times, each time in a profile of its own; all figures of each. */
async function inTurns(names, turn) {
  const figures = new Map(names.map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of names) figures.get(name).push(await turn(name));
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
      await writer.evaluate((count) => window.fill(count), ENTITIES);
      await writer.close();
      const { ms, size } = await reader.evaluate((name) => window.start(name), name);
      if (size !== ENTITIES) throw new Error(`${name} started with ${size} of ${ENTITIES} entities`);
      await context.close();
      return ms;
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

function latencies(title, figures) {
  const summary = [...figures].map(([name, rounds]) => ({
    name,
    p50_ms: median(rounds.map((times) => percentile(times, 0.5))),
    p99_ms: median(rounds.map((times) => percentile(times, 0.99))),
  }));
  const limit = summary.find(({ name }) => name === "raw");
  print(title, ["contender", "p50 ms", "p99 ms", "p50 to the limit", "p99 to the limit"], summary.map(({ name, p50_ms, p99_ms }) =>
    [name, p50_ms.toFixed(2), p99_ms.toFixed(2), `${(p50_ms / limit.p50_ms).toFixed(2)}x`, `${(p99_ms / limit.p99_ms).toFixed(2)}x`]));
  return summary;
}

console.log(`load average before: ${loadavg()[0].toFixed(1)}`);
const answers = { machine: { load_average: loadavg()[0] } };
if ((values.only ?? "pages") === "pages") {
  const server = await serve();
  const { latency, start } = await inPages(`http://127.0.0.1:${server.address().port}/`);
  server.close();
  answers.pages = latencies("One toggle until another tab has it, in pages", latency);
  answers.start = [...start].map(([name, rounds]) => ({ name, ms: median(rounds) }));
  print(`Start with ${ENTITIES} entities`, ["contender", "ms"], answers.start.map(({ name, ms }) => [name, ms.toFixed(0)]));
}
if ((values.only ?? "extension") === "extension") {
  answers.extension = latencies("One toggle until another page of an extension has it", await inExtension());
}
const wasm = brotliCompressSync(WASM).length;
answers.size = [...bundles].filter(([name]) => !["raw", "channel"].includes(name)).map(([name, bytes]) => ({
  name, brotli: brotliCompressSync(bytes).length + (name === "syncline" ? wasm : 0),
}));
print("What a page loads, minified, brotli", ["contender", "KB"], answers.size.map(({ name, brotli }) => [name, (brotli / 1000).toFixed(1)]));
if (process.env.BENCH_JSON) await writeFile(process.env.BENCH_JSON, JSON.stringify(answers, null, 2));
