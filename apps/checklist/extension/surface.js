// How the runtime surface lies on pages: read, written and heard of by every frame, so that all of them agree.

import "./names.js";

const { PLACE_KEY, CORNERS } = globalThis.synclineNames;

/** Contents of the store, whatever they are, as a place: `{ collapsed, corner }`. */
export function readPlace(stored) {
  const { collapsed, corner } = Object(stored);
  return { collapsed: collapsed !== false, corner: CORNERS.includes(corner) ? corner : CORNERS[0] };
}

export function nextCorner(corner) {
  return CORNERS[(CORNERS.indexOf(corner) + 1) % CORNERS.length];
}

/** Calls `listener` with the place, now and after every change. */
export async function followPlace(listener) {
  chrome.storage.onChanged.addListener((changes, area) => {
    if (area === "local" && PLACE_KEY in changes) listener(readPlace(changes[PLACE_KEY].newValue));
  });
  listener(readPlace((await chrome.storage.local.get(PLACE_KEY))[PLACE_KEY]));
}

export async function writePlace(place) {
  await chrome.storage.local.set({ [PLACE_KEY]: place });
}
