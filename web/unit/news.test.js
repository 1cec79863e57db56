// Answers and news in every order of arrival.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hear, listen, merge } from "../console/assets/news.js";

/** An answer that comes when it is told to. */
function later() {
  /** @type {(value: any) => void} */
  let answer = () => {};
  return { asked: new Promise((resolve) => (answer = resolve)), answer };
}

// A book stayed at "Looking it up" for ever: its news came while the shelf was being read, and the older answer replaced it.
test("bk_08 an answer never puts back what came as news after it was asked for", async () => {
  /** @type {Map<string, string>} */
  let shown = new Map();
  listen({ book: ([isbn, title]) => shown.set(isbn, title) });
  const [shelf, more] = [later(), later()];
  const read = merge(shelf.asked, (answer) => (shown = new Map(answer)));
  hear("book", ["a", "found"]);
  assert.deepEqual([...shown], [["a", "found"]], "news are shown at once");
  const readMore = merge(more.asked, (answer) => (shown = new Map([...shown, ...answer])));
  hear("book", ["b", "found"]);
  shelf.answer([["a", "searching"], ["b", "searching"], ["c", "kept"]]);
  await read;
  assert.deepEqual([...shown], [["a", "found"], ["b", "found"], ["c", "kept"]]);
  more.answer([["b", "searching"], ["d", "new"]]);
  await readMore;
  assert.deepEqual([...shown], [["a", "found"], ["b", "found"], ["c", "kept"], ["d", "new"]]);
  // What came before a request was sent is in its answer, or was overtaken.
  await merge(Promise.resolve(new Map([["a", "renamed"]])), (answer) => (shown = answer));
  assert.deepEqual([...shown], [["a", "renamed"]]);
});

test("bk_08 a request that fails takes no news with it", async () => {
  /** @type {string[]} */
  const heard = [];
  listen({ word: (word) => heard.push(word) });
  const failing = merge(Promise.reject(new Error("away")), () => heard.push("taken"));
  hear("word", "one");
  await assert.rejects(failing, /away/);
  hear("word", "two");
  assert.deepEqual(heard, ["one", "two"]);
});
