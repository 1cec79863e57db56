// Shared state in `chrome.storage.local`, with messages of the extension as hints that are faster than its change events.
//
// Guarantees: listeners are registered at once, so that an event that starts a service worker is heard; every failure is
// told as what it means. An extension that was reloaded leaves its old pages behind without storage: they are told that it
// is `gone`, once. That nobody hears a message is no failure.

import { StorageFailure } from "./state-failure.js";

const AREA = "local";
// As the rules name them.
const ACTIONS = ["entityDelta", "entityPatch"];

export class ChromeStorage {
  #heard;

  listen(heard) {
    this.#heard = heard;
    chrome.storage.onChanged.addListener(this.#onChanged);
    chrome.runtime.onMessage.addListener(this.#onMessage);
  }

  async get(keys) {
    const found = await this.#ask((area) => area.get(keys));
    return keys.map((key) => [key, asText(found[key])]);
  }

  async set(entries) {
    const contents = Object.fromEntries(entries.map(([key, text]) => [key, JSON.parse(text)]));
    await this.#ask((area) => area.set(contents));
  }

  async remove(keys) {
    await this.#ask((area) => area.remove(keys));
  }

  async list() {
    return this.#ask(async (area) => (area.getKeys ? area.getKeys() : Object.keys(await area.get(null))));
  }

  // `acked`, `no-receiver`, or nothing known. A receiver that never answers leaves the promise open for ever, which
  // costs nothing: the rules have a time-out of their own.
  async send(text) {
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
    for (const key of Object.keys(changes)) {
      if (this.#heard.isOurs(key)) entries.push([key, asText(changes[key].newValue)]);
    }
    if (entries.length > 0) this.#heard.changed(entries);
  };

  #onMessage = (message, sender, respond) => {
    if (!ACTIONS.includes(message?.action)) return;
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
