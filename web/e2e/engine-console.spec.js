// The console's pages in Firefox (CN-06): each opens, is connected, has its heading, no error and nothing that axe finds, light and dark.

import { openConsoleProxy } from "./support/console-proxy.js";
import { expect, openTab, test } from "./support/engines.js";
import { Node } from "./support/node.js";
import { PAGES, PAGES_BELOW } from "./support/test.js";

const CONFIG = `[[queues]]
name = "words"
workers = true
group = "{key}"
[[jobs]]
name = "report"
cron = "0 0 1 1 *"
run = { command = ["false"] }
[[entities]]
name = "note"
settings = true
`;

test("cn_06 every page of the console opens in the other engines, without an error, and is accessible in both themes", async ({ open, engine }) => {
  test.skip(engine === "WebKit", "WebKit's driver keeps its tabs in the background, where the console's pages rest");
  test.setTimeout(600_000);
  const node = await Node.start({ config: CONFIG });
  const proxy = await openConsoleProxy(node.url);
  try {
    await node.ask("/api/queues/words", { keys: ["tide", "moon"] });
    await node.ask("/api/locks/nightly/acquire", { holder: "box-7", ttlMs: 3_600_000 });
    await node.put("/api/entities/note/n-1", { text: "hello" });
    await node.put("/api/state/cart/item-1", { n: 1 });
    await node.ask("/api/viewer", { sessionId: "tab-1", room: "lobby", user: "ann" });
    await node.ask("/api/jobs/report/run", {});
    const tab = await openTab(await open(), `${proxy.url}/`);
    for (const { path, heading } of [...PAGES, ...PAGES_BELOW, { path: "/viewer/rooms?one=lobby", heading: "Rooms" }]) {
      await tab.goto(`${proxy.url}${path}`);
      await expect.poll(() => tab.evaluate(() => `${document.documentElement.dataset.live} ${"loaded" in document.documentElement.dataset}`), { message: path, timeout: 60_000 }).toBe("connected true");
      const found = await tab.evaluate(async () => {
        const page = /** @type {any} */ (window);
        if (!page.axe) {
          const script = document.createElement("script");
          script.src = "/test/axe.js";
          await new Promise((resolve, reject) => ((script.onload = resolve), (script.onerror = reject), document.head.append(script)));
        }
        const violations = [];
        for (const theme of ["light", "dark"]) {
          document.documentElement.dataset.theme = theme;
          // Colours change over some milliseconds.
          await Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => {})));
          const result = await page.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
          for (const { id, nodes } of result.violations) violations.push(`${theme} ${id}: ${nodes.map((/** @type {any} */ each) => each.html).join(" | ")}`);
        }
        delete document.documentElement.dataset.theme;
        const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
        return { heading: document.querySelector("h1")?.textContent, violations, errors: page.watched, wide };
      });
      expect({ path, ...found }).toEqual({ path, heading, violations: [], errors: [], wide: 0 });
    }
  } finally {
    await proxy.close();
    await node.remove();
  }
});
