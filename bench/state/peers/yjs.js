// Yjs kept by y-indexeddb. It has no provider between tabs of its own without a server, so updates go over a
// BroadcastChannel, as y-websocket does it.
import { IndexeddbPersistence } from "y-indexeddb";
import * as Y from "yjs";

export async function open() {
  const doc = new Y.Doc();
  const persistence = new IndexeddbPersistence("bench-yjs", doc);
  await persistence.whenSynced;
  const entities = doc.getMap("entities");
  const channel = new BroadcastChannel("bench-yjs");
  doc.on("update", (update, origin) => origin !== channel && origin !== persistence && channel.postMessage(update));
  channel.onmessage = ({ data }) => Y.applyUpdate(doc, data, channel);
  // It does not say when an update is stored: whoever asks for the same updates is answered after.
  const stored = () =>
    new Promise((resolve, reject) => {
      const asked = persistence.db.transaction(["updates"], "readonly").objectStore("updates").count();
      [asked.onsuccess, asked.onerror] = [() => resolve(), () => reject(asked.error)];
    });
  return {
    async fill(count) {
      doc.transact(() => {
        for (let n = 0; n < count; n++) entities.set(`entity-${n}`, { checked: false, timestamp: n });
      });
      await stored();
    },
    size: () => [...entities.values()].filter(({ checked }) => checked === false).length,
    async toggle(number) {
      entities.set("toggled", { number });
      await stored();
    },
    hear: (listener) => entities.observe(() => entities.get("toggled") && listener(entities.get("toggled").number)),
  };
}
