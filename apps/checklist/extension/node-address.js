// The address of the user's node, a setting of this browser alone. Guarantees that only a checked address is stored, and
// that whatever is found in the store is checked again before use.

import "./names.js";

const { NODE_ADDRESS_KEY } = globalThis.synclineNames;

export const DEFAULT_NODE_ADDRESS = "http://127.0.0.1:3000/";

const ADDRESS_MAX_CHARS = 2_000;

/** The stored address, or the default where none or a damaged one is stored. */
export async function readNodeAddress() {
  const stored = (await chrome.storage.local.get(NODE_ADDRESS_KEY))[NODE_ADDRESS_KEY];
  const checked = checkNodeAddress(stored ?? DEFAULT_NODE_ADDRESS);
  return checked.address ?? DEFAULT_NODE_ADDRESS;
}

export async function writeNodeAddress(address) {
  await chrome.storage.local.set({ [NODE_ADDRESS_KEY]: address });
}

/** Calls `listener` with the address after every change, wherever it was made. */
export function onNodeAddress(listener) {
  chrome.storage.onChanged.addListener(async (changes, area) => {
    if (area === "local" && NODE_ADDRESS_KEY in changes) listener(await readNodeAddress());
  });
}

/** `{ address }` in its normal form, or `{ problem }` as a sentence for the user. */
export function checkNodeAddress(text) {
  if (typeof text !== "string" || text.trim() === "") return { problem: "Enter the address of your node." };
  if (text.length > ADDRESS_MAX_CHARS) return { problem: `At most ${ADDRESS_MAX_CHARS} characters are allowed.` };
  let url;
  try {
    url = new URL(text.trim());
  } catch {
    return { problem: `This is not an address. It looks like ${DEFAULT_NODE_ADDRESS}` };
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return { problem: "The address must begin with http:// or https://." };
  if (url.username || url.password) return { problem: "An address must not hold a name or password." };
  return { address: `${url.origin}/` };
}
