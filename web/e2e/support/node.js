// A real node in a process of its own, with its own data folder and a port chosen by the system.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env.SYNCLINE_BIN;
// Only what a process needs to run: a setting of the machine's own node must not reach the one under test.
const KEPT_ENVIRONMENT = ["PATH", "HOME", "TMPDIR", "TZ"];
// The apps that nodes under test have, unless a test says otherwise.
const APPS = "bookshelf,calls,gallery";
const LOG_MAX_LINES = 2_000;

export class Node {
  /** @type {import("node:child_process").ChildProcess | null} */
  #process = null;
  #folder = "";
  #address = "127.0.0.1:0";
  #environment;
  /** What the node wrote, for the report of a failed test. */
  log = /** @type {string[]} */ ([]);
  url = "";

  constructor(/** @type {Record<string, string>} */ environment) {
    this.#environment = environment;
  }

  /**
   * Starts a node and waits until it listens.
   * @param {{ config?: string, environment?: Record<string, string> }} [options] `config` is the text of syncline.toml
   */
  static async start({ config = "", environment = {} } = {}) {
    const node = new Node(environment);
    node.#folder = await mkdtemp(join(tmpdir(), "syncline-e2e-node-"));
    await writeFile(join(node.#folder, "syncline.toml"), config);
    await node.resume();
    return node;
  }

  /** Starts again after kill(), on the same port with the same data. */
  async resume() {
    if (!BINARY) throw new Error("SYNCLINE_BIN must name the syncline program, for example target/debug/syncline");
    const kept = Object.fromEntries(
      KEPT_ENVIRONMENT.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
    );
    const child = spawn(BINARY, ["serve"], {
      cwd: this.#folder,
      env: { ...kept, SYNCLINE_LISTEN: this.#address, SYNCLINE_APPS: APPS, SYNCLINE_DATA: join(this.#folder, "data"), ...this.#environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    createInterface({ input: child.stderr }).on("line", (line) => this.#note(line));
    this.url = await new Promise((listening, failed) => {
      createInterface({ input: child.stdout }).on("line", (line) => {
        this.#note(line);
        const address = /^listening on (http:\S+)$/.exec(line);
        if (address) listening(address[1]);
      });
      child.on("error", failed);
      child.on("exit", (code) => failed(new Error(`the node ended with ${code}:\n${this.log.join("\n")}`)));
    });
    this.#address = new URL(this.url).host;
  }

  /** Ends the process without a goodbye. */
  async kill() {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  /** Lets the process stand still, as a machine that swaps does: connections stay open, and nothing is answered. */
  freeze() {
    this.#process?.kill("SIGSTOP");
  }

  thaw() {
    this.#process?.kill("SIGCONT");
  }

  /** Ends the process and removes everything it kept. */
  async remove() {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /**
   * The JSON answer of a GET, or of a POST when a body is given.
   * @param {string} path
   * @param {unknown} [body]
   */
  async ask(path, body) {
    const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(this.url + path, body === undefined ? {} : post);
    return response.json();
  }

  /** Puts JSON at an address. */
  async put(/** @type {string} */ path, /** @type {unknown} */ body) {
    const response = await fetch(this.url + path, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  /** Its SQLite file. */
  get database() {
    return join(this.#folder, "data", "syncline.db");
  }

  /** The sum of a counter over all its labels. */
  async counter(/** @type {string} */ name) {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const lines = text.split("\n").filter((line) => line.startsWith(name) && /[ {]/.test(line.charAt(name.length)));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  }

  #note(/** @type {string} */ line) {
    if (this.log.length < LOG_MAX_LINES) this.log.push(line);
  }
}
