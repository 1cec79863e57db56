// A cover cache of 2 MiB that is full, and inserts into it: node covers.mjs <stringify|lru-cache|lru-cache-lengths|syncline> <inserts>

import { readFile } from "node:fs/promises";

import { report, settle } from "./report.mjs";

const [contender, count] = [process.argv[2], Number(process.argv[3])];
const LIMIT_BYTES = 2 * 1024 * 1024;

/** A valid ISBN-13 for every number. */
function isbn(n) {
  const digits = `978${String(n % 1_000_000_000).padStart(9, "0")}`;
  const sum = [...digits].reduce((total, digit, at) => total + Number(digit) * (at % 2 === 0 ? 1 : 3), 0);
  return digits + ((10 - (sum % 10)) % 10);
}

const url = (n) =>
  `http://books.google.com/books/content?id=${n.toString(36).padStart(12, "A")}&printsec=frontcover&img=1&zoom=1&source=gbs_api`;

/** Fills what `insert` fills until it is full, then measures. */
function measure(insert, size) {
  let n = 0;
  for (let before = -1; size() > before; ) {
    before = size();
    for (let more = 0; more < 2000; more += 1) {
      insert(isbn(n), url(n));
      n += 1;
    }
  }
  // As an answer brings them: read from JSON.
  const inputs = JSON.parse(JSON.stringify(Array.from({ length: count }, (_, more) => [isbn(n + more), url(n + more)])));
  settle();
  const start = performance.now();
  for (const [key, value] of inputs) {
    insert(key, value);
  }
  return { ms: performance.now() - start, entries: size() };
}

async function lru(sizeCalculation) {
  const { LRUCache } = await import("lru-cache");
  const cache = new LRUCache({ maxSize: LIMIT_BYTES, sizeCalculation });
  return measure((key, value) => cache.set(key, value), () => cache.size);
}

const contenders = {
  // The whole is serialised to see whether it fits; while it does not, the first key goes.
  stringify() {
    const covers = {};
    let n = 0;
    while (JSON.stringify(covers).length < LIMIT_BYTES) {
      for (let more = 0; more < 200; more += 1) {
        covers[isbn(n)] = url(n);
        n += 1;
      }
    }
    const start = performance.now();
    for (let more = 0; more < count; more += 1) {
      covers[isbn(n + more)] = url(n + more);
      while (JSON.stringify(covers).length > LIMIT_BYTES) {
        delete covers[Object.keys(covers)[0]];
      }
    }
    return { ms: performance.now() - start, entries: Object.keys(covers).length };
  },

  // Weighed as it will be stored.
  "lru-cache": () => lru((value, key) => JSON.stringify([key, value]).length),

  // Weighed by what is known of these keys and values: nothing in them is escaped.
  "lru-cache-lengths": () => lru((value, key) => key.length + value.length + 7),

  async syncline() {
    const { initSync, openCoverCache } = await import("../../../web/pkg/bookshelf/covers.js");
    initSync(await readFile(new URL("../../../web/pkg/bookshelf/syncline_covers_bg.wasm", import.meta.url)));
    const cache = await openCoverCache({ storage: null });
    return measure((key, value) => cache.set(key, value), () => cache.size);
  },
};

const { ms, entries } = await contenders[contender]();
report(count, ms, { entries });
process.exit(0);
