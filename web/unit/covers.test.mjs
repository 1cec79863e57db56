// The cover cache of the package where no browser is needed: what goes in comes out, and what cannot be a cover does not.
// Needs `cargo xtask wasm` first.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { initSync, openCoverCache } from "../pkg/covers.js";

initSync(await readFile(new URL("../pkg/syncline_covers_bg.wasm", import.meta.url)));

const ISBN = "9784101010014";

test("bk_05 every URL comes out as it went in, whatever its letters", async () => {
  const covers = await openCoverCache({ storage: null });
  const urls = [
    "https://ndlsearch.ndl.go.jp/thumbnail/9784101010014.jpg",
    "https://例え.jp/表紙.jpg#1",
    `https://example.net/${"a".repeat(2_000)}`,
    "http://books.google.com/books/content?id=wttstgEACAAJ&printsec=frontcover&img=1",
  ];
  for (const url of urls) {
    covers.set("978-4-10-101001-4", url);
    assert.equal(covers.get(ISBN), url);
  }
  assert.equal(covers.size, 1);
});

test("bk_05 what is no ISBN or no cover is refused, however long it is", async () => {
  const covers = await openCoverCache({ storage: null });
  for (const isbn of ["", "123", "9784101010015", "9".repeat(10_000), "本".repeat(100)]) {
    assert.throws(() => covers.set(isbn, "https://example.net/a.jpg"), { code: "invalid-argument", message: /is not an ISBN$/ });
  }
  for (const url of ["", "javascript:alert(1)", "https://example.net/a b", `https://example.net/${"a".repeat(2_048)}`, "表".repeat(3_000)]) {
    assert.throws(() => covers.set(ISBN, url), { code: "invalid-argument", message: /can be a cover$/ });
  }
  assert.equal(covers.size, 0);
});

test("bk_06 the oldest goes first, and nothing is lost while the memory grows", async () => {
  const covers = await openCoverCache({ storage: null });
  const isbn = (n) => {
    const digits = `978${String(n).padStart(9, "0")}`;
    const sum = [...digits].reduce((total, digit, at) => total + Number(digit) * (at % 2 === 0 ? 1 : 3), 0);
    return digits + ((10 - (sum % 10)) % 10);
  };
  const url = (n) => `https://example.net/${n}.jpg`;
  for (let n = 0; n < 60_000; n++) covers.set(isbn(n), url(n));
  const first = 60_000 - covers.size;
  assert.ok(first > 0 && covers.storedBytes <= 2 * 1024 * 1024);
  assert.equal(covers.get(isbn(first - 1)), undefined);
  for (const n of [first, first + 1, 59_999]) assert.equal(covers.get(isbn(n)), url(n));
});
