// The shelf page against a real node and stand-ins for the three book APIs.

import { AxeBuilder } from "../../../web/e2e/support/playwright.js";
import { Node } from "../../../web/e2e/support/node.js";
import { expect, open, test as base } from "../../../web/e2e/support/test.js";
import { inventedIsbns, startUpstreams } from "../../stand-ins/e2e/upstreams.js";

/** @typedef {Awaited<ReturnType<typeof startUpstreams>>} Upstreams */

const test = /** @type {typeof base} */ (
  base.extend({
    node: async (/** @type {any} */ { nodeOptions }, /** @type {any} */ use) => {
      const upstreams = await startUpstreams("--share", "library=1");
      const config = `[[queues]]\nname = "words"\nurl = "${upstreams.url}/words/{key}"\ninterval_ms = 10\n`;
      const node = await Node.start({ config, ...nodeOptions, environment: upstreams.environment });
      await use(node);
      await node.remove();
      await upstreams.remove();
    },
  })
);

const books = (/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) => page.locator("#books .book");

test("bk_08 pasted numbers become books with covers, live, and refused ones are shown with the reason", async ({ page }) => {
  const isbns = await inventedIsbns(6);
  await open(page, "/shelf");
  await expect(page.locator("#books-empty")).toBeVisible();
  await page.getByLabel("ISBNs, one or many").fill(`${isbns.join("; ")}\n978-4-10-101001-5 hello`);
  await page.getByLabel("ISBNs, one or many").press("Enter");
  await expect(page.locator("#scan-told")).toHaveText("6 books on the way. 2 entries not added:");
  await expect(page.locator("#refused li").first()).toContainText("978-4-10-101001-5");
  await expect(page.locator("#refused li").first()).toContainText("check digit");
  await expect(books(page)).toHaveCount(6);
  await expect(books(page).getByRole("heading", { name: "Looking it up" })).toHaveCount(0, { timeout: 30_000 });
  await expect(page.locator('#books .book[data-cover="waiting"]')).toHaveCount(0, { timeout: 30_000 });
  expect(await page.locator("#books img").count()).toBeGreaterThan(0);
  await expect(page.locator(".at-scan")).toContainText("6 done");
  await expect(page.locator("#pipeline-left")).toHaveText("Nothing to do");

  await page.getByLabel("Find on the shelf").fill(isbns[2]);
  await expect(books(page)).toHaveCount(1);
  await page.getByLabel("Find on the shelf").fill("no such book");
  await expect(page.locator("#books-empty")).toHaveText("No book on the shelf has these words.");
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id }) => id)).toEqual([]);
});

test("bk_08 every queue of the pipeline shows its pace, and other tabs see books arrive and go", async ({ context, page }) => {
  const [isbn] = await inventedIsbns(1);
  await open(page, "/shelf");
  await expect(page.locator(".step")).toHaveCount(6);
  await expect(page.locator(".at-google")).toContainText("1 at once, 100 ms apart, retry after 500 ms");
  await expect(page.locator(".at-rakuten")).toContainText("1 at once, 500 ms apart, retry after 500 ms");
  await expect(page.locator(".at-ndl")).toContainText("1 at once, 50 ms apart, retry after 1,000 ms");
  await expect(page.locator(".at-search")).toContainText("2 at once");
  const other = await context.newPage();
  await open(other, "/shelf");
  await page.getByLabel("ISBNs, one or many").fill(isbn);
  await page.getByRole("button", { name: "Add to the shelf" }).click();
  await expect(books(other)).toHaveCount(1);

  await expect(books(page).getByRole("heading", { name: "Looking it up" })).toHaveCount(0);
  await books(page).getByRole("button", { name: /^Remove / }).click();
  await expect(books(other)).toHaveCount(0);
  await page.locator("#toast").getByRole("button", { name: "Undo" }).click();
  await expect(books(other)).toHaveCount(1);
  await expect(books(page)).toHaveCount(1);
});

test("bk_08 the shelf shows its own queues and leads to the page of all", async ({ page }) => {
  await open(page, "/shelf");
  await expect(page.locator(".step")).toHaveCount(6);
  await expect(page.locator(".queue")).toHaveCount(0);
  await page.locator("main").getByRole("link", { name: /^All queues/ }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Queue");
  await expect(page.locator(".queue")).toHaveCount(7);
});

test("bk_02 a search is saved, found page by page and can be removed", async ({ page }) => {
  await open(page, "/shelf");
  await page.getByRole("button", { name: "Search and save" }).click();
  await expect(page.locator("#search-trouble")).toHaveText("Fill in a title, an author or a publisher.");
  await page.getByLabel("Title", { exact: true }).fill("海");
  await page.getByRole("button", { name: "Search and save" }).click();
  const search = page.locator("#searches > li");
  await expect(search).toContainText(/\d+ books?/, { timeout: 30_000 });
  await search.locator("summary").click();
  await expect(search.locator(".found li").first()).toBeVisible();
  await search.getByRole("button", { name: /^Remove/ }).click();
  await expect(page.locator("#searches-empty")).toBeVisible();
});

test("bk_08 the camera reads the barcode of a book, once, and no other goods", async ({ page }) => {
  const [isbn] = await inventedIsbns(1);
  await page.addInitScript((isbn) => {
    // Chromium on Linux has no reader for barcodes; the camera's picture is real, what is read in it is not.
    /** @type {any} */ (window).BarcodeDetector = class {
      static getSupportedFormats = async () => ["ean_13"];
      async detect(/** @type {HTMLVideoElement} */ video) {
        return video.videoWidth > 0 ? [{ rawValue: "4901234567894" }, { rawValue: isbn }] : [];
      }
    };
  }, isbn);
  await open(page, "/shelf");
  await page.getByRole("button", { name: "Scan with the camera" }).click();
  await expect(page.locator("#camera-told")).toHaveText(`Read ${isbn}.`);
  await expect(books(page)).toHaveCount(1);
  await expect(page.locator("#scan-told")).toHaveText("1 book on the way.");
  await page.getByRole("button", { name: "Stop the camera" }).click();
  await expect(page.locator("#camera-view")).toBeHidden();
});

test("bk_08 a browser that cannot read barcodes is offered no camera, and numbers can be typed", async ({ page }) => {
  await page.addInitScript(() => delete (/** @type {any} */ (window).BarcodeDetector));
  await open(page, "/shelf");
  await page.getByLabel("ISBNs, one or many").fill("978-4-10-101001-5");
  await page.getByRole("button", { name: "Add to the shelf" }).click();
  await expect(page.locator("#refused li").first()).toContainText("check digit");
  await expect(page.getByRole("button", { name: "Scan with the camera" })).toBeHidden();
});
