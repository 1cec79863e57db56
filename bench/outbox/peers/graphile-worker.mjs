// graphile-worker at its fastest documented settings: a local queue, and completions in batches. A job is one entry, and its
// task posts it.
// node graphile-worker.mjs <postgres url> <front end> <entries>

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { entry, sender } from "./post.mjs";
import { report, until } from "./report.mjs";

const [connectionString, base, count] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const logger = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString, max: 20 });
pool.on("error", () => {});
const preset = {
  worker: {
    logger,
    concurrentJobs: 24,
    maxPoolSize: 20,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

const utils = await makeWorkerUtils({ preset, pgPool: pool });
await utils.migrate();
const now = new Date().toISOString();
const specs = Array.from({ length: count }, (_, n) => ({ identifier: "send", payload: entry(n, now) }));
for (let from = 0; from < count; from += 5000) {
  await utils.addJobs(specs.slice(from, from + 5000));
}

const post = sender(base, 24);
let done = 0;
const start = performance.now();
const taskList = {
  send: async (payload) => {
    await post([payload]);
    done += 1;
  },
};
const runner = await run({ preset, pgPool: pool, taskList });
await until(() => done >= count);
// A job is complete when its row is gone, not when its handler has returned.
await until(async () => {
  const { rows } = await pool.query("select not exists (select from graphile_worker._private_jobs) as empty");
  return rows[0].empty;
});
report(count, performance.now() - start);
await runner.stop();
process.exit(0);
