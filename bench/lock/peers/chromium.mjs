// In one page of Chromium: the project lock of the package, the browser's own locks, and those with a file in the
// origin's private file system, which is what stands for a lease that survives the tab. node chromium.mjs <seconds>

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

import { chromium } from "playwright-core";

const seconds = Number(process.argv[2]);
const PACKAGE = join(import.meta.dirname, "../../../web/pkg");
const TYPES = { js: "text/javascript", wasm: "application/wasm" };
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

const server = createServer(async (request, response) => {
  if (!request.url.startsWith("/pkg/")) {
    response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>bench</title>");
    return;
  }
  const name = request.url.slice("/pkg/".length);
  const bytes = await readFile(join(PACKAGE, name)).catch(() => null);
  response.writeHead(bytes ? 200 : 404, { "content-type": TYPES[name.split(".").at(-1)] ?? "text/plain" });
  response.end(bytes);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS });
const page = await browser.newPage();
await page.goto(`http://127.0.0.1:${server.address().port}/`);

const figures = await page.evaluate(async (seconds) => {
  async function race(pair) {
    await pair();
    const times = [];
    const begun = performance.now();
    while (performance.now() - begun < seconds * 1000) {
      const asked = performance.now();
      await pair();
      times.push(performance.now() - asked);
    }
    const took = (performance.now() - begun) / 1000;
    times.sort((one, other) => one - other);
    const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))];
    return { per_second: times.length / took, p50_ms: at(0.5), p99_ms: at(0.99) };
  }

  const { acquireProjectLock, releaseProjectLock } = await import("/pkg/syncline.js");
  const syncline = await race(async () => {
    const { lease } = await acquireProjectLock();
    await releaseProjectLock({ lease });
  });
  const web_locks = await race(() => navigator.locks.request("bench", () => {}));
  const root = await navigator.storage.getDirectory();
  const web_locks_and_file = await race(() =>
    navigator.locks.request("bench", async () => {
      const file = await root.getFileHandle("bench.lock", { create: true });
      const writable = await file.createWritable();
      await writable.write("held");
      await writable.close();
      await root.removeEntry("bench.lock");
    }),
  );
  return { syncline, web_locks, web_locks_and_file };
}, seconds);

console.log(JSON.stringify(figures));
await browser.close();
server.close();
