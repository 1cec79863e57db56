// Syncline: in a page over IndexedDB and a BroadcastChannel, in an extension over chrome.storage.local.
import { openState } from "../../../web/pkg/state.js";

export async function open() {
  const state = openState({ wasmUrl: "/syncline_state_bg.wasm" });
  await state.ready;
  return {
    async fill(count) {
      await Promise.all(Array.from({ length: count }, (_, n) => state.put(`entity-${n}`, { checked: false, timestamp: n })));
    },
    size: () => [...state.getSnapshot().entities.values()].filter(({ checked }) => checked === false).length,
    toggle: (number) => state.put("toggled", { number }),
    hear: (listener) => state.subscribe("toggled", ({ value }) => value && listener(value.number)),
  };
}
