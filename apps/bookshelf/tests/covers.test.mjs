// The bookshelf's cover cache where no browser is needed: what goes in comes out, what cannot be a cover does not, and the
// package works as npm installs it. Needs `cargo xtask wasm` first.

import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { initSync, openCoverCache } from "../../../web/pkg/bookshelf/covers.js";

const SERVED = join(import.meta.dirname, "../../../web/pkg");
const SOURCES = join(import.meta.dirname, "../browser/js");
const MODULE = await readFile(join(SERVED, "bookshelf/syncline_covers_bg.wasm"));
initSync(MODULE);

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

test("as npm installs it, the package uses the platform's package and throws its errors", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "syncline-unit-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const modules = join(folder, "node_modules");
  await cp(SERVED, join(modules, "syncline"), { recursive: true });
  await cp(SOURCES, join(modules, "syncline-bookshelf"), { recursive: true });
  await cp(join(SERVED, "bookshelf"), join(modules, "syncline-bookshelf/bookshelf"), { recursive: true });
  const application = 'export * as bookshelf from "syncline-bookshelf";\nexport * as platform from "syncline";\n';
  await writeFile(join(folder, "application.mjs"), application);
  const { bookshelf, platform } = await import(pathToFileURL(join(folder, "application.mjs")).href);

  bookshelf.initSync(MODULE);
  const covers = await bookshelf.openCoverCache({ storage: null });
  covers.set(ISBN, "https://example.net/a.jpg");
  assert.equal(covers.get(ISBN), "https://example.net/a.jpg");
  assert.throws(() => covers.set("123", "https://example.net/a.jpg"), platform.SynclineError);

  const types = await readFile(join(SOURCES, "bookshelf/covers.d.ts"), "utf8");
  const declared = [...types.matchAll(/^export function (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual([...declared, "SynclineError"].sort(), Object.keys(bookshelf).sort());
  const { version } = JSON.parse(await readFile(join(SOURCES, "package.json"), "utf8"));
  assert.equal(bookshelf.version(), version);
});
