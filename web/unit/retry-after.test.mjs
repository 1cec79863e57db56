// A node that is asked too much says how long it wants to be left alone; pages, with what is shipped (web/pkg), leave it alone.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { connect } from "../pkg/client.js";
import { openState } from "../pkg/state.js";
import { listen } from "../pkg/state-stream.js";
import { Token } from "../pkg/token.js";

// Longer than any pause that they would make by themselves.
const ASKED_SEC = 5;

/** A server that refuses the first stream, and when each was asked for. */
async function refusing(/** @type {import("node:test").TestContext} */ t) {
  /** @type {number[]} */
  const asked = [];
  const server = createServer((_, response) => {
    asked.push(performance.now());
    if (asked.length === 1) {
      response.writeHead(429, { "retry-after": String(ASKED_SEC), "content-type": "application/json" });
      return response.end('{"code":"quota","error":"too much"}');
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("event: hello\ndata: {}\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => (server.closeAllConnections(), server.close()));
  return { url: `http://127.0.0.1:${server.address().port}`, asked };
}

const leftAlone = ([first, second]) => assert.ok(second - first >= ASKED_SEC * 1_000, `it came back after ${second - first} ms`);

/** A stream of the client, until it stands. */
async function ofClient(/** @type {string} */ url) {
  const client = connect({ url });
  const problems = [];
  await new Promise((resolve) => client.listen({}, ({ type }) => type === "open" && resolve(), (problem) => problems.push(problem.reason)));
  client.close();
  assert.deepEqual(problems, ["quota"]);
}

/** A stream of news about spaces. */
async function ofState(/** @type {string} */ url) {
  let leave;
  await new Promise((onUp) => (leave = listen({ base: new URL(url), token: Token.of(undefined), space: "a", onUp, onNumber() {}, onNeed() {} })));
  leave();
}

/** A storage of one context. */
function storage() {
  const keys = new Map();
  return {
    listen() {},
    close() {},
    get: async (names) => names.map((name) => [name, keys.get(name)]),
    set: async (entries) => void entries.forEach(([key, text]) => keys.set(key, text)),
    remove: async (names) => void names.forEach((name) => keys.delete(name)),
    list: async () => [...keys.keys()],
    send: async () => "no-receiver",
  };
}

test("ac_12 a bridge says at once that it was refused, and asks again after the node's Retry-After and not before", async (t) => {
  const asked = [];
  const server = createServer((request, response) => {
    // The stream is told nothing, and left open.
    if (request.url.startsWith("/api/events")) return response.writeHead(200, { "content-type": "text/event-stream" }).write(": \n\n");
    asked.push(performance.now());
    response.writeHead(429, { "retry-after": String(ASKED_SEC), "content-type": "application/json" });
    return response.end('{"code":"quota","error":"too much"}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => (server.closeAllConnections(), server.close()));
  const state = openState({ storage: storage(), bridge: { url: `http://127.0.0.1:${server.address().port}`, space: "a" } });
  t.after(() => state.close());
  const refused = new Promise((resolve) => state.subscribe(({ type, status, detail }) => type === "link" && status === "refused" && resolve(detail)));
  assert.equal(await refused, "quota");
  assert.equal(asked.length, 1);
  // Whatever happens meanwhile asks for a question.
  await state.put("milk", { n: 1 });
  while (asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 50));
  leftAlone(asked);
});

test("ac_12 streams come back after the node's Retry-After and not before", async (t) => {
  const one = async (open) => {
    const { url, asked } = await refusing(t);
    await open(url);
    leftAlone(asked);
  };
  // Both to their ends: a stream that is left alone would go on.
  const ended = await Promise.allSettled([ofClient, ofState].map(one));
  for (const { reason } of ended) assert.ifError(reason);
});
