// The table of docs/browsers.md, cell by cell: what each system does where a browser, a user or a policy takes something away. A
// cell says "works", or has the code of the error that comes. Every promise settles, within 5 s on a machine that is not busy.

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "@playwright/test";
import { build } from "esbuild";
import { CHROMIUM, FLAGS } from "./support/chromium.js";
import { openLockServer, TROUBLES } from "./support/lock-server.js";
import { expect, test } from "./support/test.js";

const WEB = join(import.meta.dirname, "..");
const SYSTEMS = ["state", "bridge", "lock", "AutoSave", "kept queue", "viewer"];
const ROOM_BYTES = 1_000_000;
// A busy machine stretches the 5 s.
const SETTLED_MS = 10_000;

/** @typedef {import("@playwright/test").Page} Page */
/** @typedef {{ page: Page, folder: string, url: string, lanUrl: string, later: (work: () => Promise<void>) => void }} World */
/**
 * Where the systems are tried: `pkg` is the origin of the package; `workers` the folder of their worker scripts, `lockWorker` that
 * of the lock alone; `fill` is called when all of them are open.
 * @typedef {{ place: Page | import("@playwright/test").Frame, pkg?: string, workers?: string, lockWorker?: string, fill?: () => Promise<unknown> }} Situation
 */

/** How each row of the table comes about. */
const ROWS = /** @type {Record<string, (world: World) => Promise<Situation>>} */ ({
  "nothing, on `https://` and `localhost`": async ({ page, url }) => visit(page, url),
  "a secure origin: plain `http://`": async ({ page, lanUrl }) => visit(page, lanUrl),
  "lasting storage: a private window": async ({ page, url }) => visit(page, url),
  "storage: the user forbids it": async ({ folder, url, later }) => {
    await mkdir(join(folder, "Default"));
    const preferences = { profile: { default_content_setting_values: { cookies: 2 } } };
    await writeFile(join(folder, "Default/Preferences"), JSON.stringify(preferences));
    const context = await chromium.launchPersistentContext(folder, { executablePath: CHROMIUM, args: FLAGS });
    later(() => context.close());
    return visit(await context.newPage(), url);
  },
  "room in the storage": async ({ page, url }) => {
    const session = await page.context().newCDPSession(page);
    const limit = (/** @type {number} */ quotaSize) => session.send("Storage.overrideQuotaForOrigin", { origin: url, quotaSize });
    // Chromium asks for the room of a database when that is opened, and remembers it for a while; for files it asks each time.
    await limit(ROOM_BYTES);
    return { ...(await visit(page, url)), fill: () => limit(1) };
  },
  IndexedDB: ({ page, url }) => visitWithout(page, url, "no-database"),
  "IndexedDB: it throws": ({ page, url }) => visitWithout(page, url, "storage-forbidden"),
  "OPFS": ({ page, url }) => visitWithout(page, url, "no-files"),
  "Web Locks": ({ page, url }) => visitWithout(page, url, "no-locks"),
  "Web Locks: they throw": ({ page, url }) => visitWithout(page, url, "locks-throw"),
  "`localStorage`": ({ page, url }) => visitWithout(page, url, "no-local-storage"),
  BroadcastChannel: ({ page, url }) => visitWithout(page, url, "no-channels"),
  "`Worker`": async ({ page, url }) => {
    await page.addInitScript("delete globalThis.Worker;");
    return visit(page, url);
  },
  "module workers": async ({ page, url }) => {
    await page.addInitScript("const Plain = Worker; globalThis.Worker = function (address) { return new Plain(address); };");
    return visit(page, url);
  },
  "WASM: the policy forbids it": async ({ page, url }) => {
    const policy = encodeURIComponent("script-src 'self'");
    return { ...(await visit(page, `${url}/?csp=${policy}`)), workers: `/pkg-with/${policy}` };
  },
  "workers: the policy forbids them": async ({ page, url }) =>
    visit(page, `${url}/?csp=${encodeURIComponent("script-src 'self' 'wasm-unsafe-eval'; worker-src 'none'")}`),
  "Trusted Types: the package has no policy": async ({ page, url }) =>
    visit(page, `${url}/?csp=${encodeURIComponent("script-src 'self' 'wasm-unsafe-eval'; require-trusted-types-for 'script'; trusted-types other")}`),
  "the package's `.wasm` files": async ({ page, url }) => {
    await page.context().route("**/*.wasm", (route) => route.fulfill({ status: 404 }));
    return visit(page, url);
  },
  "the package's other scripts": async ({ page, url }) => {
    await page.context().route(/(lock-worker|viewer-worker|queue-engine|state-bridge)\.js$/, (route) => route.fulfill({ status: 404 }));
    return visit(page, url);
  },
  // Playwright's windows are private ones.
  "its own site: a frame in a page of another, in a private window": async ({ page, url }) => {
    const elsewhere = new URL(url);
    elsewhere.hostname = "localhost";
    await page.goto(elsewhere.href);
    await page.evaluate((src) => {
      const frame = document.createElement("iframe");
      frame.src = src;
      const loaded = new Promise((resolve) => (frame.onload = resolve));
      document.body.append(frame);
      return loaded;
    }, `${url}/?framed`);
    return { place: page.frames()[1] };
  },
  "an origin: a frame with `sandbox`": async ({ page, url }) => {
    await page.goto(url);
    await page.evaluate(() => {
      const frame = document.createElement("iframe");
      frame.sandbox.add("allow-scripts");
      frame.src = "/?framed";
      const loaded = new Promise((resolve) => (frame.onload = resolve));
      document.body.append(frame);
      return loaded;
    });
    return { place: page.frames()[1], pkg: url };
  },
  "a server: bundled, from `file://`": async ({ page, folder }) => {
    const outfile = join(folder, "app.js");
    await build({ entryPoints: [join(WEB, "pkg/syncline.js")], bundle: true, format: "iife", globalName: "syncline", outfile, logLevel: "silent" });
    await writeFile(join(folder, "index.html"), '<!doctype html><script src="app.js"></script>');
    return visit(page, pathToFileURL(join(folder, "index.html")).href);
  },
});

