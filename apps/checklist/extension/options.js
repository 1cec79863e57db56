// The control surface: the checklist, the settings that every context follows, what is stored and how, and the node.

import { mountChecklist } from "./checklist.js";
import { mountNodeForm } from "./node-form.js";
import { openChecklist } from "./open.js";
import { version } from "./pkg/state.js";
import { mountSettingsForm } from "./settings-form.js";
import { mountStatus } from "./status.js";
import { applyTheme } from "./theme.js";
import { sentenceOf } from "./words.js";

const state = openChecklist();
const wasm = document.getElementById("wasm-state");

document.getElementById("extension-version").textContent = chrome.runtime.getManifest().version;
mountChecklist(document.getElementById("checklist"), state);
mountSettingsForm(document.getElementById("sync-settings"), state);
mountStatus(state);
mountNodeForm(document.getElementById("node-form"));

state.subscribe((event) => {
  if (event.type === "settings" || event.type === "ready") applyTheme(state.settings);
  if (event.type === "ready") {
    document.getElementById("wasm-version").textContent = version();
    show("Running", "running");
  }
  if (event.type === "closed" && event.reason === "failed") show(sentenceOf(event.error), "failed");
});

function show(text, word) {
  wasm.textContent = text;
  wasm.dataset.state = word;
}
