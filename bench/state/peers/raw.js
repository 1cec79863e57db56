// The limit: the platform's own event after one write. `storage` of localStorage in a page, `storage.onChanged` in an
// extension.
export async function open() {
  const area = globalThis.chrome?.storage?.local;
  return {
    toggle: async (number) => (area ? area.set({ toggled: { number } }) : localStorage.setItem("toggled", String(number))),
    hear(listener) {
      if (area) chrome.storage.onChanged.addListener((changes) => changes.toggled && listener(changes.toggled.newValue.number));
      else addEventListener("storage", ({ key, newValue }) => key === "toggled" && listener(Number(newValue)));
    },
  };
}
