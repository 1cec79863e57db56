// Whether a tab is still there, asked of the browser itself: a closing page has no time for a word, and a crashed one none.
//
// A tab that holds something keeps a database open under the name of its hold; nobody can delete that database while it is
// open. Guarantees: whenGone() settles only after the connection is closed, by its tab or by the end of it. A tab that is
// frozen keeps its connection. A browser may close the connection of a tab that lives, as when the site's data are cleared:
// then those who wait believe it gone, so that it has to give up what it holds. Where IndexedDB fails there is no lifeline,
// and holds end with their leases.

const NAME = "syncline-alive:";

/**
 * Settles with the function that lets go, or undefined. The name must be one that nobody used before. `lost` is called when
 * the browser has closed the connection: what is held under this name is no longer held.
 */
export function keepLifeline(name, lost) {
  return new Promise((resolve) => {
    try {
      const request = indexedDB.open(NAME + name);
      request.onerror = () => resolve(undefined);
      // Nothing is done on `versionchange`: that is somebody who waits.
      request.onsuccess = () => {
        request.result.onclose = lost;
        resolve(() => {
          request.result.close();
          indexedDB.deleteDatabase(NAME + name);
        });
      };
    } catch {
      resolve(undefined);
    }
  });
}

/** Only for a name whose owner said that it keeps a lifeline: where there is none, nobody seems to be there. */
export function whenGone(name) {
  return new Promise((resolve) => {
    try {
      indexedDB.deleteDatabase(NAME + name).onsuccess = () => resolve();
    } catch {
      // The lease ends by itself.
    }
  });
}
