// The calls page: calls as they arrive with their recordings, and the settings of the box.
// Wires the parts together; each part shows one thing and knows nothing of the others.

import { ask } from "/assets/api.js";
import { oneAtATime, openPage } from "/assets/app.js";
import { openCalls } from "./calls-list.js";
import { openSettings } from "./calls-settings.js";

const calls = openCalls();
const settings = openSettings();

openPage({
  async read() {
    const [kinds] = await Promise.all([ask("/api/entities"), calls.read()]);
    await settings.load(kinds.types);
  },
  on: {
    "recording.stored": calls.putRecording,
    "entity.changed": changed,
  },
  tick: calls.tick,
});

const readAgain = oneAtATime(async () => {
  await Promise.all([calls.read(), settings.read()]).catch((error) => console.warn(error));
});

function changed(/** @type {{ changes: import("./calls-list.js").Change[], omitted: number }} */ { changes, omitted }) {
  // What was not told, or was too large to be, is read.
  if (omitted > 0 || changes.some(({ payload }) => payload === undefined)) return readAgain();
  for (const change of changes) {
    if (change.entityType === "call_log") calls.put(change);
    else settings.put(change);
  }
}
