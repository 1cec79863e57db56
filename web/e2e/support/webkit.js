// WebKit as Debian ships it (WebKitGTK's MiniBrowser on a screen of its own). Playwright drives only builds of its own, and the
// driver that Debian ships talks to one tab at a time and lets a script run for seconds. So an agent in each page does what it is told
// over a WebSocket (agent.js); the driver opens and closes tabs, and is left out where its sessions, which are private windows, do not do.
//
// Guarantees: a profile of its own for each browser; `lan.test` is this machine and yet no secure context, because the test's
// server is the proxy for it; close() leaves no process and no file behind.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WebSocketServer } from "ws";
import { descendants, end, processOf } from "./processes.js";

const BROWSER = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser";
const DRIVER = "/usr/bin/WebKitWebDriver";
// A machine that is busy with other things stretches everything; a page that never comes is something else.
const PATIENCE_MS = 60_000;

// As Linux cuts the name of the processes that show pages.
const CONTENT = "WebKitWebProces";

/** `proxy`: the address of the server that answers for lan.test. */
export async function openWebKit(/** @type {string} */ proxy, /** @type {import("./engines.js").Wishes} */ { crashes, profile } = {}) {
  const folder = profile ?? (await mkdtemp(join(tmpdir(), "syncline-webkit-")));
  const screen = await startScreen();
  const agents = await openAgents();
  const environment = {
    ...process.env,
    DISPLAY: screen.display,
    GDK_BACKEND: "x11",
    NO_AT_BRIDGE: "1",
    WEBKIT_DISABLE_COMPOSITING_MODE: "1",
    // As root it has no sandbox to start.
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1",
    ...Object.fromEntries(["CONFIG_HOME", "DATA_HOME", "CACHE_HOME", "RUNTIME_DIR"].map((name) => [`XDG_${name}`, join(folder, name)])),
  };
  const switches = [`--proxy=${proxy}`, "--ignore-host=127.0.0.1"];
  // A tab that crashes takes the driver's session with it.
  const isPlain = crashes === true || profile !== undefined;
  const opened = isPlain ? startPlain(environment, switches) : await startDriver(environment, switches);
  /** @type {Set<WebKitTab>} */
  const tabs = new Set();
  return {
    /** A tab that shows `url`, a page with an agent. */
    async newPage() {
      const tab = new WebKitTab(agents, opened, tabs);
      tabs.add(tab);
      return tab;
    },
    kill: () => opened.close(),
    async close() {
      await opened.close();
      await agents.close();
      await screen.close();
      if (profile === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

let numbers = 0;

/** What is used of puppeteer's Page, by the agent in the page. */
class WebKitTab {
  #agents;
  #opened;
  #tabs;
  #name = `tab${(numbers += 1)}`;
  #isOpen = false;

  /** @param {Agents} agents @param {Opened} opened @param {Set<WebKitTab>} tabs */
  constructor(agents, opened, tabs) {
    this.#agents = agents;
    this.#opened = opened;
    this.#tabs = tabs;
  }

  async goto(/** @type {string} */ url) {
    const address = new URL(url);
    address.searchParams.set("agent", `${this.#agents.port}-${this.#name}`);
    const arrived = this.#agents.arrival(this.#name);
    if (this.#isOpen) {
      await this.evaluate((href) => void setTimeout(() => (location.href = href)), address.href);
      await arrived;
      return;
    }
    this.#isOpen = true;
    const opener = [...this.#tabs].find((tab) => tab !== this && tab.#isOpen);
    await this.#opened.open(this.#name, address.href, opener);
    await arrived;
  }

  /** @type {import("./engines.js").Tab["evaluate"]} */
  evaluate = (work, ...args) => this.#agents.call(this.#name, `${work}`, args);

  async reload() {
    const arrived = this.#agents.arrival(this.#name);
    await this.evaluate(() => void setTimeout(() => location.reload()));
    await arrived;
  }

  async close() {
    this.#isOpen = false;
    this.#tabs.delete(this);
    await this.#opened.shut(this.#name, this);
  }

  /** Kills its process, as a crash does. */
  async crash() {
    this.#isOpen = false;
    this.#tabs.delete(this);
    process.kill(await processOf(await this.#opened.contents(), () => this.evaluate(() => 1)), "SIGKILL");
  }
}

/** @typedef {Awaited<ReturnType<typeof openAgents>>} Agents */
/**
 * How tabs are opened and shut, and which processes show them.
 * @typedef {object} Opened
 * @property {(name: string, url: string, opener?: WebKitTab) => Promise<void>} open
 * @property {(name: string, tab: WebKitTab) => Promise<void>} shut
 * @property {() => Promise<number[]>} contents
 * @property {() => Promise<void>} close
 */

/** The other end of the agents in the pages. */
async function openAgents() {
  const server = createServer();
  const sockets = new WebSocketServer({ server });
  /** @type {Map<string, import("ws").WebSocket>} */
  const present = new Map();
  /** @type {Map<string, () => void>} */
  const awaited = new Map();
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void, name: string }>} */
  const calls = new Map();
  let number = 0;
  sockets.on("connection", (socket, { url }) => {
    const name = `${url}`.slice(1);
    present.set(name, socket);
    awaited.get(name)?.();
    socket.on("message", (text) => {
      const { call, value, error } = JSON.parse(`${text}`);
      const waiting = calls.get(call);
      calls.delete(call);
      if (error === undefined) waiting?.resolve(value);
      else waiting?.reject(new Error(error));
    });
    socket.on("close", () => {
      if (present.get(name) === socket) present.delete(name);
      for (const [call, waiting] of calls) {
        if (waiting.name !== name) continue;
        calls.delete(call);
        waiting.reject(new Error(`${name} is gone`));
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: /** @type {import("node:net").AddressInfo} */ (server.address()).port,
    /** Settles when the next page of that name has its agent. */
    arrival: (/** @type {string} */ name) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no page of ${name} came within ${PATIENCE_MS} ms`)), PATIENCE_MS);
        awaited.set(name, () => {
          clearTimeout(timer);
          awaited.delete(name);
          resolve(undefined);
        });
      }),
    call: (/** @type {string} */ name, /** @type {string} */ source, /** @type {unknown[]} */ args) =>
      new Promise((/** @type {(value: any) => void} */ resolve, reject) => {
        const socket = present.get(name);
        if (socket === undefined) return reject(new Error(`${name} is not there`));
        number += 1;
        calls.set(number, { resolve, reject, name });
        socket.send(JSON.stringify({ call: number, source, args }));
      }),
    async close() {
      for (const socket of sockets.clients) socket.terminate();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function startScreen() {
  const xvfb = spawn("Xvfb", ["-displayfd", "3", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const [number] = await once(/** @type {import("node:stream").Readable} */ (xvfb.stdio[3]), "data");
  return { display: `:${`${number}`.trim()}`, close: () => end(xvfb) };
}

/** By the driver: sessions are private windows, and a tab that is closed is closed as by its user. @returns {Promise<Opened>} */
async function startDriver(/** @type {NodeJS.ProcessEnv} */ env, /** @type {string[]} */ switches) {
  const port = await freePort();
  const driver = spawn(DRIVER, [`--port=${port}`], { env, stdio: "ignore", detached: true });
  await untilListening(port);
  let session = "";
  /** @type {Map<string, string>} */
  const handles = new Map();
  // One command after the other.
  let last = Promise.resolve();
  const ask = async (/** @type {string} */ method, /** @type {string} */ path, /** @type {any} */ body = undefined) => {
    const options = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const response = await fetch(`http://127.0.0.1:${port}/session${path}`, options);
    const { value } = /** @type {any} */ (await response.json());
    if (!response.ok) throw new Error(`${method} ${path}: ${value?.error} ${value?.message}`);
    return value;
  };
  const inTurn = (/** @type {() => Promise<void>} */ work) => {
    const done = last.then(work);
    last = done.catch(() => {});
    return done;
  };
  const browserOptions = { binary: BROWSER, args: ["--automation", ...switches] };
  const capabilities = { alwaysMatch: { "webkitgtk:browserOptions": browserOptions, pageLoadStrategy: "none" } };
  session = `/${(await ask("POST", "", { capabilities })).sessionId}`;
  return {
    open: (name, url) =>
      inTurn(async () => {
        // The first tab is there already, and stays: without any the browser would end.
        const { handle } = await ask("POST", `${session}/window/new`, { type: "tab" });
        handles.set(name, handle);
        await ask("POST", `${session}/window`, { handle });
        await ask("POST", `${session}/url`, { url });
      }),
    shut: (name) =>
      inTurn(async () => {
        await ask("POST", `${session}/window`, { handle: handles.get(name) });
        handles.delete(name);
        const [left] = await ask("DELETE", `${session}/window`);
        await ask("POST", `${session}/window`, { handle: left });
      }),
    contents: () => descendants(/** @type {number} */ (driver.pid), CONTENT),
    close: () => end(driver),
  };
}

/** Without the driver: what is stored is stored as for a user. The first tab opens the others. @returns {Opened} */
function startPlain(/** @type {NodeJS.ProcessEnv} */ env, /** @type {string[]} */ switches) {
  /** @type {import("node:child_process").ChildProcess | undefined} */
  let browser;
  return {
    async open(_, url, opener) {
      if (opener !== undefined) await opener.evaluate((url) => void window.open(url, "_blank", "noopener"), url);
      else browser = spawn(BROWSER, [...switches, "--javascript-can-open-windows-automatically=true", url], { env, stdio: "ignore", detached: true });
    },
    // It closes without `pagehide`.
    shut: (_, tab) => tab.evaluate(() => window.close()).catch(() => {}),
    contents: async () => (browser?.pid === undefined ? [] : descendants(browser.pid, CONTENT)),
    close: async () => void (browser && (await end(browser))),
  };
}

/** The driver takes no port of the system's choice. */
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function untilListening(/** @type {number} */ port) {
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; ) {
    if (await fetch(`http://127.0.0.1:${port}/status`).then(({ ok }) => ok, () => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the driver of WebKit does not answer");
}
