// What the calls page makes of payloads, fields and recordings.

import assert from "node:assert/strict";
import { test } from "node:test";
import { kindOf, understand } from "../pages/assets/calls-field.js";
import { callOf } from "../pages/assets/calls-list.js";
import { peaks, readHead, scaled } from "../pages/assets/calls-waveform.js";
import { wav } from "../e2e/call-box.js";

test("ss_09 a call is shown from what its payload says, whichever way it is spelled", () => {
  const at = "2026-02-07T10:00:00Z";
  const said = callOf("c", { callerNumber: "1", disposition: "answered", durationSec: 3, startedAt: "2026-02-07T09:00:00Z" }, at, 1);
  assert.deepEqual(said, { id: "c", caller: "1", outcome: "answered", durationSec: 3, startedAt: Date.parse("2026-02-07T09:00:00Z"), place: 1 });
  assert.deepEqual(callOf("c", { caller_number: "2", status: "missed", duration_sec: 0 }, at, 2).durationSec, 0);
  for (const payload of [null, {}, 7, "text", { startedAt: "never", durationSec: "long" }]) {
    const call = callOf("c", payload, at, 0);
    assert.deepEqual([call.caller, call.durationSec, call.startedAt], ["Unknown number", null, Date.parse(at)]);
  }
});

test("ss_10 a field takes what its kind allows and says what is wrong", () => {
  assert.deepEqual(["a", 1, true, null, [1], {}].map(kindOf), ["text", "number", "yes or no", "JSON", "JSON", "JSON"]);
  assert.deepEqual(understand("number", " 2.5 "), { value: 2.5 });
  assert.deepEqual(understand("text", " 2 "), { value: " 2 " });
  assert.deepEqual(understand("JSON", "[1]"), { value: [1] });
  for (const text of ["", "soon", "1e999"]) assert.match(understand("number", text).error ?? "", /no number/);
  assert.match(understand("JSON", "{a}").error ?? "", /no JSON/);
});

test("ss_09 the sound is found in a WAV file, and in nothing else", () => {
  const file = wav(1);
  assert.deepEqual(readHead(file.slice(0, 4_096), file.byteLength), { start: 44, length: 16_000, frameBytes: 2 });
  for (const other of [new ArrayBuffer(0), new ArrayBuffer(100), file.slice(0, 40)]) assert.equal(readHead(other, 100), null);
  const float = file.slice(0);
  new DataView(float).setUint16(20, 3, true);
  assert.equal(readHead(float, float.byteLength), null);
});

test("ss_09 a waveform has the loudest of each stretch, and silence is flat", () => {
  assert.deepEqual(peaks(new Float32Array([0, 0.5, -1, 0.25]), 2), [0.5, 1]);
  assert.deepEqual(scaled([0.1, 0.2]), [0.5, 1]);
  assert.deepEqual(scaled([0, 0.0001]), [0, 0]);
});
