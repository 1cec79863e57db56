// The pure parts of the pages: expressions, numbers and times in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cronInWords } from "../console/assets/cron.js";
import { ago, count, countdown, money, span } from "../console/assets/format.js";

test("cron expressions are put into words, and unusual ones shown as they are", () => {
  const words = {
    "* * * * *": "every minute",
    "0 * * * * *": "every minute",
    "*/2 * * * * *": "every 2 seconds",
    "* * * * * *": "every second",
    "*/5 * * * *": "every 5 minutes",
    "0 * * * *": "every hour",
    "15 * * * *": "every hour at 15 past",
    "0 */6 * * *": "every 6 hours",
    "30 3 * * *": "every day at 03:30 UTC",
    "0 9 * * 1-5": "Monday to Friday at 09:00 UTC",
    "0 9 * * MON-FRI": "Monday to Friday at 09:00 UTC",
    "0 9 * * 0": "every Sunday at 09:00 UTC",
    "0 9 * * 7": "every Sunday at 09:00 UTC",
    "0 0 1 * *": "on day 1 of every month at 00:00 UTC",
    "0 0 1 1 *": "0 0 1 1 *",
    "1,2 * * * *": "1,2 * * * *",
    "0 9 1 * 1": "0 9 1 * 1",
    "10 0 9 * * *": "10 0 9 * * *",
    nonsense: "nonsense",
  };
  for (const [expression, expected] of Object.entries(words)) assert.equal(cronInWords(expression), expected);
});

test("numbers, lengths of time and money read well at their edges", () => {
  assert.deepEqual(
    [count(0, "viewer"), count(1, "viewer"), count(12_345, "viewer")],
    ["0 viewers", "1 viewer", "12,345 viewers"],
  );
  assert.deepEqual(
    [span(-5), span(59_999), span(60_000), span(3_600_000), span(7_800_000), span(93_600_000)],
    ["0 s", "59 s", "1 min", "1 h", "2 h 10 min", "1 d 2 h"],
  );
  assert.deepEqual([ago(0, 4_000), ago(0, 90_000)], ["just now", "1 min ago"]);
  assert.deepEqual([countdown(-1), countdown(41_001), countdown(3_661_000)], ["00:00", "00:42", "1:01:01"]);
  assert.deepEqual(
    [money(0), money(0.002), money(0.148), money(12.5), money(1_234.5)],
    ["$0.00", "$0.002", "$0.148", "$12.50", "$1,234.50"],
  );
});
