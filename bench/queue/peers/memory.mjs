// Tasks that do nothing, in memory: node memory.mjs <p-queue|bottleneck|syncline> <tasks>

import { readFile } from "node:fs/promises";

import { report, settle } from "./report.mjs";

const [contender, count] = [process.argv[2], Number(process.argv[3])];
const CONCURRENCY = 10;
const nothing = () => {};

const contenders = {
  async "p-queue"() {
    const { default: PQueue } = await import("p-queue");
    const queue = new PQueue({ concurrency: CONCURRENCY });
    settle();
    const start = performance.now();
    for (let n = 0; n < count; n += 1) {
      queue.add(nothing);
    }
    await queue.onIdle();
    return performance.now() - start;
  },

  async bottleneck() {
    const { default: Bottleneck } = await import("bottleneck");
    const limiter = new Bottleneck({ maxConcurrent: CONCURRENCY });
    settle();
    const start = performance.now();
    const jobs = [];
    for (let n = 0; n < count; n += 1) {
      jobs.push(limiter.schedule(async () => {}));
    }
    await Promise.all(jobs);
    return performance.now() - start;
  },

  // Keyed, de-duplicated, with a result kept for each key: more than the two above do.
  async syncline() {
    const { initSync, createQueue } = await import("../../../web/pkg/queue.js");
    initSync(await readFile(new URL("../../../web/pkg/syncline_queue_bg.wasm", import.meta.url)));
    const keys = Array.from({ length: count }, (_, n) => `key-${n}`);
    const queue = createQueue({ name: "bench", concurrency: CONCURRENCY, run: nothing });
    await queue.ready;
    settle();
    const start = performance.now();
    queue.enqueue(keys);
    await queue.idle();
    return performance.now() - start;
  },
};

report(count, await contenders[contender]());
process.exit(0);
