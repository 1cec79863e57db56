// The heartbeat's rules as the worker calls them: the real WASM module, driven through an hour without waiting for it.
// Needs `cargo xtask wasm` first.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fromPlain, SynclineError, toPlain } from "../pkg/errors.js";
import { Heartbeat, initSync, lastPanic, Send } from "../pkg/syncline_viewer.js";

initSync({ module: await readFile(new URL("../pkg/syncline_viewer_bg.wasm", import.meta.url)) });

test("vw_05 a page that stays open for an hour pings at once and then every 30 s", () => {
  const heartbeat = new Heartbeat(1n, 2n, true);
  const sent = [];
  let now = 250.7;
  for (let send = heartbeat.start(now); now < 3_600_000; send = heartbeat.timer(now)) {
    assert.equal(send, Send.Ping);
    sent.push(now);
    now = heartbeat.wakeAt;
  }
  assert.equal(sent.length, 120);
  assert.ok(
    sent.slice(1).every((at, index) => Math.round(at - sent[index]) <= 30_000),
    "never more than 30 s apart",
  );
});

test("vw_05 nothing is due while the page is away, and one ping when it returns", () => {
  const heartbeat = new Heartbeat(1n, 2n, true);
  assert.equal(heartbeat.start(0), Send.Ping);
  assert.equal(heartbeat.hide(1_000), Send.Bye);
  assert.equal(heartbeat.wakeAt, undefined);
  assert.equal(heartbeat.visible(2_000, false), Send.Nothing);
  assert.equal(heartbeat.start(900_000), Send.PingUnseen);
  assert.equal(heartbeat.start(900_001), Send.Nothing);
});

test("vw_24 the session id is a version 4 UUID of the random bits, without randomUUID", () => {
  const [high, low] = crypto.getRandomValues(new BigUint64Array(2));
  const id = new Heartbeat(high, low, true).sessionId;
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(id.slice(0, 8), high.toString(16).padStart(16, "0").slice(0, 8));
  assert.equal(new Heartbeat(0n, 0xffff_ffff_ffff_ffffn, true).sessionId, "00000000-0000-4000-bfff-ffffffffffff");
});

test("without a defect there is no panic to read", () => {
  assert.equal(lastPanic(), undefined);
});

test("an error leaves a worker with its code, its text and its cause", () => {
  const error = new SynclineError("ping-failed", "no answer", { retryable: true, cause: new TypeError("offline") });
  const arrived = fromPlain(structuredClone(toPlain(error)));
  assert.ok(arrived instanceof SynclineError);
  const { name, code, message, retryable, cause } = arrived;
  assert.deepEqual(
    { name, code, message, retryable, cause },
    { name: "SynclineError", code: "ping-failed", message: "no answer", retryable: true, cause: "TypeError: offline" },
  );
  assert.equal("cause" in fromPlain(structuredClone(toPlain(new SynclineError("stopped", "ended")))), false);
});
