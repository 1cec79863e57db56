// Ten contexts that add to one index at the same moment, with Syncline and by hand.
// Guarantees that what is counted is what is stored: by a context that wrote nothing, after all have been answered.

import { openState } from "/pkg/state.js";
import { h } from "./dom.js";

export const RACE = "race";
const PLAIN = "syncline-race-plain";
const CONTEXTS = 10;
const EACH = 50;

/**
 * @param {Element} place for the frames
 * @param {(word: string) => void} tell
 * @returns {Promise<{ ours: number, plain: number }>}
 */
export async function race(place, tell) {
  await openState({ name: RACE }).reset();
  await inPlain("readwrite", (store) => store.clear());
  tell("Ten contexts are opened");
  const frames = Array.from({ length: CONTEXTS }, () =>
    /** @type {HTMLIFrameElement} */ (h("iframe", { src: "/state/frame?race", tabindex: "-1", title: "A context that writes" })),
  );
  try {
    const ready = hear(({ ready }) => ready === true);
    place.replaceChildren(...frames);
    await ready;
    for (const way of ["ours", "plain"]) {
      tell(way === "ours" ? "Writing with Syncline" : "Writing by hand");
      const done = hear((data) => data.done === way);
      frames.forEach((frame, context) => frame.contentWindow?.postMessage({ way, context, each: EACH }, location.origin));
      await done;
    }
  } finally {
    place.replaceChildren();
  }
  const counter = openState({ name: RACE });
  await counter.ready;
  const ours = counter.size;
  counter.close();
  const { ids } = (await inPlain("readonly", (store) => store.get("index"))) ?? { ids: [] };
  return { ours, plain: ids.length };
}

/** Reads the index, adds an id, stores it: what two contexts do at once, one of them loses. */
export async function addPlainly(/** @type {string[]} */ ids) {
  for (const id of ids) {
    const index = (await inPlain("readonly", (store) => store.get("index"))) ?? { ids: [] };
    await inPlain("readwrite", (store) => store.put({ ids: [...new Set([...index.ids, id])] }, "index"));
  }
}

/** Resolves when all contexts have said it. */
function hear(/** @type {(data: any) => boolean} */ isIt) {
  return new Promise((resolve) => {
    let heard = 0;
    const listen = (/** @type {MessageEvent} */ { origin, data }) => {
      if (origin !== location.origin || !isIt(data) || ++heard < CONTEXTS) return;
      removeEventListener("message", listen);
      resolve(undefined);
    };
    addEventListener("message", listen);
  });
}

/** @type {Promise<IDBDatabase> | undefined} */
let database;

/**
 * One question to the plain index.
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest} question
 * @returns {Promise<any>}
 */
async function inPlain(mode, question) {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(PLAIN, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("keys");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const transaction = (await database).transaction("keys", mode);
  const request = question(transaction.objectStore("keys"));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}
