// A server of the tests' own: the package, an empty page on two hosts, and the outside observer of every write.
//
// `http://127.0.0.1` is a secure context with Web Locks and OPFS; `http://lan.test`, which the browser is told to find
// on this machine, is what a box in the local network is: neither of them. Every write of a holder is sent here with its
// lease, so that who wrote when is judged by none of those who wrote.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { passOn } from "./pass-on.js";

const WEB = join(import.meta.dirname, "../..");
const TYPES = /** @type {Record<string, string>} */ ({ js: "text/javascript", wasm: "application/wasm" });
const page = (agent = "") => `<!doctype html><html lang="en"><title>tab</title><link rel="icon" href="data:,">${agent}</html>`;
// For browsers that are driven by it (webkit.js).
const AGENT = '<script type="module" src="/agent.js"></script>';
// Scripts of the tests' own.
const SCRIPTS = /** @type {Record<string, string>} */ ({ "/writer.js": "lock-writer.js", "/agent.js": "agent.js" });

// Between two writes of a holder.
const PACE_MS = 10;
const LAN_HOST = "lan.test";

// What a browser or a user does to a page or a worker, before the package's own script runs.
export const TROUBLES = /** @type {Record<string, string>} */ ({
  "files-hang": "navigator.storage.getDirectory = () => new Promise(() => {});",
  "files-hang-later": `const open = navigator.storage.getDirectory.bind(navigator.storage);
    let opened = 0;
    navigator.storage.getDirectory = () => (opened++ === 0 ? open() : new Promise(() => {}));`,
  "locks-throw": `LockManager.prototype.request = () => {
    throw new DOMException("no locks here", "SecurityError");
  };`,
  "storage-forbidden": `IDBFactory.prototype.open = () => {
    throw new DOMException("no storage here", "SecurityError");
  };`,
  "no-database": "Object.defineProperty(globalThis, 'indexedDB', { value: undefined });",
  "no-files": "delete StorageManager.prototype.getDirectory;",
  "no-locks": "Object.defineProperty(Object.getPrototypeOf(navigator), 'locks', { value: undefined });",
  "no-channels": "delete globalThis.BroadcastChannel;",
  "no-local-storage": `Object.defineProperty(globalThis, "localStorage", {
    get() {
      throw new DOMException("no storage here", "SecurityError");
    },
  });`,
  // A lease still fits.
  "no-room": `const { write } = FileSystemSyncAccessHandle.prototype;
    FileSystemSyncAccessHandle.prototype.write = function (bytes, options) {
      if (bytes.byteLength > 1_000) throw new DOMException("full", "QuotaExceededError");
      return write.call(this, bytes, options);
    };`,
  "no-room-at-all": `FileSystemSyncAccessHandle.prototype.write = () => {
    throw new DOMException("full", "QuotaExceededError");
  };`,
});

/** @typedef {{ at: number, project: string, tab: string, leaseId: string, source: string }} Write */

/** `api`: the address of the node that answers `/api`. */
export async function openLockServer(/** @type {{ api?: string }} */ { api } = {}) {
  /** @type {Write[]} */
  const writes = [];
  /** @type {Set<() => void>} */
  const waiting = new Set();
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://tab");
    const [, kind, name, file] = pathname.split("/");
    if (api !== undefined && kind === "api") return passOn(request, response, api);
    if (request.method === "POST") {
      let body = "";
      for await (const part of request) body += part;
      writes.push({ at: performance.now(), ...JSON.parse(body) });
      for (const look of waiting) look();
      return setTimeout(() => response.end(), PACE_MS);
    }
    if (pathname.startsWith("/pkg/") || pathname in SCRIPTS) {
      const file = pathname in SCRIPTS ? join(import.meta.dirname, SCRIPTS[pathname]) : join(WEB, normalize(pathname));
      const type = TYPES[pathname.split(".").at(-1) ?? ""] ?? "text/plain";
      return readFile(file).then(
        // For frames without an origin, too.
        (bytes) => response.writeHead(200, { "content-type": type, "access-control-allow-origin": "*" }).end(bytes),
        () => response.writeHead(404).end(),
      );
    }
    if (kind === "troubled") {
      const script = `import "/trouble/${name}";\nimport "/pkg/lock-worker.js";`;
      return response.writeHead(200, { "content-type": TYPES.js }).end(script);
    }
    if (kind === "trouble") return response.writeHead(200, { "content-type": TYPES.js }).end(TROUBLES[name]);
    // The package under a policy, which for a worker is that of its own answer.
    if (kind === "pkg-with") {
      const headers = { "content-type": TYPES[file.split(".").at(-1) ?? ""] ?? "text/plain", "content-security-policy": decodeURIComponent(name) };
      return response.writeHead(200, headers).end(await readFile(join(WEB, "pkg", normalize(file))));
    }
    const policy = searchParams.get("csp");
    const headers = { "content-type": "text/html", ...(policy ? { "content-security-policy": policy } : {}) };
    return response.writeHead(200, headers).end(page(searchParams.has("agent") ? AGENT : ""));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());

  return {
    writes,
    url: `http://127.0.0.1:${port}`,
    lanUrl: `http://${LAN_HOST}:${port}`,
    /** Resolves with the first value other than undefined that `find` makes of the writes, now or later. */
    async until(/** @type {(writes: Write[]) => any} */ find, /** @type {number} */ timeoutMs, /** @type {string} */ what) {
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(look);
          reject(new Error(`not seen within ${timeoutMs} ms: ${what}`));
        }, timeoutMs);
        const look = () => {
          const found = find(writes);
          if (found === undefined) return;
          clearTimeout(timer);
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      });
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * Writes that came after a write under a later lease of the same project: each one is a second holder.
 * @param {Write[]} writes in the order of their arrival
 */
export function secondHolders(writes) {
  /** @type {Map<string, { current: string, past: Set<string> }>} */
  const projects = new Map();
  return writes.filter(({ project, leaseId }) => {
    const seen = projects.get(project) ?? { current: leaseId, past: new Set() };
    projects.set(project, seen);
    if (seen.past.has(leaseId)) return true;
    if (leaseId !== seen.current) seen.past.add(seen.current);
    seen.current = leaseId;
    return false;
  });
}