/** @returns {Promise<Situation>} */
async function visit(/** @type {Page} */ page, /** @type {string} */ url) {
  await page.goto(url);
  return { place: page };
}

/** @returns {Promise<Situation>} */
async function visitWithout(/** @type {Page} */ page, /** @type {string} */ url, /** @type {string} */ trouble) {
  await page.addInitScript(TROUBLES[trouble]);
  return { ...(await visit(page, url)), lockWorker: `/troubled/${trouble}` };
}

/** What the systems come to, as "works" or a code, and after how many milliseconds. */
async function outcomes(/** @type {Situation} */ { place, pkg = "", workers, lockWorker, fill }) {
  if (fill !== undefined) await /** @type {Page} */ (place).exposeFunction("fill", fill);
  return place.evaluate(
    async ({ pkg, workers, lockWorker, limitMs }) => {
      const page = /** @type {any} */ (window);
      const { acquireProjectLock, createQueue, openAutoSave, openState, releaseProjectLock, startViewer, SynclineError, ProjectLockError } =
        page.syncline ?? (await import(`${pkg}/pkg/syncline.js`));
      const ofLock = { workerUrl: lockWorker ?? (workers && `${workers}/lock-worker.js`) };
      const ofViewer = { workerUrl: workers && `${workers}/viewer-worker.js` };
      // Nothing that a browser could make smaller.
      const long = Array.from({ length: 4_000 }, () => crypto.getRandomValues(new Uint32Array(4)).join("")).join("");
      const reaches = (/** @type {any} */ it, /** @type {() => boolean} */ isThere) =>
        new Promise((resolve) => {
          const look = () => isThere() && resolve(undefined);
          it.subscribe(look);
          look();
        });
      // Where the room is to go, it goes when all have begun.
      let missing = 5;
      /** @type {() => void} */
      let allOpen = () => {};
      const open = new Promise((resolve) => (allOpen = () => resolve(undefined)));
      const opened = async () => {
        if (page.fill === undefined) return;
        missing -= 1;
        if (missing === 0) page.fill().then(allOpen);
        await open;
      };
      const change = async (/** @type {any} */ state) => {
        const asked = [state.put("a", { long }), state.setSettings({ colour: "red" })];
        // Where there is no more room, small things may still find some.
        if (page.fill) asked.splice(0, 2, ...Array.from({ length: 12 }, (_, number) => state.put(`${number}`, { long })));
        const failed = (await Promise.allSettled([state.ready, ...asked])).flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
        const codes = new Set(failed.map(({ code }) => code));
        // All the same, or the first would hide the others.
        if (codes.size > 1) throw new Error(`several codes: ${[...codes]}`);
        if (failed.length > 0) throw failed[0];
      };
      const asked = /** @type {Record<string, () => any>} */ ({
        state: async () => {
          const state = openState({ name: "alone" });
          if (page.fill) await state.ready;
          await opened();
          await change(state);
        },
        bridge: async () => {
          const state = openState({ name: "bridged", bridge: { space: "missing" } });
          if (page.fill) await state.ready;
          await opened();
          await change(state);
          await reaches(state, () => state.link?.status === "in-step");
        },
        lock: async () => {
          const asked = { ...ofLock, retryPolicy: { maxAttempts: 2, initialDelayMs: 50 } };
          await releaseProjectLock({ lease: (await acquireProjectLock(asked)).lease });
          await opened();
          await releaseProjectLock({ lease: (await acquireProjectLock(asked)).lease });
        },
        AutoSave: async () => {
          const save = openAutoSave({ ...ofLock, project: "written" });
          await save.ready;
          await reaches(save, () => save.state.status === "saved");
          await opened();
          save.change(long);
          await save.flush();
        },
        "kept queue": async () => {
          const queue = createQueue({ name: "kept", persist: true, run: async () => "done" });
          await queue.ready;
          await opened();
          const keys = Array.from({ length: page.fill ? 4_000 : 4 }, (_, number) => `${number}-${long.slice(20 * number, 20 * number + 1_000)}`);
          await queue.enqueue(keys);
          await queue.result(keys[0]);
        },
        viewer: () => startViewer({ ...ofViewer, onError() {} }).sessionId,
      });
      const outcome = async (/** @type {() => any} */ ask) => {
        const begun = performance.now();
        const late = new Promise((resolve) => setTimeout(() => resolve("never settles"), limitMs));
        const told = Promise.resolve()
          .then(ask)
          .then(
            () => "works",
            (error) => (error instanceof SynclineError || error instanceof ProjectLockError ? error.code : `untyped: ${error?.stack ?? error}`),
          );
        return { came: await Promise.race([told, late]), ms: Math.round(performance.now() - begun) };
      };
      const entries = await Promise.all(Object.entries(asked).map(async ([system, ask]) => [system, await outcome(ask)]));
      return Object.fromEntries(entries);
    },
    { pkg, workers, lockWorker, limitMs: SETTLED_MS },
  );
}

