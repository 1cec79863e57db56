// The checklist of the state page, in whatever context it is put: a form, the entities, and what there is to say when there
// are none. Guarantees that only what changed is touched, and that a refusal is said in words.

import { h, icon, keyed, say } from "./dom.js";

const TEXT_MAX_CHARS = 80;

/** @typedef {{ text: string, checked: boolean, timestamp: number }} Item */
/** What the page can set; stored under the names that the checklist's extension uses too. */
export const settings = /** @type {const} */ ({
  schema: {
    featureEnabled: { type: "boolean", default: true },
    scopeMode: { type: "choice", choices: ["all", "specific"], default: "all" },
    scopeTargetId: { type: "string", maxLength: 256 },
    themeToken: {
      type: "string",
      default: "#6441a5",
      pattern: /^#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/i,
      problem: "must be a hex colour such as #6441a5",
    },
  },
  /** @param {{ scopeMode?: "all" | "specific", scopeTargetId?: string }} settings */
  check({ scopeMode, scopeTargetId = "" }) {
    if (scopeMode !== "specific" || scopeTargetId.trim() !== "") return [];
    return [{ field: "scopeTargetId", problem: 'is needed when scopeMode is "specific"' }];
  },
});

/** @typedef {import("/pkg/state.js").SettingsOf<typeof settings.schema>} Settings */
/** @typedef {import("/pkg/state.js").State<Item, Settings>} Checklist */

/**
 * Shows `state` in `place` and follows it.
 * @param {Element} place
 * @param {Checklist} state
 */
export function mountChecklist(place, state) {
  const input = /** @type {HTMLInputElement} */ (
    h("input", { "aria-label": "New entry", placeholder: "New entry", maxlength: TEXT_MAX_CHARS, autocomplete: "off" })
  );
  const form = h("form", { class: "add", on: { submit: add } }, input, h("button", { class: "button", type: "submit" }, "Add"));
  const list = h("ul", { class: "items" });
  const empty = h("p", { class: "empty" }, "Nothing to do yet. Add an entry, and watch it appear everywhere.");
  const hidden = h("p", { class: "empty", hidden: true }, "The checklist is switched off in the settings.");
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  place.replaceChildren(form, trouble, list, empty, hidden);
  state.subscribe(show);
  show();

  function show() {
    const { entities, settings } = state.getSnapshot();
    const shown = settings.featureEnabled;
    const items = [...entities].sort(([, one], [, other]) => one.timestamp - other.timestamp);
    keyed(list, shown ? items : [], ([id]) => id, createRow);
    list.toggleAttribute("hidden", !shown || items.length === 0);
    empty.toggleAttribute("hidden", !state.isReady || !shown || items.length > 0);
    hidden.toggleAttribute("hidden", shown);
    form.toggleAttribute("hidden", !shown);
    /** @type {HTMLElement} */ (place).style.setProperty("--item", settings.themeToken);
  }

  /** @param {[string, Item]} entry */
  function createRow([id]) {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", on: { change: () => tick(id, box.checked) } }));
    const text = h("span");
    const remove = h("button", { class: "icon-button", type: "button", on: { click: () => perform(state.remove(id)) } }, icon("remove"));
    return {
      node: h("li", {}, h("label", {}, box, text), remove),
      /** @param {[string, Item]} entry */
      update([, item]) {
        if (box.checked !== item.checked) box.checked = item.checked;
        say(text, item.text);
        remove.setAttribute("aria-label", `Remove ${item.text}`);
      },
    };
  }

  /** @param {string} id @param {boolean} checked */
  function tick(id, checked) {
    const item = state.get(id);
    if (item !== undefined) perform(state.put(id, { ...item, checked }));
  }

  function add(/** @type {Event} */ event) {
    event.preventDefault();
    const text = input.value.trim();
    if (text === "") return input.focus();
    input.value = "";
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    perform(state.put(`${Date.now().toString(36)}-${random.toString(36)}`, { text, checked: false, timestamp: Date.now() }));
  }

  async function perform(/** @type {Promise<void>} */ work) {
    try {
      await work;
      trouble.hidden = true;
    } catch (error) {
      trouble.hidden = false;
      say(trouble, `Not stored: ${error.message}.`);
    }
  }
}
