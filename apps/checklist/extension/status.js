// What is stored and how: counts, room, layout, what was set aside; and the three things one can do about it.

import { element } from "./dom.js";
import "./names.js";
import { noticeOf, sentenceOf, sizeOf } from "./words.js";

const { SCHEMA_VERSION } = globalThis.synclineNames;
// Counting what is stored reads all of it; a burst of changes is counted once.
const COUNT_AFTER_MS = 1_000;
const NOTICES_MAX = 50;

export function mountStatus(state) {
  const at = (id) => document.getElementById(id);
  const layouts = [...at("layout").querySelectorAll("input")];
  const dialog = at("reset-dialog");
  const seen = new Set();
  let timer;
  // The layout that was chosen, until it is the one or was refused: the choice must not jump back meanwhile.
  let wanted;

  at("status-schema").textContent = SCHEMA_VERSION;
  state.subscribe((event) => {
    if (event.type === "report") note(event);
    else later();
  });
  chrome.storage.onChanged.addListener((_, area) => area === "local" && later());
  later();

  for (const input of layouts) {
    input.addEventListener("change", () => choose(input.value));
  }
  at("sweep").addEventListener("click", () => act(state.sweep(), "Looked. What no index lists is removed in a minute."));
  at("reset").addEventListener("click", () => {
    at("reset-words").textContent = `${count(state.size)} will be gone in every tab. Settings and everything else stay.`;
    dialog.returnValue = "cancel";
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "reset") act(state.reset(), "All entries were removed.");
  });

  function choose(layout) {
    wanted = layout;
    const settled = () => (wanted = wanted === layout ? undefined : wanted);
    act(state.setLayout(layout).finally(settled), `Stored as layout ${layout} now.`);
  }

  async function act(work, done) {
    say("", "quiet");
    try {
      await work;
      say(done, "good");
    } catch (error) {
      say(sentenceOf(error), "bad");
    }
    show();
  }

  function later() {
    timer ??= setTimeout(() => {
      timer = undefined;
      show();
    }, COUNT_AFTER_MS);
  }

  async function show() {
    at("status-entries").textContent = state.isReady ? state.size.toLocaleString("en") : "–";
    at("status-layout").textContent = state.layout ?? "–";
    for (const input of layouts) {
      input.checked = input.value === (wanted ?? state.layout);
      input.disabled = !state.isReady;
    }
    at("reset").disabled = !state.isReady || state.size === 0;
    try {
      const area = chrome.storage.local;
      const used = await area.getBytesInUse(null);
      at("status-used").textContent = `${sizeOf(used)} of ${sizeOf(area.QUOTA_BYTES)}`;
      at("status-meter").value = used / area.QUOTA_BYTES;
    } catch {
      // The extension was reloaded, and this page goes with it.
    }
  }

  function note(event) {
    const notice = noticeOf(event);
    if (notice === null) return;
    const key = `${notice.text}\n${notice.detail}`;
    if (seen.has(key) || seen.size >= NOTICES_MAX) return;
    seen.add(key);
    at("notices").hidden = false;
    const detail = notice.detail === undefined ? [] : [element("span", { class: "mono" }, notice.detail)];
    at("notice-list").append(element("li", {}, ...detail, element("span", { class: "quiet" }, notice.text)));
  }

  function say(text, tone) {
    at("storage-message").textContent = text;
    at("storage-message").dataset.tone = tone;
  }
}

function count(size) {
  return size === 1 ? "One entry" : `${size.toLocaleString("en")} entries`;
}
