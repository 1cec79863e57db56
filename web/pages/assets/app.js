// The frame of every page: theme button, connection state in words, version, token view, errors with a retry.
// Guarantees that a page reads afresh after every connection and after `lagged`, that one read runs at a time, and that
// old data stays on screen, marked as old, while the node is away. Leaves to the page what is read and shown.

import { serverNow } from "./api.js";
import { at, h, icon, say } from "./dom.js";
import { clock } from "./format.js";
import { openLive } from "./live.js";
import { showLogin } from "./login.js";

const THEMES = ["system", "light", "dark"];
const root = document.documentElement;

/**
 * Brings a page to life.
 * @param {{
 *   topics: ("viewer" | "job")[],
 *   read?: () => Promise<void>,
 *   on?: Record<string, (data: any) => void>,
 *   tick?: () => void,
 * }} page `read` loads and shows; `on` takes live events by name; `tick` runs every second while the page is visible
 * @returns {{ refresh: () => void }}
 */
export function openPage({ topics, read = async () => {}, on = {}, tick = () => {} }) {
  const frame = openFrame(() => live.retryNow());
  const refresh = oneAtATime(async () => {
    try {
      await read();
      frame.succeeded();
    } catch (error) {
      if (error?.needsToken) return frame.lock(() => live.retryNow());
      frame.failed(error, refresh);
    }
  });

  const live = openLive({
    topics,
    onState(state, retryAt) {
      if (state === "locked") return frame.lock(() => live.retryNow());
      frame.showState(state, retryAt);
      // Without a stream the figures can still be read once; a page is never left blank when only the stream is refused.
      if (state === "reconnecting" && !frame.hasData()) refresh();
    },
    onEvent(name, data) {
      if (name === "hello") frame.greet(data);
      if (name === "hello" || name === "lagged") return refresh();
      if (data !== null) on[name]?.(data);
    },
  });

  setInterval(() => {
    if (document.hidden) return;
    frame.tick();
    tick();
  }, 1_000);
  return { refresh };
}

/** Header, banner and messages around the page's own content. */
function openFrame(/** @type {() => void} */ retryNow) {
  const words = at("connection");
  const spoken = h("span");
  const seconds = h("span", { "aria-hidden": "true" });
  words.replaceChildren(h("span", {}, spoken, seconds));
  const main = at("main");
  const bannerText = h("p");
  const banner = h("div", { class: "banner", hidden: true }, bannerText, h("button", { class: "button small", type: "button", on: { click: retryNow } }, "Try now"));
  document.body.append(banner);
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  main.prepend(trouble);
  openThemeButton();
  // On a phone the navigation scrolls in itself; the current page must not start out of sight.
  document.querySelector(".site nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  let readAt = 0;
  let retryAt = 0;
  let locked = false;
  let away = "";

  function showSeconds() {
    const left = Math.ceil((retryAt - Date.now()) / 1_000);
    say(seconds, retryAt && left > 0 ? ` in ${left} s` : "");
  }

  return {
    showState(/** @type {string} */ state, /** @type {number} */ at) {
      if (state === "paused" || locked) return;
      // A retry in the middle of an outage is still the same outage.
      if (state !== "connecting" || !away) root.dataset.live = state;
      away = state === "reconnecting" || state === "offline" ? state : state === "connected" ? "" : away;
      retryAt = at;
      say(spoken, { connecting: "Connecting", connected: "Connected", reconnecting: "Reconnecting", offline: "Offline" }[state] ?? state);
      showSeconds();
      banner.hidden = !away || !readAt;
      const reason = away === "offline" ? "This machine is offline." : "The node does not answer.";
      say(bannerText, `${reason} The figures are from ${clock(readAt, true)}.`);
    },
    greet(/** @type {any} */ hello) {
      if (typeof hello?.version === "string") say(at("version"), hello.version.slice(0, 32));
      if (typeof hello?.node === "string") {
        for (const place of document.querySelectorAll("[data-node]")) say(place, hello.node.slice(0, 64));
      }
    },
    succeeded() {
      readAt = serverNow();
      trouble.hidden = true;
      root.dataset.loaded = "true";
    },
    failed(/** @type {any} */ error, /** @type {() => void} */ retry) {
      if (readAt && away) return;
      trouble.replaceChildren(error?.message ?? String(error), h("button", { class: "button small", type: "button", on: { click: retry } }, "Try again"));
      trouble.hidden = false;
    },
    lock(/** @type {() => void} */ unlocked) {
      if (locked) return;
      locked = true;
      root.dataset.live = "locked";
      say(spoken, "Token needed");
      say(seconds, "");
      banner.hidden = true;
      showLogin(main, () => {
        locked = false;
        away = "";
        unlocked();
      });
    },
    hasData: () => readAt > 0,
    tick: showSeconds,
  };
}

/** Cycles system, light, dark; the choice stays in this browser. */
function openThemeButton() {
  const button = /** @type {HTMLButtonElement} */ (at("theme"));
  const show = () => {
    const theme = root.dataset.theme ?? "system";
    button.replaceChildren(icon(`theme-${theme}`));
    button.setAttribute("aria-label", `Theme: ${theme}`);
    button.title = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
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

/** A call during a run makes exactly one more run after it, so that the last answer is never older than the last call. */
export function oneAtATime(/** @type {() => Promise<void>} */ work) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
    } finally {
      running = false;
    }
  };
}

