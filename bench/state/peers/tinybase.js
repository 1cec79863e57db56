// TinyBase: a mergeable store kept in IndexedDB, tabs in step by its synchronizer over BroadcastChannel.
import { createMergeableStore } from "tinybase";
import { createIndexedDbPersister } from "tinybase/persisters/persister-indexed-db";
import { createBroadcastChannelSynchronizer } from "tinybase/synchronizers/synchronizer-broadcast-channel";

// Of `Status` in tinybase/persisters, which would bring all persisters along.
const IDLE = 0;

export async function open() {
  const store = createMergeableStore();
  const persister = createIndexedDbPersister(store, "bench-tinybase");
  await persister.load();
  await persister.startAutoSave();
  const synchronizer = createBroadcastChannelSynchronizer(store, "bench-tinybase");
  await synchronizer.startSync();
  // It is saved automatically, and idle after.
  const saved = () =>
    new Promise((resolve) => {
      const listener = persister.addStatusListener(() => look());
      const look = () => persister.getStatus() === IDLE && resolve(persister.delListener(listener));
      look();
    });
  return {
    async fill(count) {
      store.transaction(() => {
        for (let n = 0; n < count; n++) store.setRow("entities", `entity-${n}`, { checked: false, timestamp: n });
      });
      await persister.save();
    },
    size: () => Object.values(store.getTable("entities")).filter(({ checked }) => checked === false).length,
    async toggle(number) {
      store.setRow("entities", "toggled", { number });
      await saved();
    },
    hear: (listener) => store.addCellListener("entities", "toggled", "number", (_s, _t, _r, _c, number) => listener(number)),
  };
}
