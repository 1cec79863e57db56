// The shelf page: books in, data and covers arriving, and the queues they pass through, live.
// Wires the parts together; each part shows one thing and knows nothing of the others.

import { ask } from "/assets/api.js";
import { openPage } from "/assets/app.js";
import { merge } from "/assets/news.js";
import { openBooks } from "./shelf-books.js";
import { openQueues } from "/assets/queues.js";
import { isOfShelf, openPipeline } from "./shelf-pipeline.js";
import { openScan } from "./shelf-scan.js";
import { openSearches } from "./shelf-searches.js";

const books = openBooks();
const pipeline = openPipeline();
const queues = openQueues((name) => !isOfShelf(name));
const searches = openSearches();
openScan();

openPage({
  async read() {
    const statuses = merge(ask("/api/queues"), (all) => {
      pipeline.load(all.queues);
      queues.load(all.queues);
    });
    await Promise.all([statuses, books.read(), searches.read()]);
  },
  on: {
    queue(status) {
      pipeline.put(status);
      queues.put(status);
    },
    "shelf.book": books.put,
    "shelf.removed": ({ isbn }) => books.drop(isbn),
    "shelf.search": searches.put,
  },
  tick() {
    pipeline.tick();
    queues.tick();
  },
});
