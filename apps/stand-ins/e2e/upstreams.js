// Stand-ins for the book APIs in a process of their own, and the environment of a node that asks them.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const BINARY = process.env.SYNCLINE_BIN ?? "";

/** Starts them and waits until they listen. */
export async function startUpstreams(/** @type {string[]} */ ...options) {
  const child = spawn(BINARY, ["demo", "upstreams", "--listen", "127.0.0.1:0", ...options], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  /** @type {Record<string, string>} */
  const environment = {};
  let url = "";
  for await (const line of createInterface({ input: child.stdout })) {
    url ||= /^listening on (http:\S+)$/.exec(line)?.[1] ?? "";
    const [, name, value] = /^export (\w+)=(\S+)$/.exec(line) ?? [];
    if (name) environment[name] = value;
    if (name === "RAKUTEN_APPLICATION_ID") break;
  }
  return {
    url,
    environment,
    async remove() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** ISBNs of books that they know. */
export async function inventedIsbns(/** @type {number} */ count) {
  const { stdout } = await promisify(execFile)(BINARY, ["demo", "isbns", "--unknown", String(count)]);
  return stdout.trim().split("\n");
}
