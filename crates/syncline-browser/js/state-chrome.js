// Shared state in `chrome.storage.local`, with messages of the extension as hints that are faster than its change events.
//
// Guarantees: listeners are registered at once, so that an event that starts a service worker is heard; every failure is
// told as what it means. An extension that was reloaded leaves its old pages behind without storage: they are told that it
// is `gone`, once. That nobody hears a message is no failure. Where the state is a user's, its keys carry that name, and
// messages, which do not, are neither sent nor heard.

import { StorageFailure } from "./state-failure.js";

const AREA = "local";
// As the rules name them.
const ACTIONS = ["entityDelta", "entityPatch"];
// Written for a moment when everything is erased: the other contexts would write again what they know.
const ERASED_KEY = "syncErased";

export class ChromeStorage {
  #heard;
  #prefix;

  constructor(user) {
    this.#prefix = user === undefined ? "" : `user:${encodeURIComponent(user)}:`;
  }

  listen(heard) {
    this.#heard = heard;
    chrome.storage.onChanged.addListener(this.#onChanged);
    chrome.runtime.onMessage.addListener(this.#onMessage);
  }

  async get(keys) {
    const found = await this.#ask((area) => area.get(this.#named(keys)));
    return keys.map((key) => [key, asText(found[this.#prefix + key])]);
  }

  async set(entries) {
    const contents = Object.fromEntries(entries.map(([key, text]) => [this.#prefix + key, JSON.parse(text)]));
    await this.#ask((area) => area.set(contents));
  }

  async remove(keys) {
    await this.#ask((area) => area.remove(this.#named(keys)));
  }

  async list() {
    const keys = await this.#ask(async (area) => (area.getKeys ? area.getKeys() : Object.keys(await area.get(null))));
    return keys.flatMap((key) => this.#ours(key) ?? []);
  }

  async erase(isOurs) {
    await this.set([[ERASED_KEY, "true"]]);
    await this.remove([...(await this.list()).filter(isOurs), ERASED_KEY]);
    this.close();
  }

  // `acked`, `no-receiver`, or nothing known. A receiver that never answers leaves the promise open for ever, which
  // costs nothing: the rules have a time-out of their own.
  async send(text) {
    if (this.#prefix !== "") return "acked";
    try {
      const reply = await chrome.runtime.sendMessage(JSON.parse(text));
      return reply?.acknowledged === true ? "acked" : undefined;
    } catch (cause) {
      if (isGone(cause)) throw new StorageFailure("gone", cause);
      return "no-receiver";
    }
  }

  close() {
    try {
      chrome.storage.onChanged.removeListener(this.#onChanged);
      chrome.runtime.onMessage.removeListener(this.#onMessage);
    } catch {
      // Without its extension there is nothing to be removed from.
    }
  }

  #named(keys) {
    return keys.map((key) => this.#prefix + key);
  }

  // A key as the rules know it, if it is of this user.
  #ours(name) {
    return name.startsWith(this.#prefix) ? name.slice(this.#prefix.length) : undefined;
  }

  async #ask(question) {
    try {
      return await question(chrome.storage[AREA]);
    } catch (cause) {
      if (isGone(cause)) throw new StorageFailure("gone", cause);
      throw new StorageFailure(/quota/i.test(cause?.message) ? "quota" : "other", cause);
    }
  }

  #onChanged = (changes, area) => {
    if (area !== AREA) return;
    const entries = [];
    for (const name of Object.keys(changes)) {
      const key = this.#ours(name);
      if (key === ERASED_KEY && changes[name].newValue === true) return this.#heard.erased();
      if (key !== undefined && this.#heard.isOurs(key)) entries.push([key, asText(changes[name].newValue)]);
    }
    if (entries.length > 0) this.#heard.changed(entries);
  };

  #onMessage = (message, sender, respond) => {
    if (this.#prefix !== "" || !ACTIONS.includes(message?.action)) return;
    this.#heard.message(JSON.stringify(message));
    respond({ acknowledged: true });
  };
}

function isGone(cause) {
  return globalThis.chrome?.runtime?.id === undefined || /context invalidated/i.test(cause?.message);
}

function asText(contents) {
  return contents === undefined ? undefined : JSON.stringify(contents);
}
