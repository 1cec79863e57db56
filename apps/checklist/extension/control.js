// Asks the coordinator to open the control surface.

import "./names.js";

const { OPEN_CONTROL } = globalThis.synclineNames;

/** Resolves when it is open. */
export function openControl() {
  return new Promise((resolve, reject) => {
    const port = chrome.runtime.connect({ name: OPEN_CONTROL });
    port.onDisconnect.addListener(() => {
      // Set where nobody was there to hear it.
      const { lastError } = chrome.runtime;
      if (lastError) reject(new Error(lastError.message));
      else resolve();
    });
  });
}
