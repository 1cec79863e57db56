// RxDB on Dexie, the storage without a licence, with its own BroadcastChannel between tabs.
import { createRxDatabase } from "rxdb/plugins/core";
import { getRxStorageDexie } from "rxdb/plugins/storage-dexie";

const schema = {
  version: 0,
  primaryKey: "id",
  type: "object",
  properties: { id: { type: "string", maxLength: 100 }, checked: { type: "boolean" }, number: { type: "number" } },
};

export async function open() {
  const database = await createRxDatabase({ name: "bench", storage: getRxStorageDexie(), multiInstance: true });
  const { entities } = await database.addCollections({ entities: { schema } });
  return {
    fill: (count) =>
      entities.bulkInsert(Array.from({ length: count }, (_, n) => ({ id: `entity-${n}`, checked: false, number: n }))),
    size: async () => (await entities.find().exec()).filter(({ checked }) => checked === false).length,
    toggle: (number) => entities.upsert({ id: "toggled", number }),
    hear: (listener) => entities.findOne("toggled").$.subscribe((found) => found && listener(found.number)),
  };
}
