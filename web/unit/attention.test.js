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
  assert.deepEqual(words({ outbox: { pending: 0, inFlight: 0, dead: 3, oldestMs: null } }), ["3 changes of the outbox given up -> /outbox/entries?state=dead"]);
  assert.deepEqual(words({ outbox: { pending: 1, inFlight: 0, dead: 0, oldestMs: 61_000 } }), [
    "1 change of the outbox waits, and nothing is being sent: is serversync running? -> /outbox/entries?state=pending",
  ]);
  assert.deepEqual(words({ queues: [{ name: "words", breaker: "open", counts: { ...counts, failed: 2, dead: 1 } }] }), [
    "Queue words: 1 dead key -> /queue/keys?queue=words&state=dead",
    "Queue words: 2 failed keys -> /queue/keys?queue=words&state=failed",
    "Queue words: its API fails, calls are paused -> /queue/keys?queue=words&state=waiting",
  ]);
  assert.deepEqual(words({ jobs: [{ name: "report", last: { state: "failed", detail: "exit 1" } }] }), ["Job report: the last run failed: exit 1 -> /viewer?job=report#history-part"]);
});

test("cn_02 paused, silent, long held and full are listed behind what is dead and failing, each with a link to exactly those", () => {
  const hour = 3_600_000;
  const found = attention({
    ...well,
    outbox: { pending: 0, inFlight: 0, dead: 1, oldestMs: null },
    jobs: [{ name: "report", paused_at: 1, last: { state: "done" } }],
    queues: [{ name: "a b", counts, paused: { until: null, reason: "manual" } }, { name: "slow", counts, paused: { until: 1, reason: "retry-after" } }],
    nodes: [{ node: "here", silentMs: 0, self: true, standsStill: false }, { node: "there", silentMs: 8_000, self: false, standsStill: true }, { node: "third", silentMs: 59_000, self: false, standsStill: false }],
    locks: [{ name: "nightly", holder: "box-7", ageMs: 2 * hour }],
    full: [{ space: "cart" }],
  });
  assert.deepEqual(found.map(({ words, href }) => `${words} -> ${href}`), [
    "1 change of the outbox given up -> /outbox/entries?state=dead",
    "Queue a b is paused -> /queue?q=a%20b",
    "Job report is paused -> /viewer?job=report#jobs-part",
    "Node there does not answer: its last word is 8 s old -> /nodes?q=there",
    "Lock nightly has been held by box-7 for 2 h -> /lock?one=nightly",
    "Space cart is nearly full -> /state?state=full",
  ]);
  const held = { pending: 3, inFlight: 0, dead: 0, oldestMs: hour };
  assert.deepEqual(attention({ ...well, outbox: { ...held, paused: true } }).map(({ words, href }) => `${words} -> ${href}`), ["The outbox is paused: nothing is sent -> /outbox"]);
  assert.deepEqual(attention({ ...well, outbox: { ...held, inFlight: 1, filesPaused: true } }).map(({ words }) => words), ["The outbox sends no files: they are switched off"]);
  const many = attention({ ...well, locks: [{ name: "a", holder: "x", ageMs: hour }, { name: "b", holder: "y", ageMs: hour }], full: [{ space: "a" }, { space: "b" }] });
  assert.deepEqual(many.map(({ href }) => href), ["/lock?minAgeMs=3600000", "/state?state=full"]);
});
