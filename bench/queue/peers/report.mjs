// What every peer prints when it is done: one line of JSON that the bench reads.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** `tasks` in `ms`, and whatever else is worth knowing. */
export function report(tasks, ms, more = {}) {
  console.log(JSON.stringify({ tasks, seconds: ms / 1000, ...more }));
}

/** Waits until `done()` is true, asking every few milliseconds: the same granularity for everybody. */
export async function until(done) {
  while (!(await done())) {
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Collects the garbage of preparing, so that the clock which starts now sees none of it. */
export function settle() {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
