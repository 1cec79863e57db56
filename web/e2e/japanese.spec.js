// The console in Japanese: no page has a word of English left but names, code and what people wrote.

import { expect, open, PAGES, PAGES_BELOW, test } from "./support/test.js";
import { Node } from "./support/node.js";

const APPS = ["/shelf", "/calls", "/gallery"];
// Documents are in English; the pages to try things in have words of their own.
const LEFT_OUT = ["/docs", "/project", "/state/try"];
const NAMES = /^(\d\d:\d\d UTC|Syncline|OpenAPI|URL|API|UTC|KV|JSON|TOML|SIGHUP|JWKS|Web Locks?|ms|GMT.*|JST|serversync|syncline\.toml|\d[\d.,:]* ?(ms|s|min|h|d|B|KiB|MiB|µs).*)$/;

const japanese = /** @type {typeof test} */ (
  test.extend({
    node: async (/** @type {any} */ {}, /** @type {any} */ use) => {
      const queue = '[[queues]]\nname = "q-1"\nurl = "http://127.0.0.1:9/{key}"\n';
      const job = '[[jobs]]\nname = "j-1"\ncron = "0 0 1 1 *"\nrun = { command = ["false"] }\n';
      const kind = '[[entities]]\nname = "call_log"\n';
      const node = await Node.start({ config: `${queue}${job}${kind}`, environment: { SYNCLINE_APPS: "" } });
      await use(node);
      await node.remove();
    },
  })
);

/** @type {any} */ (japanese).use({ locale: "ja-JP", expectedErrors: /Transition was (aborted|skipped)/ });

for (const { path } of [...PAGES, ...PAGES_BELOW, { path: "/queue/groups?queue=q-1" }].filter(({ path }) => !APPS.includes(path) && !LEFT_OUT.some((left) => path.startsWith(left)) && !path.includes("fetchNdl"))) {
  japanese(`cn_04 page ${path} is in Japanese`, async ({ page, node }) => {
    await node.ask("/api/queues/q-1", { kind: "new", keys: ["k-1"] });
    await node.ask("/api/jobs/j-1/run", {});
    await open(page, path);
    await expect(page.locator("html")).toHaveAttribute("lang", "ja");
    await expect(page.locator("#connection")).toHaveText("接続済み");
    const english = await page.evaluate(() => {
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const found = [];
      while (texts.nextNode()) {
        const node = /** @type {Text} */ (texts.currentNode);
        const parent = /** @type {HTMLElement} */ (node.parentElement);
        if (parent.closest("code, pre, script, noscript, .mono, .grants, #version, [data-node], option, .detail, .listed td div, figure output") || !parent.checkVisibility()) continue;
        found.push(node.data.trim());
      }
      return found.filter((text) => /[A-Za-z]{2,}/.test(text) && !/[\u3040-\u30ff\u4e00-\u9faf]/.test(text));
    });
    expect(english.filter((text) => !NAMES.test(text))).toEqual([]);
  });
}
