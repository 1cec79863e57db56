// graphile-worker at its fastest documented settings: a local queue, and completions in batches.
// With `single`, ten at a time without either.
// node graphile-worker.mjs <postgres url> <tasks> [single]

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { report, until } from "./report.mjs";

const [connectionString, count] = [process.argv[2], Number(process.argv[3])];
const logger = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString, max: 20 });
pool.on("error", () => {});
const batched = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const single = { concurrentJobs: 10 };
const preset = { worker: { logger, maxPoolSize: 20, ...(process.argv[4] === "single" ? single : batched) } };

const utils = await makeWorkerUtils({ preset, pgPool: pool });
await utils.migrate();
const added = performance.now();
const specs = Array.from({ length: count }, (_, n) => ({ identifier: "nothing", payload: { key: `key-${n}` } }));
for (let from = 0; from < count; from += 5000) {
  await utils.addJobs(specs.slice(from, from + 5000));
}
const addSeconds = (performance.now() - added) / 1000;

let done = 0;
const start = performance.now();
const runner = await run({ preset, pgPool: pool, taskList: { nothing: () => { done += 1; } } });
await until(() => done >= count);
// A job is complete when its row is gone, not when its handler has returned.
await until(async () => {
  const { rows } = await pool.query("select not exists (select from graphile_worker._private_jobs) as empty");
  return rows[0].empty;
});
report(count, performance.now() - start, { add_seconds: addSeconds });
await runner.stop();
process.exit(0);
