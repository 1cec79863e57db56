// What a browser may press, by the grants that a node told it of.

import assert from "node:assert/strict";
import { test } from "node:test";
import { allows } from "../console/assets/session.js";

test("cn_05 a grant allows what the node would allow, and nothing else", () => {
  const cases = [
    ["queue:covers:add,read", "queue", "read", "covers", true],
    ["queue:covers:add,read", "queue", "manage", "covers", false],
    ["queue:covers:add,read", "queue", "read", "cover", false],
    ["queue:covers:add,read", "state", "read", "covers", false],
    ["queue:covers:add,read", "queue", "read", undefined, true],
    ["lock:doc:*:hold,see", "lock", "see", "doc:1", true],
    ["lock:doc:*:hold,see", "lock", "see", "do", false],
    ["outbox:*:read", "outbox", "read", "*", true],
    // What is done to all of them at once needs all of them.
    ["viewer:shop:count", "viewer", "count", "*", false],
    ["viewer:*:count", "viewer", "count", "*", true],
    ["nonsense", "queue", "read", undefined, false],
    ["queue:read", "queue", "read", undefined, false],
  ];
  for (const [grant, system, verb, name, expected] of cases) {
    assert.equal(allows(/** @type {any} */ (grant), /** @type {any} */ (system), /** @type {any} */ (verb), /** @type {any} */ (name)), expected, `${grant} for ${system}:${name}:${verb}`);
  }
});
