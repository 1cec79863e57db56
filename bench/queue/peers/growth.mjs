// A keyed queue as plain arrays, the way an application writes it first: every enqueue looks whether the key is there,
// every dequeue filters the list and copies the results. node growth.mjs <keys>

import { report } from "./report.mjs";

const count = Number(process.argv[2]);

function enqueue(state, key) {
  if (state.results[key] !== undefined || state.queue.includes(key)) {
    return state;
  }
  return { ...state, queue: [...state.queue, key] };
}

function dequeue(state, key, result) {
  if (!state.queue.includes(key)) {
    return state;
  }
  return { queue: state.queue.filter((other) => other !== key), results: { ...state.results, [key]: result } };
}

let state = { queue: [], results: {} };
const start = performance.now();
for (let n = 0; n < count; n += 1) {
  state = enqueue(state, `key-${n}`);
}
while (state.queue.length > 0) {
  state = dequeue(state, state.queue[0], "done");
}
report(count, performance.now() - start);
