// Who this browser is to the node, and what it may do. Guarantees that nothing is offered that would be refused: what needs a grant is
// hidden where it is missing (CN-05). The node decides; this only keeps a page from promising what the node will not do.

import { ask } from "./api.js";

/**
 * @typedef {{ required: boolean, authenticated: boolean, kind?: "owner" | "key" | "person", name?: string, subject?: string,
 *   grants?: string[], endsAt?: number }} Session
 */

/** What a reader of a topic needs, where that is not `read` of a system of the same name. */
const TOPICS = /** @type {Record<string, [system: string, verb: string]>} */ ({ viewer: ["viewer", "count"], room: ["viewer", "count"], people: ["viewer", "see"], lock: ["lock", "see"] });

/** Entries of the menu that show nothing to whoever may do none of these. */
const MENU = /** @type {Record<string, string[]>} */ ({
  "/lock": ["lock:?:see"],
  "/state": ["state:?:read"],
  "/kv": ["kv:?:read"],
  "/nodes": ["node:*:read"],
  "/queue": ["queue:?:read"],
  "/viewer": ["viewer:?:count", "job:?:read"],
  "/outbox": ["outbox:*:read", "entity:?:read"],
  "/audit": ["audit:*:read"],
  "/shelf": ["shelf:*:read"],
  "/calls": ["entity:call_log:read"],
  "/gallery": ["gallery:*:read"],
});

/** @type {Promise<Session | null> | null} */
let asking = null;
/** @type {Session | null} */
let known = null;

/** Who this browser is; asked once, and again after `forget`. `null`: the node did not say. */
export async function whoAmI() {
  asking ??= ask("/api/session").catch(() => null);
  known = await asking;
  if (known === null) asking = null;
  return known;
}

/** Somebody signed in or out. */
export function forget() {
  asking = null;
  known = null;
}

/**
 * Whether this browser may do something, as far as it is known. Without a name: whether there may be any such thing; with `*`: to all of them.
 * @param {string} system
 * @param {string} verb
 * @param {string} [name]
 */
export function may(system, verb, name) {
  if (!known?.grants) return true;
  return known.grants.some((grant) => allows(grant, system, verb, name));
}

/** Whether events of a topic would be told. */
export function mayHear(/** @type {string} */ topic) {
  const [system, verb] = TOPICS[topic] ?? [topic, "read"];
  return may(system, verb);
}

/**
 * Whether one grant, as in `lock:doc:*:hold,see`, allows it. Pure.
 * @param {string} grant
 * @param {string} system
 * @param {string} verb
 * @param {string} [name]
 */
export function allows(grant, system, verb, name) {
  const [first, last] = [grant.indexOf(":"), grant.lastIndexOf(":")];
  if (first < 0 || first === last || grant.slice(0, first) !== system) return false;
  if (!grant.slice(last + 1).split(",").includes(verb)) return false;
  const pattern = grant.slice(first + 1, last);
  if (name === undefined) return true;
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** Whether what an element needs (`data-needs="outbox:*:manage"`, name `?` for any) is granted. */
export function mayPress(/** @type {string} */ needs) {
  const [first, last] = [needs.indexOf(":"), needs.lastIndexOf(":")];
  const name = needs.slice(first + 1, last);
  return may(needs.slice(0, first), needs.slice(last + 1), name === "?" ? undefined : name);
}

/** Hides what may not be pressed, in all of the page. */
export function hideForbidden(/** @type {ParentNode} */ root = document) {
  for (const element of root.querySelectorAll("[data-needs]")) {
    element.toggleAttribute("data-denied", !mayPress(/** @type {HTMLElement} */ (element).dataset.needs ?? ""));
  }
  for (const [path, needs] of Object.entries(MENU)) {
    document.querySelector(`.site nav a[href="${path}"]`)?.parentElement?.toggleAttribute("data-denied", !needs.some(mayPress));
  }
}

/** The answer, or `fallback` where this browser may not have it. */
export async function askIf(/** @type {boolean} */ isAllowed, /** @type {string} */ path, /** @type {any} */ fallback) {
  return isAllowed ? ask(path) : fallback;
}

/** Who somebody is, in a word or two. */
export function nameOf(/** @type {Session} */ { kind, name, subject }) {
  if (kind === "owner") return "owner";
  return kind === "person" ? `${subject ?? name}` : `${name}`;
}
