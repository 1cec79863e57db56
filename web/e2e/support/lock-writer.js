// Runs in a tab under test: holds the lock whenever it can, and writes to the observer for as long as it may.

import { withProjectLock } from "/pkg/syncline.js";

const PAUSE_MS = 15;
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * `deaf` tabs are frozen and cached without hearing of it, as by a browser, a laptop or a debugger that gives no notice.
 * With `writes` a tab lets go after so many, so that all meet again and again.
 * @param {{ tab: string, project: string, deaf: boolean, options: any, writes?: number }} settings
 */
export function startWriter({ tab, project, deaf, options, writes = Infinity }) {
  const writer = { polite: false, log: /** @type {string[]} */ ([]) };
  /** @type {any} */ (window).writer = writer;
  if (deaf) {
    for (const [target, type] of /** @type {const} */ ([
      [window, "pagehide"],
      [document, "freeze"],
      [document, "resume"],
      [window, "pageshow"],
    ])) {
      target.addEventListener(type, (event) => event.stopImmediatePropagation(), { capture: true });
    }
  }

  async function write(/** @type {any} */ lease, /** @type {AbortSignal} */ signal) {
    for (let left = writes; left > 0 && !signal.aborted && !writer.polite; left -= 1) {
      const body = JSON.stringify({ project, tab, leaseId: lease.leaseId, source: lease.source });
      // The answer sets the pace, because the timers of a hidden tab fire once a second.
      await fetch("/write", { method: "POST", body }).catch(() => pause(PAUSE_MS));
    }
    writer.polite = false;
  }

  (async () => {
    for (;;) {
      try {
        await withProjectLock({ project, ...options }, write);
      } catch (error) {
        writer.log.push(`${error.code}: ${error.message}`);
      }
      await pause(PAUSE_MS);
    }
  })();
}
