// Uses every system of a node through the client that openapi-typescript makes from its description. Run by a test:
//   node use.js <url> <token>

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [url, token] = process.argv.slice(2);
assert(url !== undefined && token !== undefined, "usage: use.js <url> <token>");
const api = createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${token}` } });

/** The answer, or the error with its code. */
function taken<T>({ data, error }: { data?: T; error?: components["schemas"]["ErrorBody"] }): T {
  assert(data !== undefined, `${error?.code}: ${error?.error}`);
  return data;
}

// kv
const key = { params: { path: { key: "from/typescript" } } };
taken(await api.PUT("/api/kv/{key}", { ...key, body: { value: "hello", ttlSec: 60 } }));
assert.equal(taken(await api.GET("/api/kv/{key}", key)).value, "hello");
assert.equal(taken(await api.GET("/api/kv", { params: { query: { q: "TYPESCRIPT" } } })).entries.length, 1);
assert.equal(taken(await api.DELETE("/api/kv/{key}", key)).deleted, true);

// lock
const name = { params: { path: { name: "nightly" } } };
const lease = taken(await api.POST("/api/locks/{name}/acquire", { ...name, body: { holder: "typescript", ttlMs: 30_000 } }));
const second = await api.POST("/api/locks/{name}/acquire", { ...name, body: { holder: "other" } });
assert.equal(second.error?.code, "held");
assert.equal(second.error?.holder, "typescript");
taken(await api.POST("/api/locks/{name}/renew", { ...name, body: { leaseId: lease.leaseId, ttlMs: 30_000 } }));
assert.equal(taken(await api.GET("/api/locks", { params: { query: { q: "night" } } })).locks[0]?.token, lease.token);
assert.equal(taken(await api.POST("/api/locks/{name}/release", { ...name, body: { leaseId: lease.leaseId } })).released, true);

// state
const entity = { params: { path: { space: "cart", id: "item-1" } } };
const first = await api.PUT("/api/state/{space}/{id}", { ...entity, body: { amount: 1 } });
const etag = first.response.headers.get("etag");
assert(etag !== null);
const condition = { params: { path: entity.params.path, header: { "If-Match": etag } } };
taken(await api.PUT("/api/state/{space}/{id}", { ...condition, body: { amount: 2 } }));
assert.equal((await api.PUT("/api/state/{space}/{id}", { ...condition, body: { amount: 3 } })).response.status, 412);
assert.deepEqual(taken(await api.GET("/api/state/{space}/{id}", entity)).value, { amount: 2 });
assert.equal(taken(await api.GET("/api/spaces/{space}/entities", { params: { path: { space: "cart" } } })).entities.length, 1);
assert.equal(taken(await api.GET("/api/state", {})).spaces[0]?.space, "cart");
assert.equal(taken(await api.DELETE("/api/state/{space}/{id}", entity)).deleted, true);

// queue
const queue = { params: { path: { name: "words" } } };
assert.equal(taken(await api.POST("/api/queues/{name}", { ...queue, body: { kind: "new", keys: ["stone", "water"] } })).added, 2);
const result = taken(await api.GET("/api/queues/{name}/results/{key}", { params: { path: { name: "words", key: "stone" }, query: { wait_ms: 10_000 } } }));
assert.equal(result.state, "done");
const done: components["schemas"]["KeyView"]["state"][] = taken(await api.GET("/api/queues/{name}/keys", { params: { path: { name: "words" }, query: { state: "done", q: "stone" } } })).keys.map(({ state }) => state);
assert.deepEqual(done, ["done"]);
assert.equal(taken(await api.POST("/api/queues/{name}/remove", { ...queue, body: { keys: ["stone"] } })).removed, 1);

// viewer and jobs
taken(await api.POST("/api/viewer", { body: { sessionId: crypto.randomUUID(), visible: true } }));
assert.equal(taken(await api.GET("/api/viewer", {})).viewers, 1);
assert.deepEqual(taken(await api.GET("/api/jobs", {})).jobs.map((job) => job.name), ["report"]);

// outbox and inbox
const note = { params: { path: { type: "note", id: "n-1" } } };
taken(await api.PUT("/api/entities/{type}/{id}", { ...note, body: { text: "from TypeScript" } }));
assert.deepEqual(taken(await api.GET("/api/entities/{type}/{id}", note)).payload, { text: "from TypeScript" });
assert.equal(taken(await api.GET("/api/outbox/entries", { params: { query: { state: "pending", q: "n-1" } } })).entries.length, 1);

// access, nodes, health
assert.deepEqual(taken(await api.GET("/api/keys", {})).keys, []);
assert.equal(taken(await api.GET("/api/audit", { params: { query: { limit: 1 } } })).entries.length, 1);
assert.equal(taken(await api.GET("/api/nodes", {})).nodes.length, 1);
assert.equal(taken(await api.GET("/readyz", {})).status, "ready");
console.log("every system answered");
