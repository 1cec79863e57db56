// Workers of Syncline over HTTP. node syncline-workers.mjs <base url> <tasks> <keys a claim> <workers>

import http from "node:http";

import { report } from "./report.mjs";

const base = new URL(process.argv[2]);
const [count, max, workers] = process.argv.slice(3).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: workers + 1 });

function post(path, body) {
  const text = JSON.stringify(body);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  return new Promise((resolve, reject) => {
    const request = http.request(new URL(path, base), { method: "POST", agent, headers }, (answer) => {
      let told = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk) => (told += chunk));
      answer.on("end", () => (answer.statusCode < 300 ? resolve(JSON.parse(told)) : reject(new Error(`${answer.statusCode}: ${told}`))));
    });
    request.on("error", reject);
    request.end(text);
  });
}

const added = performance.now();
for (let from = 0; from < count; from += 5000) {
  const keys = Array.from({ length: Math.min(5000, count - from) }, (_, n) => `key-${from + n}`);
  await post("/api/queues/nothing", { keys });
}
const addSeconds = (performance.now() - added) / 1000;

let done = 0;
let claims = 0;
async function work() {
  while (done < count) {
    const { tasks } = await post("/api/queues/nothing/claim", { max });
    claims += 1;
    if (tasks.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      continue;
    }
    // Answered after the results are stored.
    await post("/api/queues/nothing/complete", { tasks: tasks.map(({ token }) => ({ token, result: "done" })) });
    done += tasks.length;
  }
}
const start = performance.now();
await Promise.all(Array.from({ length: workers }, work));
report(count, performance.now() - start, { add_seconds: addSeconds, claims });
process.exit(0);
