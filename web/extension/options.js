// The control surface: edits the node's address and shows that the rules run here.

import { init, version } from "./pkg/covers.js";
import { checkNodeAddress, onNodeAddress, readNodeAddress, writeNodeAddress } from "./settings.js";

const form = document.getElementById("node-form");
const address = document.getElementById("node-address");
const message = document.getElementById("node-message");
const state = document.getElementById("wasm-state");
const hint = message.textContent;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
address.addEventListener("input", () => say(hint, "quiet"));
onNodeAddress((saved) => {
  // What somebody is typing here is not overwritten by a change made elsewhere.
  if (document.activeElement !== address) address.value = saved;
});

document.getElementById("extension-version").textContent = chrome.runtime.getManifest().version;
readNodeAddress().then(
  (saved) => (address.value = saved),
  (error) => say(`The settings cannot be read: ${error.message}`, "bad"),
);
showRules();

async function save() {
  const checked = checkNodeAddress(address.value);
  if (checked.problem) {
    say(checked.problem, "bad");
    address.focus();
    return;
  }
  try {
    await writeNodeAddress(checked.address);
    address.value = checked.address;
    say("Saved.", "good");
  } catch (error) {
    say(`Not saved: ${error.message}`, "bad");
  }
}

async function showRules() {
  try {
    await init();
    document.getElementById("wasm-version").textContent = version();
    state.textContent = "Running";
    state.dataset.state = "running";
  } catch (error) {
    state.textContent = `Not running: ${error.message}`;
    state.dataset.state = "failed";
  }
}

function say(text, tone) {
  message.textContent = text;
  message.dataset.tone = tone;
  address.setAttribute("aria-invalid", String(tone === "bad"));
}
