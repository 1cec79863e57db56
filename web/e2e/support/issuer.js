// An issuer in a process of its own, and clients in another one: what the issuer counts is nobody else's opinion.
//
// `GET /token?sub=7&lives=600&age=0` signs a token that was issued `age` seconds ago and counts for `lives`; `GET /asked` tells who asked
// when, in milliseconds.

import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { tokenFor } from "./sites.js";

/** @typedef {{ sub: string, at: number }} Asked */

/** Starts the issuer as a process. */
export async function startIssuer() {
  const child = fork(import.meta.filename, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const [url] = /** @type {[string]} */ (await once(child, "message"));
  /** @returns {Promise<Asked[]>} */
  const asked = async () => (await fetch(`${url}/asked`)).json();
  return { url, asked, close: () => child.kill() };
}

/**
 * Starts clients as a process (crowd.js). `told` has what they tell: how often streams were opened, how many calls were answered, and
 * what went wrong.
 * @param {{ node: string, issuer: string, clients: number, streams: number, lives: number, age?: number, calls?: boolean }} plan
 */
export function startCrowd(plan) {
  const child = fork(new URL("./crowd.js", import.meta.url), [JSON.stringify(plan)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const told = { opened: 0, answered: 0, problems: /** @type {string[]} */ ([]) };
  child.on("message", (/** @type {any} */ news) => Object.assign(told, news));
  return { told, freeze: () => child.kill("SIGSTOP"), thaw: () => child.kill("SIGCONT"), close: () => child.kill("SIGKILL") };
}

function serve() {
  /** @type {Asked[]} */
  const asked = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://issuer");
    if (pathname === "/asked") return response.end(JSON.stringify(asked));
    const sub = searchParams.get("sub") ?? "";
    asked.push({ sub, at: Math.round(performance.now()) });
    const [lives, age] = [Number(searchParams.get("lives")), Number(searchParams.get("age"))];
    const issued = Math.floor(Date.now() / 1000) - age;
    response.end(tokenFor(sub, 0, { iat: issued, exp: issued + lives }));
  });
  server.listen(0, "127.0.0.1", 4_096, () => {
    const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
    process.send?.(`http://127.0.0.1:${port}`);
  });
}

if (process.argv[1] === import.meta.filename) serve();
