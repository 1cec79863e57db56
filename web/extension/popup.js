// The toolbar popup: where the node is, and the two doors (dashboard, settings).

import { OPEN_CONTROL } from "./names.js";
import { onNodeAddress, readNodeAddress } from "./settings.js";

document.getElementById("settings").addEventListener("click", async () => {
  try {
    await chrome.runtime.sendMessage({ action: OPEN_CONTROL });
    window.close();
  } catch (error) {
    complain(`The settings cannot be opened: ${error.message}`);
  }
});

onNodeAddress(show);
readNodeAddress().then(show, (error) => complain(`The settings cannot be read: ${error.message}`));

function show(address) {
  document.getElementById("node-address").textContent = address;
  document.getElementById("dashboard").href = address;
}

function complain(text) {
  const message = document.getElementById("message");
  message.textContent = text;
  message.dataset.tone = "bad";
}
