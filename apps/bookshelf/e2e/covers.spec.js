// The bookshelf's covers in Chromium, kept in localStorage: how many fit, reloads, several tabs, no room.

import { expect, test } from "../../../web/e2e/support/test.js";

// A file of the package has no icon.
test.use({ expectedErrors: /favicon\.ico/ });

/** @param {import("../../../web/e2e/support/playwright.js").Page} page */
async function openBlank(page) {
  // A file of the package as a page: same origin, no script of ours beside the test's.
  await page.goto("/pkg/package.json");
}

test("bk_06 as many covers as promised fit into 2 MiB of localStorage, and are there after a reload", async ({ page }) => {
  test.slow();
  await openBlank(page);
  const fill = (/** @type {[string, number]} */ [source, wanted]) =>
    page.evaluate(
      async ([source, wanted]) => {
        const { openCoverCache } = await import(/** @type {any} */ ("/pkg/bookshelf/covers.js"));
        localStorage.clear();
        const covers = await openCoverCache();
        /** @type {(n: number) => string} */
        const isbn = (n) => {
          const digits = `9784${String(n * 7 + 10_000_000).slice(-8)}`;
          const sum = [...digits].reduce((sum, digit, index) => sum + Number(digit) * (index % 2 ? 3 : 1), 0);
          return digits + String((10 - (sum % 10)) % 10);
        };
        const letters = (/** @type {number} */ n) => n.toString(36).padStart(12, "QwErTyUiOpAs");
        /** @type {Record<string, (n: number) => string>} */
        const urls = {
          ndl: (n) => `https://ndlsearch.ndl.go.jp/thumbnail/${isbn(n)}.jpg`,
          rakuten: (n) => `https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/${isbn(n).slice(-4)}/${isbn(n)}.jpg?_ex=200x200`,
          google: (n) =>
            `http://books.google.com/books/content?id=${letters(n)}&printsec=frontcover&img=1&zoom=1&edge=curl&source=gbs_api`,
        };
        for (let n = 0; n < Number(wanted); n++) covers.set(isbn(n), urls[source](n));
        const flushed = covers.flush();
        let bytes = 0;
        for (const key of Object.keys(localStorage)) bytes += 2 * (key.length + (localStorage.getItem(key) ?? "").length);
        return { flushed, bytes, size: covers.size, first: covers.get(isbn(0)), expected: urls[source](0), storedBytes: covers.storedBytes, isbn: isbn(0) };
      },
      /** @type {[string, number]} */ ([source, wanted]),
    );
  for (const [source, wanted] of /** @type {[string, number][]} */ ([["rakuten", 72_000], ["google", 58_000], ["ndl", 95_000]])) {
    const { flushed, bytes, size, first, expected, storedBytes } = await fill([source, wanted]);
    expect({ source, flushed, size, first }).toEqual({ source, flushed: true, size: wanted, first: expected });
    expect(bytes).toBeLessThanOrEqual(2 * 1024 * 1024);
    expect(bytes).toBe(storedBytes);
  }
  await page.reload();
  const again = await page.evaluate(async () => {
    const { openCoverCache } = await import(/** @type {any} */ ("/pkg/bookshelf/covers.js"));
    return (await openCoverCache()).size;
  });
  expect(again).toBe(95_000);
});

test("bk_06 covers of another tab are taken up, and a full or missing localStorage costs no page", async ({ context, page }) => {
  const open = (/** @type {import("../../../web/e2e/support/playwright.js").Page} */ tab) =>
    tab.evaluate(async () => {
      const { openCoverCache } = await import(/** @type {any} */ ("/pkg/bookshelf/covers.js"));
      const errors = (/** @type {any} */ (window).errors = /** @type {string[]} */ ([]));
      /** @type {any} */ (window).covers = await openCoverCache({ onError: (/** @type {any} */ error) => errors.push(error.code) });
    });
  await openBlank(page);
  await open(page);
  const other = await context.newPage();
  await openBlank(other);
  await open(other);
  await page.evaluate(() => {
    /** @type {any} */ (window).covers.set("9784101010014", "https://example.com/a.jpg");
    /** @type {any} */ (window).covers.flush();
  });
  const seen = () => other.evaluate(() => /** @type {any} */ (window).covers.get("4-10-101001-3"));
  await expect.poll(seen).toBe("https://example.com/a.jpg");

  const told = await page.evaluate(async () => {
    const { covers, errors } = /** @type {any} */ (window);
    for (let size = 2 ** 22; size >= 1; size >>= 1) {
      for (;;) {
        try {
          localStorage.setItem(`filler${Math.random()}`, "x".repeat(size));
        } catch {
          break;
        }
      }
    }
    covers.set("9784088511276", "https://example.com/b.jpg");
    const flushed = covers.flush();
    const { openCoverCache } = await import(/** @type {any} */ ("/pkg/bookshelf/covers.js"));
    const inMemory = await openCoverCache({ storage: null });
    inMemory.set("9784088511276", "https://example.com/b.jpg");
    await Promise.resolve();
    return { flushed, errors, kept: covers.get("9784088511276"), inMemory: inMemory.size };
  });
  expect(told).toEqual({ flushed: false, errors: ["quota-exceeded"], kept: "https://example.com/b.jpg", inMemory: 1 });
  await page.evaluate(() => {
    for (const key of Object.keys(localStorage)) if (key.startsWith("filler")) localStorage.removeItem(key);
  });
  expect(await page.evaluate(() => /** @type {any} */ (window).covers.flush())).toBe(true);
});