/** The guide's table, by row and system: "works", or the first code in the cell. */
async function promised() {
  const text = await readFile(join(WEB, "../docs/browsers.md"), "utf8");
  const lines = text.split("\n").filter((line) => line.startsWith("| "));
  const cells = (/** @type {string} */ line) => line.slice(1, -1).split("|").map((cell) => cell.trim());
  const head = lines.findIndex((line) => cells(line).slice(1).join() === SYSTEMS.join());
  const rows = lines.slice(head + 1).map(cells).filter((row) => row.length === SYSTEMS.length + 1);
  return new Map(rows.map(([row, ...found]) => [row, found.map((cell) => (cell.startsWith("works") ? "works" : /`([a-z-]+)`/.exec(cell)?.[1]))]));
}

test.setTimeout(120_000);
test.use({ expectedErrors: /./ });

test("st_32 lk_31 every row of the guide's table is tried", async () => {
  expect([...(await promised()).keys()]).toEqual(Object.keys(ROWS));
});

for (const [row, arrive] of Object.entries(ROWS)) {
  test(`st_32 lk_31 what is missing: ${row}`, async ({ page, node }) => {
    const server = await openLockServer({ api: node.url });
    const folder = await mkdtemp(join(tmpdir(), "syncline-missing-"));
    /** @type {(() => Promise<void>)[]} */
    const ends = [];
    try {
      const { url, lanUrl } = server;
      const came = await outcomes(await arrive({ page, folder, url, lanUrl, later: (work) => ends.push(work) }));
      console.log(`${row}: ${SYSTEMS.map((system) => `${system} ${came[system].came} after ${came[system].ms} ms`).join(", ")}`);
      const expected = (await promised()).get(row) ?? [];
      expect(Object.fromEntries(SYSTEMS.map((system) => [system, came[system].came]))).toEqual(
        Object.fromEntries(SYSTEMS.map((system, at) => [system, expected[at]])),
      );
    } finally {
      for (const end of ends) await end();
      await server.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    }
  });
}
