// The shelf page: books in, data and covers arriving, and the pipeline they pass through, live. All queues are on /queue.
// Wires the parts together; each part shows one thing and knows nothing of the others.

import { ask } from "/assets/api.js";
import { openPage } from "/assets/app.js";
import { merge } from "/assets/news.js";
import { openBooks } from "./shelf-books.js";
import { openPipeline } from "./shelf-pipeline.js";
import { openScan } from "./shelf-scan.js";
import { openSearches } from "./shelf-searches.js";

const books = openBooks();
const pipeline = openPipeline();
const searches = openSearches();
openScan();

openPage({
  async read() {
    const statuses = merge(ask("/api/queues"), (all) => pipeline.load(all.queues));
    await Promise.all([statuses, books.read(), searches.read()]);
  },
  on: {
    queue: pipeline.put,
    "shelf.book": books.put,
    "shelf.removed": ({ isbn }) => books.drop(isbn),
    "shelf.search": searches.put,
  },
  tick: pipeline.tick,
});
