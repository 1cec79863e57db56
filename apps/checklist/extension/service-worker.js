// The coordinator: opens the control surface and keeps no state.
//
// Listeners are registered in the first turn, before anything is awaited: Chrome starts this worker for an event and
// delivers it to whatever listens by then. It is asked through a port, because a listener for messages would count as a
// receiver of the hints that pages send each other, and they would wait for an answer. It needs no WASM and loads none.

import "./names.js";

const { OPEN_CONTROL } = globalThis.synclineNames;

chrome.runtime.onInstalled.addListener(({ reason }) => {
  if (reason === "install") chrome.runtime.openOptionsPage();
});

chrome.runtime.onConnect.addListener(async (port) => {
  if (port.name !== OPEN_CONTROL) return;
  await chrome.runtime.openOptionsPage();
  port.disconnect();
});
