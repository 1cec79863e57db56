// One field of a setting as a form shows it: a text, a number, yes or no, and JSON for everything else.

import { h, say } from "/assets/dom.js";

let fieldsMade = 0;

/** @typedef {"text" | "number" | "yes or no" | "JSON"} Kind */

/** @returns {Kind} */
export function kindOf(/** @type {unknown} */ value) {
  if (typeof value === "boolean") return "yes or no";
  if (typeof value === "number") return "number";
  return typeof value === "string" ? "text" : "JSON";
}

/**
 * What a text in a field means, or what is wrong with it.
 * @param {Kind} kind
 * @param {string} text
 * @returns {{ value?: unknown, error?: string }}
 */
export function understand(kind, text) {
  if (kind === "text") return { value: text };
  if (kind === "number") {
    const value = Number(text);
    return text.trim() === "" || !Number.isFinite(value) ? { error: "this is no number." } : { value };
  }
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: `this is no JSON (${error.message}).` };
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} [kindWanted]
 */
export function createField(name, value, kindWanted) {
  const kind = /** @type {Kind} */ (kindWanted ?? kindOf(value));
  fieldsMade += 1;
  const id = `field-${fieldsMade}`;
  const hint = `${id}-hint`;
  const input = /** @type {HTMLInputElement & HTMLTextAreaElement} */ (
    kind === "yes or no"
      ? h("input", { id, type: "checkbox" })
      : kind === "JSON"
        ? h("textarea", { id, rows: 3, spellcheck: "false", "aria-describedby": hint })
        : h("input", { id, autocomplete: "off", inputmode: kind === "number" ? "decimal" : "text", "aria-describedby": hint })
  );
  if (kind === "yes or no") input.checked = value === true;
  else input.value = kind === "JSON" ? JSON.stringify(value ?? null, null, 2) : String(value ?? "");
  const told = h("p", { class: "note", id: hint });
  const read = () => (kind === "yes or no" ? { value: input.checked } : understand(kind, input.value));
  input.addEventListener("input", () => {
    const { error } = read();
    say(told, error ?? "");
    input.setAttribute("aria-invalid", String(Boolean(error)));
  });
  return {
    node: h("div", { class: `field is-${kind === "yes or no" ? "choice" : kind.toLowerCase()}` }, h("label", { for: id }, name), input, told),
    read: /** @returns {{ value?: unknown, error?: string }} */ () => read(),
    focus: () => input.focus(),
  };
}
