// webext-storage: a typed wrapper of chrome.storage, in an extension alone.
import { StorageItem } from "webext-storage";

export async function open() {
  const item = new StorageItem("toggled");
  return {
    toggle: (number) => item.set({ number }),
    hear: (listener) => item.onChanged(({ number }) => listener(number)),
  };
}
