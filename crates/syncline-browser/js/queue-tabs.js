// Who runs a kept queue, of all tabs of one origin, and how the others talk to that one.
//
// Guarantees: one tab leads; when it closes, crashes, stands still or goes into the back/forward cache, another takes over
// within 5 s (leader.js). For a moment two may believe that they lead: the store takes the writes of the later one alone
// (queue-store.js). What leading means is the queue's (queue.js).

import { lead } from "./leader.js";
import { failed } from "./queue-store.js";

export class Tabs {
  #channel;
  #member;
  #closed = false;

  // `lead()` is awaited before others are told; `stop()` after it must leave nothing running.
  constructor(name, { receive, lead: begin, stop }) {
    this.#channel = openChannel(`syncline.queue.${name}`);
    this.#channel.onmessage = ({ data }) => receive(data);
    this.#member = lead({ name: `syncline.queue.${name}`, onLead: begin, onLose: stop });
  }

  say(message) {
    if (!this.#closed) this.#channel.postMessage(message);
  }

  stepDown() {
    this.#member.stepDown();
  }

  async close() {
    this.#closed = true;
    this.#channel.close();
    await this.#member.close();
  }
}

// Firefox throws where the user forbids storage.
function openChannel(name) {
  try {
    return new BroadcastChannel(name);
  } catch (cause) {
    throw failed(cause);
  }
}
