// The queue page: every queue of this node, live.

import { ask } from "./api.js";
import { openPage } from "./app.js";
import { at, say } from "./dom.js";
import { count } from "./format.js";
import { t } from "./language.js";
import { merge } from "./news.js";
import { openQueues } from "./queues.js";

const queues = openQueues();

openPage({
  async read() {
    await merge(ask("/api/queues"), (all) => {
      queues.load(all.queues);
      say(at("queues-note"), all.queues.length > 0 ? t(count(all.queues.length, "queue"), `${all.queues.length} 個`) : "");
    });
  },
  on: { queue: queues.put },
  tick: queues.tick,
});
