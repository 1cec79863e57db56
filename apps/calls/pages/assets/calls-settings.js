// Settings of the box, edited here: a list by kind, and a form made of what a setting holds.
// Guarantees that what does not make sense is not sent, and that nobody's newer change is overwritten without a question.

import { ask, serverNow } from "/assets/api.js";
import { at, h, keyed, say } from "/assets/dom.js";
import { ago, exact } from "/assets/format.js";
import { createField, kindOf } from "./calls-field.js";

const PAGE = 100;

/** @typedef {{ entityId: string, payload: any, changedAt: string, version: string, sender?: string }} Setting */

export function openSettings() {
  /** @type {Map<string, Setting>} */
  let settings = new Map();
  /** @type {Setting | null} what is being edited, as it was when editing began; null for a new one */
  let opened = null;
  let reading = 0;
  /** @type {Map<string, ReturnType<typeof createField>>} */
  let fields = new Map();
  const type = /** @type {HTMLSelectElement} */ (at("settings-type"));
  const form = /** @type {HTMLFormElement} */ (at("editor"));
  const id = /** @type {HTMLInputElement} */ (at("editor-id"));
  const fieldName = /** @type {HTMLInputElement} */ (at("field-name"));
  const fieldKind = /** @type {HTMLSelectElement} */ (at("field-kind"));

  type.addEventListener("change", () => {
    close();
    read().catch((error) => trouble(error.message));
  });
  at("settings-new").addEventListener("click", () => edit(null));
  at("editor-cancel").addEventListener("click", close);
  at("field-add").addEventListener("click", addField);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save(opened?.version);
  });

  function show() {
    const all = [...settings.values()];
    keyed(at("settings-list"), all, ({ entityId }) => entityId, (setting) => createRow(setting, edit));
    at("settings-empty").hidden = all.length > 0;
    say(at("settings-empty"), `There is no ${words(type.value)} yet. Add one, or wait for the box to send its own.`);
  }

  function edit(/** @type {Setting | null} */ setting) {
    opened = setting;
    form.hidden = false;
    say(at("editor-title"), setting ? titleOf(setting) : `New ${words(type.value)}`);
    say(at("editor-since"), setting ? `${setting.entityId} · changed ${ago(Date.parse(setting.changedAt), serverNow())}` : "");
    at("editor-id-field").hidden = setting !== null;
    id.value = setting ? setting.entityId : crypto.randomUUID?.() ?? "";
    const payload = setting ? setting.payload : template();
    fill(payload && typeof payload === "object" && !Array.isArray(payload) ? payload : { value: payload });
    at("editor-stale").hidden = true;
    trouble("");
    say(at("editor-told"), "");
    const first = fields.values().next().value;
    if (setting) first?.focus();
    else id.focus();
  }

  /** A new one looks like those that are there. */
  function template() {
    const like = settings.values().next().value?.payload;
    if (!like || typeof like !== "object") return { name: "", enabled: true };
    const empty = { text: "", number: 0, "yes or no": false, JSON: null };
    return Object.fromEntries(Object.entries(like).filter(([name]) => name !== "id").map(([name, value]) => [name, empty[kindOf(value)]]));
  }

  function fill(/** @type {Record<string, unknown>} */ payload) {
    fields = new Map(Object.entries(payload).map(([name, value]) => [name, createField(name, value)]));
    at("editor-fields").replaceChildren(...[...fields.values()].map(({ node }) => node));
  }

  function addField() {
    const name = fieldName.value.trim();
    if (!name || fields.has(name)) return trouble(name ? `There is a field called ${name} already.` : "Type a name for the field first.");
    const first = { text: "", number: 0, "yes or no": false, JSON: null }[fieldKind.value] ?? "";
    const field = createField(name, first, fieldKind.value);
    fields.set(name, field);
    at("editor-fields").append(field.node);
    fieldName.value = "";
    trouble("");
    field.focus();
  }

  async function save(/** @type {string | undefined} */ version) {
    const found = [...fields.values()].map((field) => field.read());
    const wrong = found.findIndex(({ error }) => error);
    if (wrong >= 0) {
      trouble(`${[...fields.keys()][wrong]}: ${found[wrong].error}`);
      return [...fields.values()][wrong].focus();
    }
    const target = opened?.entityId ?? id.value.trim();
    if (!target) return trouble("An id is needed.");
    const payload = Object.fromEntries([...fields.keys()].map((name, i) => [name, found[i].value]));
    try {
      /** @type {Record<string, string>} */
      const headers = version ? { "if-match": `"${version}"` } : {};
      const saved = await ask(`/api/entities/${type.value}/${encodeURIComponent(target)}`, { method: "PUT", body: payload, headers });
      edit(saved);
      // Read, not put in place: somebody may have changed it again since.
      await read();
      say(at("editor-told"), "Saved here, and on its way to the box.");
    } catch (error) {
      if (error.status === 412) return stale();
      trouble(error.message);
    }
  }

  /** Somebody else changed it while it was being edited. */
  function stale() {
    const current = opened && settings.get(opened.entityId);
    const button = (/** @type {string} */ label, /** @type {() => void} */ click) => h("button", { class: "button small", type: "button", on: { click } }, label);
    at("editor-stale").replaceChildren(
      h("span", {}, "This was changed elsewhere while you were editing. "),
      h("span", { class: "actions" }, button("Show theirs", () => current && edit(current)), button("Save mine anyway", () => save(undefined))),
    );
    at("editor-stale").hidden = false;
  }

  function close() {
    form.hidden = true;
    opened = null;
  }

  function trouble(/** @type {string} */ text) {
    say(at("editor-trouble"), text);
    at("editor-trouble").hidden = text === "";
  }

  async function read() {
    if (!type.value) return;
    const asked = type.value;
    const turn = (reading += 1);
    const page = await ask(`/api/entities/${asked}?limit=${PAGE}`);
    // News make it read again: only the answer to the last question counts.
    if (turn !== reading || asked !== type.value) return;
    settings = new Map(page.entities.map((/** @type {Setting} */ each) => [each.entityId, each]));
    show();
    if (opened && settings.get(opened.entityId) && settings.get(opened.entityId)?.version !== opened.version) stale();
  }

  return {
    async load(/** @type {{ name: string, settings: boolean }[]} */ kinds) {
      const editable = kinds.filter((kind) => kind.settings).map(({ name }) => name);
      const chosen = type.value;
      if (type.options.length !== editable.length) type.replaceChildren(...editable.map((name) => h("option", { value: name }, words(name))));
      type.value = editable.includes(chosen) ? chosen : editable[0] ?? "";
      await read();
    },
    read,
    put(/** @type {{ entityType: string }} */ { entityType }) {
      if (entityType === type.value) read().catch((error) => trouble(error.message));
    },
  };
}

/** `routing_rule` as people say it. */
function words(/** @type {string} */ name) {
  return name.replaceAll("_", " ");
}

function titleOf(/** @type {Setting} */ { entityId, payload }) {
  const named = payload?.name ?? payload?.title ?? payload?.label ?? payload?.number ?? payload?.phoneNumber;
  return String(named || entityId).slice(0, 80);
}

/**
 * @param {Setting} first
 * @param {(setting: Setting) => void} edit
 */
function createRow(first, edit) {
  let setting = first;
  const title = h("strong");
  const when = h("span", { class: "note" });
  const button = h("button", { class: "button small", type: "button", "data-needs": "entity:?:write", on: { click: () => edit(setting) } }, "Edit");
  const node = h("li", {}, h("p", {}, title, " ", when), button);
  return {
    node,
    update(/** @type {Setting} */ next) {
      setting = next;
      say(title, titleOf(setting));
      when.setAttribute("title", exact(Date.parse(setting.changedAt)));
      say(when, `changed ${ago(Date.parse(setting.changedAt), serverNow())}${setting.sender ? ` by ${setting.sender.slice(0, 16)}` : ""}`);
      button.setAttribute("aria-label", `Edit ${titleOf(setting)}`);
    },
  };
}
