// What the shelf page makes of pasted texts and of a queue's figures.

import assert from "node:assert/strict";
import { test } from "node:test";
import { candidates, doing, pace, progress, share, troubles } from "../pages/assets/shelf-status.js";

const status = (/** @type {any} */ facts = {}) => ({
  name: "fetchGoogleSearch",
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

test("bk_08 any separators will do, each number comes once, and what is no number is left for the node to refuse", () => {
  const cases = {
    "": [],
    " \n,;": [],
    "978-4-10-101001-4": ["978-4-10-101001-4"],
    "9784101010014 9784088511276": ["9784101010014", "9784088511276"],
    "978 4 10 101001 4\n4-10-101001-3": ["978 4 10 101001 4", "4-10-101001-3"],
    "9784101010014,9784088511276;9784101010014": ["9784101010014", "9784088511276"],
    "ISBN 080442957X / ISBN-13: 9784101010014": ["080442957X", "9784101010014"],
    "９７８４１０１０１００１４、hello": ["9784101010014", "hello"],
    "978‐4‐10‐101001‐4": ["978-4-10-101001-4"],
    // Whole, so that the node can say what is wrong with it: these were cut into pieces that nobody had typed.
    "1234567890123": ["1234567890123"],
    "1920095012004 9784101010014": ["9784101010014", "1920095012004"],
    "97841010100149": ["97841010100149"],
  };
  for (const [text, expected] of Object.entries(cases)) assert.deepEqual(candidates(text), expected, text);
});

test("bk_08 a queue says what it does and when it goes on", () => {
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
