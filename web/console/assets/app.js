// Brings a page to life: the frame around it, the live stream, its data.
// Guarantees that a page reads afresh after every connection and after `lagged`, that one read runs at a time, and that
// it is never left blank when only the stream is refused. Leaves to the page what is read and shown.

import { Frame } from "./frame.js";
import { translate } from "./language.js";
import { openLive } from "./live.js";
import { hear, listen } from "./news.js";
import { hideForbidden, whoAmI } from "./session.js";

/**
 * Brings a page to life.
 * @param {{
 *   read?: () => Promise<void>,
 *   on?: Record<string, (data: any) => void>,
 *   tick?: () => void,
 * }} [page] `read` loads and shows, by way of merge() (news.js); `on` takes live events by name; `tick` runs every second while the page is visible
 * @returns {{ refresh: () => void }}
 */
export function openPage({ read = async () => {}, on = {}, tick = () => {} } = {}) {
  listen(on);
  const translated = translate();
  const frame = new Frame(() => live.retryNow());
  const refresh = oneAtATime(async () => {
    try {
      await translated;
      // What may be asked for and pressed has to be known before anything is shown.
      const session = await whoAmI();
      // A node that asks for a token need not be asked anything else before, and its audit has one refusal less.
      if (session?.required && !session.authenticated) return frame.lock(() => live.retryNow());
      hideForbidden();
      await read();
      frame.succeeded();
    } catch (error) {
      if (error?.needsToken) return frame.lock(() => live.retryNow());
      frame.failed(error, refresh);
    }
  });

  const live = openLive({
    names: Object.keys(on),
    onState(state, retryAt) {
      if (state === "locked") return frame.lock(() => live.retryNow());
      frame.showState(state, retryAt);
      // Without a stream the figures can still be read once; a page is never left blank when only the stream is refused.
      if (state === "reconnecting" && !frame.hasData) refresh();
    },
    onEvent(name, data) {
      if (name === "hello") frame.greet(data);
      if (name === "hello" || name === "lagged") return refresh();
      if (data !== null) hear(name, data);
    },
  });

  setInterval(() => {
    if (document.hidden) return;
    frame.tick();
    tick();
  }, 1_000);
  return { refresh };
}

/** A call during a run makes exactly one more run after it, so that the last answer is never older than the last call. */
export function oneAtATime(/** @type {() => Promise<void>} */ work) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
    } finally {
      running = false;
    }
  };
}
