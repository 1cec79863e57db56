// pg-boss at its fastest documented settings: large batches, no pause while batches are full, woken by NOTIFY.
// node pg-boss.mjs <postgres url> <tasks>

import { PgBoss } from "pg-boss";
import pg from "pg";

import { report, until } from "./report.mjs";

const [connectionString, count] = [process.argv[2], Number(process.argv[3])];
const boss = new PgBoss({ connectionString, max: 20, useListenNotify: true, supervise: false, schedule: false });
boss.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
await boss.start();
await boss.createQueue("nothing", { notify: true });
const added = performance.now();
for (let from = 0; from < count; from += 5000) {
  const size = Math.min(5000, count - from);
  await boss.insert("nothing", Array.from({ length: size }, (_, n) => ({ data: { key: `key-${from + n}` } })));
}
const addSeconds = (performance.now() - added) / 1000;

let done = 0;
const pool = new pg.Pool({ connectionString, max: 1 });
pool.on("error", () => {});
const start = performance.now();
for (let worker = 0; worker < 4; worker += 1) {
  await boss.work("nothing", { batchSize: 1000, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }, async (jobs) => {
    done += jobs.length;
  });
}
await until(() => done >= count);
// Complete is what the table says, not what the handler has seen.
await until(async () => {
  const { rows } = await pool.query("select not exists (select from pgboss.job where state < 'completed') as empty");
  return rows[0].empty;
});
report(count, performance.now() - start, { add_seconds: addSeconds });
process.exit(0);
