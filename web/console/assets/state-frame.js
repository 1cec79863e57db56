// A context of its own inside the state page: shows the checklist, or with `?race` writes when it is told to.
// Guarantees that it obeys its own origin alone.

import { openState } from "/pkg/state.js";
import { at } from "./dom.js";
import { mountChecklist, settings } from "./state-checklist.js";
import { addPlainly, RACE } from "./state-race.js";

// The page's choice is stored, and followed here without a reload.
addEventListener("storage", ({ key, newValue }) => {
  if (key !== "syncline.theme") return;
  if (newValue === "light" || newValue === "dark") document.documentElement.dataset.theme = newValue;
  else delete document.documentElement.dataset.theme;
});

if (new URLSearchParams(location.search).has("race")) race();
else mountChecklist(at("checklist"), openState({ settings }));

async function race() {
  const state = openState({ name: RACE });
  await state.ready;
  addEventListener("message", async ({ origin, data }) => {
    if (origin !== location.origin) return;
    const ids = Array.from({ length: data.each }, (_, number) => `${data.context}-${number}`);
    if (data.way === "ours") await Promise.all(ids.map((id) => state.put(id, { context: data.context })));
    else await addPlainly(ids);
    parent.postMessage({ done: data.way }, location.origin);
  });
  parent.postMessage({ ready: true }, location.origin);
}
