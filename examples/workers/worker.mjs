// A worker in Node.js (Bun and Deno run it, too), with the npm package `syncline`.
//
//     SYNCLINE_URL=http://127.0.0.1:3000 SYNCLINE_TOKEN=... node worker.mjs sums
//
// Adds up the numbers in the input of each key, four keys at once, until Ctrl-C.

import { TaskFailure, runWorker } from "syncline/run-worker";

const worker = runWorker({
  url: process.env.SYNCLINE_URL,
  token: process.env.SYNCLINE_TOKEN,
  queue: process.argv[2],
  concurrency: 4,
  run: ({ key, input }) => {
    const numbers = input ?? [];
    if (!numbers.every(Number.isInteger)) throw new TaskFailure(`${key} is no list of numbers`, { cause: "refused" });
    return { total: numbers.reduce((sum, number) => sum + number, 0), by: "node" };
  },
  onError: (error) => console.error(error.message),
});

process.on("SIGINT", worker.stop);
process.on("SIGTERM", worker.stop);
await worker.ended;
