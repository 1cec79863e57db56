// TinyBase: a mergeable store kept in IndexedDB, tabs in step by its synchronizer over BroadcastChannel.
import { createMergeableStore } from "tinybase";
import { createIndexedDbPersister } from "tinybase/persisters/persister-indexed-db";
import { createBroadcastChannelSynchronizer } from "tinybase/synchronizers/synchronizer-broadcast-channel";

export async function open() {
  const store = createMergeableStore();
  const persister = createIndexedDbPersister(store, "bench-tinybase");
  await persister.load();
  await persister.startAutoSave();
  const synchronizer = createBroadcastChannelSynchronizer(store, "bench-tinybase");
  await synchronizer.startSync();
  return {
    async fill(count) {
      store.transaction(() => {
        for (let n = 0; n < count; n++) store.setRow("entities", `entity-${n}`, { checked: false, timestamp: n });
      });
      await persister.save();
    },
    size: () => store.getRowIds("entities").length,
    toggle: async (number) => store.setRow("entities", "toggled", { number }),
    hear: (listener) => store.addCellListener("entities", "toggled", "number", (_s, _t, _r, _c, number) => listener(number)),
  };
}
