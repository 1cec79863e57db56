// The coordinator: opens the control surface and keeps no state.
//
// Listeners are registered in the first turn, before anything is awaited: Chrome starts this worker for an event and
// delivers it to whatever listens by then. It needs no WASM, so it loads none.

import { OPEN_CONTROL } from "./names.js";

chrome.runtime.onInstalled.addListener(({ reason }) => {
  if (reason === "install") chrome.runtime.openOptionsPage();
});

chrome.runtime.onMessage.addListener((message) => {
  if (message?.action === OPEN_CONTROL) chrome.runtime.openOptionsPage();
});
