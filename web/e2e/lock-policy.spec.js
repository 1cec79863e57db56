// Whatever a policy, a browser or a user forbids: every promise of the lock, AutoSave, the kept queue and the viewer settles
// within seconds, with an error that has a code.

import { expect, openTab, test } from "./support/lock-test.js";

// The promises settle after 4 s at most where nothing answers; a busy machine stretches that.
const SETTLED_MS = 20_000;

/**
 * What the systems come to in a page, as codes; `workerUrl` and `wasmUrl` as in their options.
 * @param {import("@playwright/test").Page} page @param {{ workerUrl?: string, wasmUrl?: string }} options @param {string[]} systems
 */
function outcomes(page, options, systems) {
  return page.evaluate(
    async ({ options, systems, limitMs }) => {
      const { acquireProjectLock, createQueue, openAutoSave, startViewer, SynclineError, ProjectLockError } = await import(
        /** @type {any} */ ("/pkg/syncline.js")
      );
      const worker = options.workerUrl?.replace("lock-worker", "viewer-worker");
      const wasm = options.wasmUrl;
      const asked = /** @type {Record<string, () => Promise<any>>} */ ({
        lock: () => acquireProjectLock({ ...options, retryPolicy: { maxAttempts: 1 } }),
        autosave: () => openAutoSave({ ...options, project: "other" }).ready,
        flush: async () => {
          const save = openAutoSave({ ...options, project: "flushed" });
          await new Promise((resolve) => save.subscribe((/** @type {any} */ { status }) => ["saved", "lost"].includes(status) && resolve(status)));
          save.change("something ".repeat(1_000));
          return save.flush();
        },
        queue: () => createQueue({ name: "kept", persist: true, wasmUrl: wasm, run: async () => 1 }).enqueue("a"),
        viewer: () => startViewer({ workerUrl: worker, wasmUrl: wasm, onError() {} }).sessionId,
      });
      const outcome = async (/** @type {() => Promise<any>} */ ask) => {
        const late = new Promise((resolve) => setTimeout(() => resolve("never"), limitMs));
        try {
          return await Promise.race([ask().then(() => "done"), late]);
        } catch (error) {
          const isTyped = error instanceof SynclineError || error instanceof ProjectLockError;
          return isTyped ? error.code : `untyped: ${error}`;
        }
      };
      const entries = await Promise.all(systems.map(async (system) => [system, await outcome(asked[system])]));
      return Object.fromEntries(entries);
    },
    { options, systems, limitMs: SETTLED_MS },
  );
}

/** @param {string} policy @param {string} worker */
const under = (policy, worker) => `/pkg-with/${encodeURIComponent(policy)}/${worker}`;

test.setTimeout(120_000);

test("lk_31 st_32 a policy that forbids WASM, its download or its worker is named", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  const systems = ["lock", "autosave", "viewer"];
  const blocked = { lock: "wasm-blocked", autosave: "wasm-blocked", viewer: "wasm-blocked" };
  expect(await outcomes(tab, { workerUrl: under("script-src 'self'", "lock-worker.js") }, systems)).toEqual(blocked);
  const unreachable = { lock: "wasm-load-failed", autosave: "wasm-load-failed" };
  const deaf = "script-src 'self' 'wasm-unsafe-eval'; connect-src 'none'";
  expect(await outcomes(tab, { workerUrl: under(deaf, "lock-worker.js") }, ["lock", "autosave"])).toEqual(unreachable);
  expect(await outcomes(tab, { wasmUrl: "/write/nowhere.wasm" }, ["lock", "autosave", "queue"])).toEqual({
    ...unreachable,
    queue: "wasm-load-failed",
  });
  const missing = { lock: "worker-blocked", autosave: "worker-blocked", viewer: "worker-blocked" };
  expect(await outcomes(tab, { workerUrl: "/pkg/nowhere/lock-worker.js" }, systems)).toEqual(missing);

  const strict = await openTab(context, `${server.url}/?csp=${encodeURIComponent("script-src 'self'; worker-src 'none'")}`);
  expect(await outcomes(strict, {}, [...systems, "queue"])).toEqual({ ...missing, queue: "wasm-blocked" });
});

test("lk_31 st_32 under Trusted Types workers start by a policy of the package, or it is said what to allow", async ({ context, server }) => {
  const base = "script-src 'self' 'wasm-unsafe-eval'; require-trusted-types-for 'script'";
  const allowed = await openTab(context, `${server.url}/?csp=${encodeURIComponent(`${base}; trusted-types syncline`)}`);
  expect(await outcomes(allowed, {}, ["lock", "autosave", "viewer", "queue"])).toEqual({
    lock: "done",
    autosave: "done",
    viewer: "done",
    queue: "done",
  });
  const forbidden = await openTab(context, `${server.url}/?csp=${encodeURIComponent(`${base}; trusted-types other`)}`);
  const told = await forbidden.evaluate(() => /** @type {any} */ (window).attempt(/** @type {any} */ (window).lock.acquireProjectLock()));
  expect(told.error).toMatchObject({ code: "worker-blocked", message: expect.stringContaining("allow the policy syncline in trusted-types") });
});

test("lk_31 st_32 storage that hangs, throws or is full, and Web Locks that throw", async ({ context, server }) => {
  const troubles = {
    "files-hang": { lock: "fallback-open-failed", autosave: "fallback-open-failed" },
    "files-hang-later": { lock: "fallback-open-failed", autosave: "fallback-read-failed" },
    "storage-forbidden": { lock: "fallback-open-failed", autosave: "fallback-open-failed" },
    "locks-throw": { lock: "done", autosave: "done" },
    "no-room": { flush: "quota-exceeded" },
  };
  for (const [trouble, expected] of Object.entries(troubles)) {
    const tab = await openTab(context, server.url);
    expect(await outcomes(tab, { workerUrl: `/troubled/${trouble}` }, Object.keys(expected)), trouble).toEqual(expected);
    await tab.close();
  }
  const full = await openTab(context, server.url);
  const state = await full.evaluate(async () => {
    const save = /** @type {any} */ (window).lock.openAutoSave({ workerUrl: "/troubled/no-room-at-all" });
    return new Promise((resolve) => save.subscribe((/** @type {any} */ state) => state.problem && resolve({ ...state })));
  });
  expect(state, "no other tab is to blame").toMatchObject({ status: "opening", problem: expect.stringContaining("no more room") });
});

test("st_32 a kept queue whose database is forbidden or hangs says so", async ({ context, server }) => {
  for (const trouble of ["throws", "hangs"]) {
    const tab = await openTab(context, server.url);
    await tab.evaluate((trouble) => {
      IDBFactory.prototype.open = () => {
        if (trouble === "throws") throw new DOMException("no storage here", "SecurityError");
        return /** @type {any} */ ({});
      };
    }, trouble);
    expect(await outcomes(tab, {}, ["queue"]), trouble).toEqual({ queue: "storage-failed" });
    await tab.close();
  }
});
