// The state page: one checklist in three contexts, a race of ten, and the settings that all of them follow.
// Guarantees that the page works without its node too: the state is the browser's own.

import { openPage } from "./app.js";
import { at, say } from "./dom.js";
import { whole } from "./format.js";
import { mountChecklist, settings } from "./state-checklist.js";

/** @type {import("./state-checklist.js").Checklist | null} */
let state = null;

const form = /** @type {HTMLFormElement} */ (at("settings"));
const field = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (at(name));

openPage({ read: start });

async function start() {
  if (state) return;
  const { openState } = await import("/pkg/state.js");
  state = openState({ settings });
  mountChecklist(at("checklist"), state);
  state.subscribe(show);
  await state.ready;
  show();
  fillSettings();
  state.subscribe(({ type }) => type === "settings" && fillSettings());
  at("reset").addEventListener("click", reset);
  at("race").addEventListener("click", race);
  form.addEventListener("submit", save);
}

function show() {
  if (!state) return;
  const { entities } = state.getSnapshot();
  const open = [...entities.values()].filter(({ checked }) => !checked).length;
  say(at("list-count"), entities.size === 0 ? "" : `${whole(open)} of ${whole(entities.size)} to do`);
  /** @type {HTMLButtonElement} */ (at("reset")).disabled = entities.size === 0;
}

async function reset() {
  try {
    await state?.reset();
    say(at("list-told"), "Everything is removed, here and everywhere.");
  } catch (error) {
    say(at("list-told"), `Not removed: ${error.message}.`);
  }
}

async function race() {
  const button = /** @type {HTMLButtonElement} */ (at("race"));
  button.disabled = true;
  try {
    const { race } = await import("./state-race.js");
    const { ours, plain } = await race(at("race-frames"), (word) => say(at("race-told"), word));
    for (const [name, kept] of /** @type {const} */ ([["ours", ours], ["plain", plain]])) {
      say(at(name), whole(kept));
      /** @type {HTMLProgressElement} */ (at(`${name}-bar`)).value = kept;
    }
    const lost = 500 - plain;
    say(at("race-told"), lost > 0 ? `By hand, ${whole(lost)} are lost` : "By hand, none was lost this time");
  } catch (error) {
    say(at("race-told"), `The race failed: ${error.message}`);
  } finally {
    button.disabled = false;
  }
}

function fillSettings() {
  // What somebody is typing is not overwritten by a change made elsewhere.
  if (!state || form.contains(document.activeElement)) return;
  const { featureEnabled, scopeMode, scopeTargetId = "", themeToken } = state.settings;
  field("featureEnabled").checked = featureEnabled;
  field("scopeMode").value = scopeMode;
  field("scopeTargetId").value = scopeTargetId;
  field("themeToken").value = themeToken;
}

async function save(/** @type {Event} */ event) {
  event.preventDefault();
  const scopeMode = /** @type {"all" | "specific"} */ (field("scopeMode").value);
  const scopeTargetId = field("scopeTargetId").value.trim();
  /** @type {{ field: string, problem: string }[]} */
  let problems = [];
  try {
    await state?.setSettings({
      featureEnabled: field("featureEnabled").checked,
      scopeMode,
      ...(scopeTargetId === "" ? {} : { scopeTargetId }),
      themeToken: field("themeToken").value.trim(),
    });
    say(at("settings-told"), "Saved, and followed everywhere");
  } catch (error) {
    problems = error.fields ?? [];
    say(at("settings-told"), problems.length > 0 ? "Not saved" : `Not saved: ${error.message}`);
  }
  for (const name of ["scopeTargetId", "themeToken"]) {
    const wrong = problems.find(({ field }) => field === name);
    say(at(`${name}-problem`), wrong ? `It ${wrong.problem}.` : "");
    field(name).setAttribute("aria-invalid", String(wrong !== undefined));
  }
  const first = problems.find(({ field }) => document.getElementById(field));
  if (first) field(first.field).focus();
}
