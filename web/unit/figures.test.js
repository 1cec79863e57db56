// What the pages make of the node's figures: viewers over time, and the moment of a record.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPresence } from "../console/assets/presence.js";
import { isToTheSecond, momentOf, reasonOf, stateOf } from "../console/assets/runs.js";

const sample = (/** @type {number} */ at, /** @type {number} */ viewers) => ({ at, viewers, visible: viewers });

test("vw_22 samples that change nothing are no points, and live figures follow them", () => {
  let now = 100;
  const presence = openPresence(() => now);
  presence.load({
    viewers: 2,
    visible: 2,
    nodes: [],
    history: [sample(10, 0), sample(20, 0), sample(30, 2), sample(40, 2)],
  });
  assert.deepEqual(presence.points(), [sample(10, 0), sample(30, 2)]);
  assert.equal(presence.since(), 30);

  now = 110;
  presence.add({ viewers: 3, visible: 3, nodes: [] });
  assert.deepEqual(presence.points().at(-1), sample(110, 3));
  assert.equal(presence.since(), 30, "a second viewer does not begin the watching anew");

  now = 120;
  presence.add({ viewers: 0, visible: 0, nodes: [] });
  assert.equal(presence.since(), 120);
});

test("vw_22 nobody knows since when, where the record does not reach back so far", () => {
  const presence = openPresence(() => 100);
  presence.load({ viewers: 1, visible: 1, nodes: [], history: [sample(10, 1), sample(20, 1)] });
  assert.equal(presence.since(), null);
});

test("vw_20 a record stands at its tick in UTC, or at its start when it was run by hand", () => {
  const run = (/** @type {string | null} */ bucket) =>
    /** @type {any} */ ({ bucket, started_at: 5, state: "done", decision: "run", reason: "run: by hand" });
  assert.equal(momentOf(run("2025-11-11T12:00")), Date.UTC(2025, 10, 11, 12));
  assert.equal(momentOf(run("2025-11-11T12:00:06")), Date.UTC(2025, 10, 11, 12, 0, 6));
  assert.equal(momentOf(run(null)), 5);
  assert.deepEqual(
    [isToTheSecond(run("2025-11-11T12:00")), isToTheSecond(run("2025-11-11T12:00:06")), isToTheSecond(run(null))],
    [false, true, true],
  );
});

test("a state from a newer node is shown as what was decided", () => {
  const run = (/** @type {any} */ facts) => /** @type {any} */ ({ bucket: null, started_at: 0, ...facts });
  assert.equal(stateOf(run({ state: "failed", decision: "run" })), "failed");
  assert.equal(stateOf(run({ state: "constructor", decision: "skip" })), "skipped");
  assert.equal(stateOf(run({ state: "paused", decision: "run" })), "done");
  assert.equal(reasonOf(run({ reason: "skip: no viewer" })), "no viewer");
});
