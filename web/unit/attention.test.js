// What the overview tells an operator to look at.

import assert from "node:assert/strict";
import { test } from "node:test";
import { attention } from "../console/assets/attention.js";

const counts = { waiting: 0, running: 0, retrying: 0, failed: 0, dead: 0 };
const well = { ready: { ok: true }, jobs: [{ name: "report", last: { state: "done" } }], queues: [{ name: "words", counts, breaker: "closed" }], outbox: { pending: 3, inFlight: 1, dead: 0, oldestMs: 90_000 } };

test("vw_30 nothing is listed where nothing waits for somebody", () => {
  assert.deepEqual(attention(well), []);
  assert.deepEqual(attention({ ready: null, jobs: [], queues: [], outbox: null }), []);
});

// The front page said "Ready" and "at rest" beside dead letters and failed keys.
test("vw_30 every kind of trouble is listed with the page where it can be mended", () => {
  const words = (/** @type {any} */ facts) => attention({ ...well, ...facts }).map(({ words, href }) => `${words} -> ${href}`);
  assert.deepEqual(words({ ready: { ok: false, reason: "The store does not answer." } }), ["The node is not ready: The store does not answer. -> /readyz"]);
  assert.deepEqual(words({ outbox: { pending: 0, inFlight: 0, dead: 3, oldestMs: null } }), ["3 changes of the outbox given up -> /outbox"]);
  assert.deepEqual(words({ outbox: { pending: 1, inFlight: 0, dead: 0, oldestMs: 61_000 } }), [
    "1 change of the outbox wait, and nothing is being sent: is serversync running? -> /outbox",
  ]);
  assert.deepEqual(words({ queues: [{ name: "words", breaker: "open", counts: { ...counts, failed: 2, dead: 1 } }] }), [
    "Queue words: 1 dead, 2 failed keys -> /queue",
    "Queue words: its API fails, calls are paused -> /queue",
  ]);
  assert.deepEqual(words({ jobs: [{ name: "report", last: { state: "failed", detail: "exit 1" } }] }), ["Job report: the last run failed: exit 1 -> /viewer#history-part"]);
});
