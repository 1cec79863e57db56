// The frame of every page: connection state in words, version, messages, theme button, token view.
// Guarantees that old figures stay on screen, marked as old, while the node is away, and that nothing moves when it goes
// or comes back. Leaves to app.js when to read and when to connect.

import { ask, serverNow } from "./api.js";
import { at, h, icon, say } from "./dom.js";
import { clock, zone } from "./format.js";
import { t } from "./language.js";
import { showLogin } from "./login.js";
import { forget, nameOf, whoAmI } from "./session.js";

const THEMES = ["system", "light", "dark"];
const WORDS = { connecting: t("Connecting", "接続中"), connected: t("Connected", "接続済み"), reconnecting: t("Reconnecting", "再接続中"), offline: t("Offline", "オフライン") };
const NAME_MAX = 64;
const root = document.documentElement;

export class Frame {
  #main = at("main");
  #spoken = h("span");
  // Not spoken: a screen reader would read out every second.
  #seconds = h("span", { "aria-hidden": "true" });
  #bannerText = h("p");
  #banner;
  #trouble = h("p", { class: "error", role: "alert", hidden: true });
  #readAt = 0;
  #retryAt = 0;
  #away = "";
  #locked = false;

  constructor(/** @type {() => void} */ retryNow) {
    at("connection").replaceChildren(h("span", {}, this.#spoken, this.#seconds));
    this.#banner = h("div", { class: "banner", hidden: true }, this.#bannerText, button(t("Try now", "今すぐ試す"), retryNow));
    document.body.append(this.#banner);
    this.#main.prepend(this.#trouble);
    openThemeButton();
    openSignOut();
    showCurrent();
    addEventListener("resize", showCurrent);
  }

  /** Whether anything has been read yet. */
  get hasData() {
    return this.#readAt > 0;
  }

  /** @param {import("./live.js").LiveState} state @param {number} retryAt when the next attempt is made, or 0 */
  showState(state, retryAt) {
    if (state === "paused" || state === "locked" || this.#locked) return;
    if (state === "reconnecting" || state === "offline") this.#away = state;
    if (state === "connected") this.#away = "";
    // A retry in the middle of an outage is still the same outage.
    root.dataset.live = this.#away || state;
    this.#retryAt = retryAt;
    say(this.#spoken, WORDS[state]);
    this.tick();
    this.#banner.hidden = !this.#away || !this.hasData;
    const reason = this.#away === "offline" ? t("This machine is offline.", "この端末はオフラインです。") : t("The node does not answer.", "ノードが応答しません。");
    const from = `${clock(this.#readAt, true)} ${zone(this.#readAt)}`;
    say(this.#bannerText, `${reason} ${t(`The figures are from ${from}.`, `値は ${from} のものです。`)}`);
  }

  /** Shows who answered. */
  greet(/** @type {any} */ hello) {
    say(at("version"), String(hello?.version ?? "").slice(0, NAME_MAX));
    for (const place of document.querySelectorAll("[data-node]")) {
      say(place, String(hello?.node ?? "").slice(0, NAME_MAX));
    }
  }

  /** A read went well. */
  succeeded() {
    const isFirst = !this.hasData;
    this.#readAt = serverNow();
    this.#trouble.hidden = true;
    root.dataset.loaded = "true";
    // Until now what the address points to had no place.
    if (isFirst && location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }

  /** A read failed. During an outage the banner already says so. */
  failed(/** @type {any} */ error, /** @type {() => void} */ retry) {
    if (this.hasData && this.#away) return;
    this.#trouble.replaceChildren(error?.message ?? String(error), button(t("Try again", "再試行"), retry));
    this.#trouble.hidden = false;
  }

  /** Puts the token view in place of the page until the node has accepted a token. */
  lock(/** @type {() => void} */ unlocked) {
    if (this.#locked) return;
    this.#locked = true;
    root.dataset.live = "locked";
    say(this.#spoken, t("Token needed", "トークンが必要"));
    say(this.#seconds, "");
    this.#banner.hidden = true;
    showLogin(this.#main, () => {
      this.#locked = false;
      this.#away = "";
      forget();
      showWho();
      unlocked();
    });
  }

  /** Runs every second. */
  tick() {
    const left = Math.ceil((this.#retryAt - Date.now()) / 1_000);
    say(this.#seconds, left > 0 && !this.#locked ? t(` in ${left} s`, ` ${left} 秒後`) : "");
  }
}

/** On a phone the navigation scrolls in itself; the current page must not be out of sight, whichever way the phone is held. */
function showCurrent() {
  const current = /** @type {HTMLElement | null} */ (document.querySelector(".site nav [aria-current]"));
  const nav = current?.closest("nav");
  const whole = document.querySelector(".site nav");
  // Entries that are out of sight fade out instead of being cut.
  whole?.toggleAttribute("data-more", whole.scrollWidth > whole.clientWidth + 1);
  // The navigation alone: the page stays where its reader is.
  if (current && nav) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
}

/** Offered where this browser has a session of a node that asks for a token. */
async function openSignOut() {
  const leave = /** @type {HTMLButtonElement} */ (at("sign-out"));
  leave.addEventListener("click", async () => {
    leave.disabled = true;
    await ask("/api/session", { method: "DELETE" }).catch(() => {});
    location.reload();
  });
  await showWho();
}

/** Who is signed in, and the way out. */
async function showWho() {
  const session = await whoAmI();
  const isSignedIn = session?.required === true && session.authenticated;
  at("sign-out").hidden = !isSignedIn;
  at("who").hidden = !isSignedIn;
  if (!isSignedIn || session === null) return;
  say(at("who"), nameOf(session).slice(0, NAME_MAX));
  // The navigation has less room now.
  showCurrent();
  at("who").setAttribute("aria-label", t(`Signed in as ${session.kind === "owner" ? "the owner" : `${session.kind} ${nameOf(session)}`.slice(0, NAME_MAX)}`, `${nameOf(session).slice(0, NAME_MAX)} としてサインイン中`));
}

/** Cycles system, light, dark; the choice stays in this browser. */
function openThemeButton() {
  const cycle = /** @type {HTMLButtonElement} */ (at("theme"));
  const show = () => {
    const theme = /** @type {"system" | "light" | "dark"} */ (root.dataset.theme ?? "system");
    cycle.replaceChildren(icon(`theme-${theme}`));
    const words = t(`Theme: ${theme}`, `テーマ：${{ system: "システム", light: "明るい", dark: "暗い" }[theme]}`);
    cycle.setAttribute("aria-label", words);
    cycle.title = words;
  };
  cycle.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    try {
      localStorage.setItem("syncline.theme", theme);
    } catch {
      // Storage may be forbidden: the choice then lasts as long as the page.
    }
    show();
  });
  show();
}

function button(/** @type {string} */ words, /** @type {() => void} */ click) {
  return h("button", { class: "button small", type: "button", on: { click } }, words);
}
