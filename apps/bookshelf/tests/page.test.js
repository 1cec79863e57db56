// What the shelf page makes of pasted texts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { candidates } from "../pages/assets/shelf-candidates.js";

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
