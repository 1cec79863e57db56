// The runtime surface: the checklist in a frame of the extension's own origin, on any page.
//
// Guarantees that it shows itself only in the frame that the content script has made, and that it goes quiet when the
// extension was reloaded under it: nothing is shown, said or thrown from then on, and the content script takes it away.

import { mountChecklist } from "./checklist.js";
import { openControl } from "./control.js";
import "./names.js";
import { openChecklist } from "./open.js";
import { followPlace, nextCorner, writePlace } from "./surface.js";
import { applyTheme } from "./theme.js";

const { SURFACE_READY } = globalThis.synclineNames;

const [expand, collapse, move, settings, panel, progress] = ["expand", "collapse", "move", "settings", "panel", "progress"].map(
  (id) => document.getElementById(id),
);
let place;

if (await isOurFrame()) start();

async function isOurFrame() {
  try {
    const tab = await chrome.tabs.getCurrent();
    const message = { action: SURFACE_READY, token: location.hash.slice(1) };
    return (await chrome.tabs.sendMessage(tab.id, message, { frameId: 0 })) === true;
  } catch {
    // Nobody is there to have made it.
    return false;
  }
}

function start() {
  const state = openChecklist();
  const checklist = mountChecklist(document.getElementById("checklist"), state, showProgress);
  state.subscribe((event) => {
    if (event.type === "settings") applyTheme(event.settings);
    if (event.type === "closed" && event.reason === "gone") document.body.hidden = true;
  });
  followPlace((now) => {
    const wasCollapsed = place?.collapsed;
    place = now;
    showPlace();
    document.body.hidden = false;
    // Whoever has opened it here goes on here; in all other tabs nothing takes the focus.
    if (document.hasFocus() && wasCollapsed !== undefined && wasCollapsed !== now.collapsed) {
      if (now.collapsed) expand.focus();
      else checklist.focus();
    }
  }).catch(() => {});
  expand.addEventListener("click", () => put({ collapsed: false }));
  collapse.addEventListener("click", () => put({ collapsed: true }));
  move.addEventListener("click", () => put({ corner: nextCorner(place.corner) }));
  settings.addEventListener("click", () => openControl().catch(() => {}));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !place.collapsed) put({ collapsed: true });
  });
}

function put(changes) {
  // Without its extension there is nothing to write to; with it, a full store has no room for the place either, and the
  // surface stays as it is.
  writePlace({ ...place, ...changes }).catch(() => {});
}

function showPlace() {
  expand.hidden = !place.collapsed;
  panel.hidden = place.collapsed;
}

function showProgress({ size, checked }) {
  progress.textContent = size === 0 ? "Empty" : `${checked}/${size}`;
  expand.setAttribute("aria-label", size === 0 ? "Open the checklist, which is empty" : `Open the checklist, ${checked} of ${size} done`);
}
