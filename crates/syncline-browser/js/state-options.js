// What callers give: options, ids and storages, checked before anything happens. What is wrong is an `invalid-argument` that
// names it.

import { SynclineError } from "./errors.js";
import { readToken } from "./secret.js";
import { ChromeStorage } from "./state-chrome.js";
import { SettingsSchema } from "./state-settings.js";
import { WebStorage } from "./state-web.js";
import { isPrintable } from "./state-wire.js";

const LONE_SURROGATE = /\p{Surrogate}/u;

export function readId(id) {
  if (typeof id !== "string" || id === "" || !isPrintable(id)) throw invalid("an id must be a text that is not empty");
  // On its way it would become a question mark, the same for all of them.
  if (LONE_SURROGATE.test(id)) throw invalid("an id must not have half a surrogate pair");
}

export function readOptions(options = {}) {
  if (typeof options !== "object" || options === null) throw invalid("options must be an object");
  const { name = "state", user } = options;
  if (typeof name !== "string" || name === "" || name.length > 100) throw invalid("name must be a text of 1 to 100 characters");
  const place = placeOf(name, user);
  const { storage = ownStorage(place, user), schemaVersion = 1, migrate, codec, bridge, settings, wasmUrl, signal } = options;
  if (!Number.isInteger(schemaVersion) || schemaVersion < 1) throw invalid("schemaVersion must be a whole number from 1");
  if (migrate !== undefined && typeof migrate !== "function") throw invalid("migrate must be a function");
  if (codec !== undefined && (typeof codec?.encode !== "function" || typeof codec.decode !== "function")) {
    throw invalid("codec must have functions encode() and decode()");
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid("signal must be an AbortSignal");
  for (const method of ["listen", "get", "set", "remove", "list", "send", "close"]) {
    if (typeof storage?.[method] !== "function") throw invalid(`storage must have a method ${method}()`);
  }
  return { place, storage, schemaVersion, migrate, codec, bridge: bridge && { ...readBridge(bridge), user }, settings: readSettings(settings), wasmUrl, signal };
}

function readSettings(settings = {}) {
  const { schema, check } = Object(settings);
  if (schema !== undefined && (typeof schema !== "object" || schema === null)) throw invalid("settings.schema must be an object");
  if (check !== undefined && typeof check !== "function") throw invalid("settings.check must be a function");
  return new SettingsSchema({ schema, check });
}

function readBridge({ url = "/", space, token }) {
  if (typeof space !== "string" || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(space)) {
    throw invalid("bridge.space must have 1 to 64 letters, digits, dots, underscores or dashes");
  }
  readToken(token);
  if (!URL.canParse(url, globalThis.location?.href)) throw invalid("bridge.url must be an address");
  return { url, space, token };
}

// What all contexts of one state have in common. No two users and no two names share one: an encoded user has no colon.
function placeOf(name, user) {
  if (user === undefined) return `syncline-state:${name}`;
  if (typeof user !== "string" || user === "" || user.length > 255 || LONE_SURROGATE.test(user)) {
    throw invalid("user must be a text of 1 to 255 characters");
  }
  return `syncline-state-of:${encodeURIComponent(user)}:${name}`;
}

// Removes everything that a state has stored, and closes the storage.
export async function erase(storage, isStateKey) {
  if (storage.erase !== undefined) return storage.erase(isStateKey);
  await storage.remove((await storage.list()).filter(isStateKey));
  storage.close();
}

// In an extension its storage, anywhere else the origin's.
function ownStorage(place, user) {
  if (globalThis.chrome?.storage?.local !== undefined) return new ChromeStorage(user);
  if (typeof indexedDB === "undefined" || typeof BroadcastChannel === "undefined") {
    throw new SynclineError("unsupported-environment", "openState() needs IndexedDB and BroadcastChannel, or a storage of your own");
  }
  return new WebStorage(place);
}

export function invalid(message) {
  return new SynclineError("invalid-argument", message);
}

// Registers; a storage that fails at that has no use.
export function listenTo(storage, heard) {
  try {
    storage.listen(heard);
  } catch (cause) {
    if (cause instanceof SynclineError) throw cause;
    throw new SynclineError("storage-failed", `the storage failed: ${cause?.message ?? cause}`, { cause });
  }
}
