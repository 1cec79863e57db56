// Builds elements. Guarantees that a string can only ever become text or a plain attribute: no markup is parsed, no
// script or style attribute is set, and links stay on this node. What comes from the server goes through here. What needs a grant
// (`data-needs`) that this browser lacks is not shown.

import { mayPress } from "./session.js";

const SVG = "http://www.w3.org/2000/svg";
const ADDRESSES = new Set(["href", "src", "action", "formaction"]);

/**
 * An HTML element with attributes (`on: { click }` for listeners) and children; strings and numbers become text nodes.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * A symbol of the sprite; decoration only, so it is hidden from assistive technology.
 * @param {string} id
 * @param {string} [className]
 */
export function icon(id, className) {
  return s("svg", { class: className, "aria-hidden": "true" }, s("use", { href: `/assets/icons.svg#${id}` }));
}

/**
 * Sets the text of a node only when it differs, so that selections and live regions are left in peace.
 * @param {Element} node
 * @param {string | number} value
 */
export function say(node, value) {
  const next = String(value);
  if (node.textContent !== next) node.textContent = next;
}

/** The element with this id; its absence is a mistake in the page. */
export function at(/** @type {string} */ id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element #${id}`);
  return node;
}

/**
 * Keeps the children of `container` in step with `items`, reusing nodes by key so that focus survives an update.
 * @template T
 * @param {Element} container
 * @param {T[]} items
 * @param {(item: T) => string | number} keyOf
 * @param {(item: T) => { node: Element, update(item: T): void }} create
 */
export function keyed(container, items, keyOf, create) {
  const rows = keptRows.get(container) ?? new Map();
  const next = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const row = rows.get(key) ?? create(item);
    row.update(item);
    next.set(key, row);
  }
  for (const [key, row] of rows) if (!next.has(key)) row.node.remove();
  let place = container.firstElementChild;
  for (const row of next.values()) {
    if (place && row.node === place) place = place.nextElementSibling;
    else container.insertBefore(row.node, place);
  }
  keptRows.set(container, next);
}

/** @type {WeakMap<Element, Map<any, { node: Element, update(item: any): void }>>} */
const keptRows = new WeakMap();

/**
 * @template {Element} E
 * @param {E} node
 * @param {Record<string, any>} [attributes]
 * @param {any[]} [children]
 */
function fill(node, attributes = {}, children = []) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (/^(on|style$|srcdoc$)/i.test(name)) throw new Error(`refused attribute ${name}`);
    else if (ADDRESSES.has(name) && !isLocal(value)) throw new Error(`refused address in ${name}`);
    else node.setAttribute(name, value === true ? "" : String(value));
    if (name === "data-needs" && !mayPress(String(value))) node.setAttribute("data-denied", "");
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** A fragment or an absolute path on this node; `//host` and every scheme are somewhere else. */
export function isLocal(/** @type {unknown} */ address) {
  return typeof address === "string" && /^(#|\/(?![/\\]))/.test(address);
}
