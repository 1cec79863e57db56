// A queue's figures in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { doing, groupPace, kept, pace, progress, share, troubles } from "../console/assets/queue-status.js";

const status = (/** @type {any} */ facts = {}) => ({
  name: "words",
  concurrency: 1,
  interval_ms: 100,
  retry_delay_ms: 500,
  rate_per_sec: 0,
  left_ms: null,
  next_call_at: null,
  next_retry_at: null,
  paused: null,
  breaker: /** @type {const} */ ("closed"),
  ...facts,
  counts: { waiting: 0, running: 0, retrying: 0, done: 0, failed: 0, dead: 0, ...facts.counts },
});

test("qu_24 a queue says what it does and when it goes on", () => {
  const cases = /** @type {[any, string, string][]} */ ([
    [{}, "idle", "idle"],
    [{ counts: { running: 2 } }, "busy", "2 calling"],
    [{ counts: { waiting: 1 } }, "waits", "next call now"],
    [{ counts: { waiting: 1 }, next_call_at: 6_000 }, "waits", "next call in 00:05"],
    [{ counts: { retrying: 1 }, next_retry_at: 4_000 }, "waits", "next retry in 00:03"],
    [{ counts: { waiting: 1 }, paused: { until: 61_000, reason: "retry-after" } }, "paused", "429, goes on in 01:00"],
    [{ paused: { until: 6_000, reason: "breaker" }, breaker: "open" }, "broken", "API failing, tried again in 00:05"],
    [{ breaker: "probing", counts: { running: 1 } }, "broken", "one call tries whether the API is well"],
    [{ paused: { until: 900, reason: "retry-after" } }, "idle", "idle"],
    [{ counts: { waiting: 1, running: 1 }, paused: { until: null, reason: "operator" } }, "paused", "paused by hand"],
  ]);
  for (const [facts, mood, words] of cases) assert.deepEqual(doing(status(facts), 1_000), { mood, words });
});

test("qu_24 pace, progress and troubles read well", () => {
  assert.equal(pace(status()), "1 at once, 100 ms apart, retry after 500 ms");
  assert.equal(pace(status({ concurrency: 2, interval_ms: 0, retry_delay_ms: 0 })), "2 at once");
  assert.equal(progress(status({ rate_per_sec: 4.84, left_ms: 12_000, counts: { waiting: 58 } })), "4.8 a second, 12 s left");
  assert.equal(progress(status({ rate_per_sec: 4.84 })), "");
  assert.equal(troubles(status({ counts: { retrying: 1, failed: 2, dead: 3 } })), "1 retry, 2 without result, 3 dead keys");
  assert.equal(share(status({ counts: { waiting: 1, done: 2, failed: 1 } })), 0.75);
  assert.equal(share(status()), 0);
});

test("qu_33 a pace that was set by hand, the pace of groups and how long results are kept are said", () => {
  assert.equal(pace(status({ pace_is_set: true, retry_delay_ms: 0 })), "1 at once, 100 ms apart, set by hand");
  assert.equal(groupPace(status({ groups: { concurrency: 2, interval_ms: 250 } })), "Each group: 2 at once, 250 ms apart.");
  assert.equal(groupPace(status()), "");
  assert.equal(kept(status({ resultTtlSec: 3_600 })), "results kept for 1 h");
  assert.equal(kept(status()), "");
});
