// The toolbar popup: the checklist, whether it is shown on pages, and the two doors (dashboard, settings).

import { mountChecklist } from "./checklist.js";
import { openControl } from "./control.js";
import { onNodeAddress, readNodeAddress } from "./node-address.js";
import { openChecklist } from "./open.js";
import { applyTheme } from "./theme.js";
import { sentenceOf } from "./words.js";

const enabled = document.getElementById("enabled");
const state = openChecklist();
const checklist = mountChecklist(document.getElementById("checklist"), state);
state.subscribe((event) => {
  if (event.type === "settings" || event.type === "ready") showSettings();
});
checklist.focus();

enabled.addEventListener("change", async () => {
  try {
    await state.setSettings({ ...state.settings, featureEnabled: enabled.checked });
  } catch (error) {
    complain(sentenceOf(error));
    showSettings();
  }
});

document.getElementById("settings").addEventListener("click", () =>
  openControl().then(
    () => window.close(),
    (error) => complain(`The settings cannot be opened: ${error.message}`),
  ),
);

onNodeAddress(showAddress);
readNodeAddress().then(showAddress, (error) => complain(`The settings cannot be read: ${error.message}`));

function showSettings() {
  enabled.disabled = false;
  enabled.checked = state.settings.featureEnabled;
  applyTheme(state.settings);
}

function showAddress(address) {
  const dashboard = document.getElementById("dashboard");
  dashboard.href = address;
  dashboard.title = address;
}

function complain(text) {
  const message = document.getElementById("message");
  message.textContent = text;
  message.dataset.tone = "bad";
}
