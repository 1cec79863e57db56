// BullMQ on Redis. node bullmq.mjs <redis port> <tasks>

import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";

import { report } from "./report.mjs";

const [port, count] = [Number(process.argv[2]), Number(process.argv[3])];
const connect = () => new IORedis(port, "127.0.0.1", { maxRetriesPerRequest: null });

const queue = new Queue("nothing", { connection: connect() });
const added = performance.now();
for (let from = 0; from < count; from += 1000) {
  const size = Math.min(1000, count - from);
  await queue.addBulk(Array.from({ length: size }, (_, n) => ({ name: "task", data: { key: `key-${from + n}` } })));
}
const addSeconds = (performance.now() - added) / 1000;

const start = performance.now();
const worker = new Worker("nothing", async () => "done", { connection: connect(), concurrency: 200, autorun: false });
let done = 0;
const finished = new Promise((resolve, reject) => {
  // Emitted after Redis has stored the completion.
  worker.on("completed", () => {
    done += 1;
    if (done === count) {
      resolve();
    }
  });
  worker.on("error", reject);
});
worker.run();
await finished;
report(count, performance.now() - start, { add_seconds: addSeconds });
process.exit(0);
