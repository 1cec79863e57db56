// `syncline/run-worker` against a server that answers as a node does: what it asks, when it goes on, and when it stops.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import test from "node:test";

import { TaskFailure, runWorker } from "../../crates/syncline-browser/js/run-worker.js";

/** A node that hands out `batches` of tasks, one for each claim, and keeps what it is told. */
async function startNode(t, batches, answers = {}) {
  const told = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      const verb = request.url.split("/").at(-1);
      const body = JSON.parse(text);
      const { status, answer } = answers[verb]?.(body, told) ?? {};
      if (status !== undefined) return response.writeHead(status).end(JSON.stringify(answer));
      if (verb !== "claim") {
        told.push({ verb, ...body, authorization: request.headers.authorization });
        return response.end("{}");
      }
      const tasks = batches.shift();
      // With nothing to hand out, a node waits.
      if (tasks !== undefined) response.end(JSON.stringify({ tasks }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => (server.close(), server.closeAllConnections()));
  return { url: `http://127.0.0.1:${server.address().port}`, told };
}

const task = (key, token, more) => ({ key, token, attempt: 1, leaseMs: 60_000, ...more });

async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test("qu_31 results, failures and their causes are told, each with its token", async (t) => {
  const node = await startNode(t, [[task("a", "1", { input: [1, 2] }), task("b", "2"), task("c", "3")]]);
  const worker = runWorker({
    url: node.url,
    token: () => Promise.resolve("secret"),
    queue: "sums",
    concurrency: 3,
    run: ({ key, input }) => {
      if (key === "b") throw new TaskFailure("never", { cause: "refused" });
      if (key === "c") throw new Error("not now");
      return input.length;
    },
  });
  await until(() => node.told.length === 3);
  await worker.stop();
  const authorization = "Bearer secret";
  assert.deepEqual(
    node.told.sort((one, other) => one.tasks[0].token - other.tasks[0].token),
    [
      { verb: "complete", tasks: [{ token: "1", result: 2 }], authorization },
      { verb: "fail", tasks: [{ token: "2", reason: "never", cause: "refused" }], authorization },
      { verb: "fail", tasks: [{ token: "3", reason: "not now", cause: "error" }], authorization },
    ],
  );
});

test("qu_31 a lease is extended while the work goes on, and a lost one aborts it and drops its answer", async (t) => {
  const lost = (body) => (body.tokens[0] === "2" ? { status: 409, answer: { error: "gone", code: "lease-lost" } } : {});
  const node = await startNode(t, [[task("long", "1", { leaseMs: 90 }), task("removed", "2", { leaseMs: 90 })]], { extend: lost });
  let aborted = false;
  const worker = runWorker({
    url: node.url,
    queue: "sums",
    concurrency: 2,
    run: async ({ key, signal }) => {
      if (key === "long") return until(() => node.told.filter(({ verb }) => verb === "extend").length >= 3);
      await once(signal, "abort");
      aborted = true;
    },
  });
  await until(() => node.told.some(({ verb }) => verb === "complete"));
  await worker.stop();
  assert.equal(aborted, true);
  assert.deepEqual(node.told.filter(({ verb }) => verb !== "extend").map(({ tasks }) => tasks[0].token), ["1"]);
});

test("qu_31 a node that is away is asked again, and one that refuses ends the worker", async (t) => {
  let asked = 0;
  const away = () => (++asked < 3 ? { status: 503, answer: { error: "stopping", code: "stopping" } } : { status: 403, answer: { error: "no", code: "forbidden" } });
  const node = await startNode(t, [], { claim: away });
  const errors = [];
  const worker = runWorker({ url: node.url, queue: "sums", run: () => {}, onError: ({ code, retryable, reason }) => errors.push([code, retryable, reason]) });
  await assert.rejects(worker.ended, { code: "refused", reason: "forbidden" });
  assert.deepEqual(errors, [
    ["refused", true, "stopping"],
    ["refused", true, "stopping"],
    ["refused", false, "forbidden"],
  ]);
  assert.throws(() => runWorker({ queue: "sums" }), { code: "invalid-argument" });
});

test("qu_31 a worker that is stopped takes no more keys and ends what it has", async (t) => {
  const node = await startNode(t, [[task("a", "1")], [task("b", "2")]]);
  let go;
  const worker = runWorker({ url: node.url, queue: "sums", run: () => new Promise((resolve) => (go = resolve)) });
  await until(() => go !== undefined);
  const stopped = worker.stop();
  go("done");
  await stopped;
  assert.deepEqual(node.told.map(({ verb, tasks }) => [verb, tasks[0].token]), [["complete", "1"]]);
});
