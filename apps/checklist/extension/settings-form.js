// The form for the settings that every context follows.
//
// What is valid is decided by the rules; this form says what they said, at the field they said it of. It follows changes
// made elsewhere until somebody has begun to change something here.

import { parse } from "./theme.js";
import { sentenceOf } from "./words.js";

const FIELDS = ["featureEnabled", "scopeMode", "scopeTargetId", "themeToken"];
const WORDS = {
  scopeTargetId: { 'is needed when scopeMode is "specific"': "Enter the site, for example example.org." },
  themeToken: { "must be a hex colour such as #6441a5": "Enter a hex colour such as #6441a5." },
};

/** The host name in what people paste as a site: an address, a name with a port, a name in capitals. */
export function hostOf(text) {
  const trimmed = text.trim();
  if (trimmed === "") return "";
  try {
    return new URL(/^[a-z][a-z0-9+.-]*:\/\//i.test(trimmed) ? trimmed : `http://${trimmed}`).hostname;
  } catch {
    return trimmed;
  }
}

export function mountSettingsForm(form, state) {
  const { featureEnabled, scopeTargetId, themeToken } = form.elements;
  const picker = form.querySelector("input[type=color]");
  const message = form.querySelector(".message");
  let isDirty = false;

  state.subscribe((event) => {
    if ((event.type === "settings" || event.type === "ready") && !isDirty) show();
  });
  form.addEventListener("input", ({ target }) => {
    isDirty = true;
    if (target === picker) themeToken.value = picker.value;
    if (target === themeToken) showPicked();
    complain([]);
    showScope();
    say("Not saved yet.", "quiet");
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });

  function show() {
    const { settings } = state;
    featureEnabled.checked = settings.featureEnabled;
    form.elements.scopeMode.value = settings.scopeMode;
    scopeTargetId.value = settings.scopeTargetId ?? "";
    themeToken.value = settings.themeToken;
    showPicked();
    showScope();
  }

  function showPicked() {
    const colour = parse(themeToken.value);
    if (colour !== null) picker.value = `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  }

  function showScope() {
    scopeTargetId.disabled = form.elements.scopeMode.value !== "specific";
  }

  async function save() {
    complain([]);
    const scopeMode = form.elements.scopeMode.value;
    const target = scopeMode === "specific" ? { scopeTargetId: hostOf(scopeTargetId.value) } : {};
    const settings = { featureEnabled: featureEnabled.checked, scopeMode, ...target, themeToken: themeToken.value.trim() };
    try {
      await state.setSettings(settings);
      isDirty = false;
      show();
      say("Saved.", "good");
    } catch (error) {
      if (error.code !== "invalid-settings") return say(sentenceOf(error), "bad");
      complain(error.fields);
      say("Nothing was saved.", "bad");
      form.querySelector("[aria-invalid=true]")?.focus();
    }
  }

  function complain(problems) {
    for (const field of FIELDS) {
      const found = problems.find((problem) => problem.field === field)?.problem;
      document.getElementById(`${field}-problem`).textContent = found === undefined ? "" : (WORDS[field]?.[found] ?? `This ${found}.`);
      document.getElementById(field)?.setAttribute("aria-invalid", String(found !== undefined));
    }
  }

  function say(text, tone) {
    message.textContent = text;
    message.dataset.tone = tone;
  }
}
