// pg-boss at its fastest documented settings: large batches, no pause while batches are full, woken by NOTIFY. A batch of
// jobs is posted as one request.
// node pg-boss.mjs <postgres url> <front end> <entries>

import { PgBoss } from "pg-boss";
import pg from "pg";

import { entry, sender } from "./post.mjs";
import { report, until } from "./report.mjs";

const [connectionString, base, count] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const boss = new PgBoss({ connectionString, max: 20, useListenNotify: true, supervise: false, schedule: false });
boss.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
await boss.start();
await boss.createQueue("send", { notify: true });
const now = new Date().toISOString();
for (let from = 0; from < count; from += 5000) {
  const size = Math.min(5000, count - from);
  await boss.insert("send", Array.from({ length: size }, (_, n) => ({ data: entry(from + n, now) })));
}

const post = sender(base, 4);
let done = 0;
const pool = new pg.Pool({ connectionString, max: 1 });
pool.on("error", () => {});
const start = performance.now();
for (let worker = 0; worker < 4; worker += 1) {
  const options = { batchSize: 1000, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
  await boss.work("send", options, async (jobs) => {
    await post(jobs.map((job) => job.data));
    done += jobs.length;
  });
}
await until(() => done >= count);
// Complete is what the table says, not what the handler has seen.
await until(async () => {
  const { rows } = await pool.query("select not exists (select from pgboss.job where state < 'completed') as empty");
  return rows[0].empty;
});
report(count, performance.now() - start);
process.exit(0);
