// Many entities in one record of IndexedDB, beside the records of their own: thousands of records take ten times as long to read
// as the same texts in one.
//
// The records of `keys` are the truth. A pack repeats some of them as they were; each later write of one is noted in its own
// transaction. Guarantees: a text is taken from a pack only if one pack has its key and no note does, and then it is what is stored.
// Packs may be dropped at any time. Notes are dropped by whoever packs everything anew, having read what they stand for; that is
// refused if another pack has come meanwhile. No transaction waits for its page.

export const PACKS = "packs";
export const NOTES = "notes";
// A write of so many entities is a pack as it is, and so many that had to be read one by one are worth a new one.
const PACK_FROM = 256;
// Every so many notes are made into one.
const NOTES_MAX = 256;
// Numbers of packs that stay taken, so that a late one is refused.
const NUMBERS_KEPT = 16;
const ENTITY = "trackedEntity:";
const LAST_ENTITY = "trackedEntity;";

// Within the transaction that writes `entries`. The request that notes them, if they are noted.
export function note(transaction, entries, mayPack) {
  const written = entries.filter(([key]) => key.startsWith(ENTITY));
  if (written.length === 0) return undefined;
  if (mayPack && written.length >= PACK_FROM && written.every(([, text]) => text !== undefined)) {
    transaction.objectStore(PACKS).add(written.flat());
    return undefined;
  }
  return transaction.objectStore(NOTES).add(written.map(([key]) => key));
}

// Within a transaction that reads: what packs say, by key; `undefined` where they cannot know.
export async function readPacks(transaction, answer) {
  const asked = [PACKS, NOTES].map((name) => answer(transaction.objectStore(name).getAll()));
  const [packs, notes] = await Promise.all(asked);
  const texts = new Map();
  for (const pack of packs) {
    for (let at = 0; at < pack.length; at += 2) texts.set(pack[at], texts.has(pack[at]) ? undefined : pack[at + 1]);
  }
  for (const keys of notes) for (const key of keys) texts.delete(key);
  return texts;
}

// After `noted` was stored: from time to time all notes up to it become one.
export async function gather(database, noted, answer) {
  if (noted === undefined || noted.result % NOTES_MAX !== 0) return;
  const notes = await readOnly(database, NOTES, (store) => answer(store.getAll()));
  const transaction = database.transaction(NOTES, "readwrite");
  const store = transaction.objectStore(NOTES);
  store.delete(IDBKeyRange.upperBound(noted.result));
  store.add([...new Set(notes.flat())]);
  transaction.commit();
}

// Packs everything in `store` anew, if `singles` keys had to be read one by one.
export async function pack(database, store, singles, answer) {
  if (singles < PACK_FROM) return;
  const reading = database.transaction([store, PACKS, NOTES], "readonly");
  const range = IDBKeyRange.bound(ENTITY, LAST_ENTITY);
  const entities = reading.objectStore(store);
  const asked = [entities.getAllKeys(range), entities.getAll(range), ...[PACKS, NOTES].map((name) => reading.objectStore(name).getAllKeys())];
  reading.commit();
  const [keys, texts, packs, notes] = await Promise.all(asked.map(answer));
  const all = keys.flatMap((key, at) => (typeof texts[at] === "string" ? [key, texts[at]] : []));
  const transaction = database.transaction([PACKS, NOTES], "readwrite");
  if (notes.length > 0) transaction.objectStore(NOTES).delete(IDBKeyRange.upperBound(notes.at(-1)));
  replace(transaction.objectStore(PACKS), packs, all);
  transaction.commit();
}

// Makes room. What is not packed is read one by one.
export async function unpack(database, answer) {
  const packs = await readOnly(database, PACKS, (store) => answer(store.getAllKeys()));
  const transaction = database.transaction(PACKS, "readwrite");
  replace(transaction.objectStore(PACKS), packs, []);
  transaction.commit();
  await new Promise((resolve) => (transaction.oncomplete = transaction.onabort = resolve));
}

function readOnly(database, name, read) {
  const transaction = database.transaction(name, "readonly");
  const found = read(transaction.objectStore(name));
  transaction.commit();
  return found;
}

// The packs with these numbers give way to one.
function replace(store, numbers, pack) {
  const last = numbers.at(-1) ?? 0;
  for (const number of numbers) if (number > last - NUMBERS_KEPT) store.put([], number);
  store.delete(IDBKeyRange.upperBound(last - NUMBERS_KEPT));
  // Last: it fails, and all of this with it, if there is another one by now.
  store.add(pack, last + 1);
}
