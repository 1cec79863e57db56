// No character that was said to be saved is ever missing (LK-30), shown from outside: tabs with a bound editor type, and in each
// round one of them is frozen, reloaded, crashed, closed, kept busy, put into the back/forward cache, or asked to give way. A
// server that none of them can influence is told of every text that was said to be saved. SYNCLINE_ROUNDS makes it longer.

import { goBack, openPlainBrowser } from "./support/chromium.js";
import { expect, test } from "./support/lock-test.js";
import { SEED, random } from "./support/random.js";

const ROUNDS = Number(process.env.SYNCLINE_ROUNDS ?? 20);
const LEASE_MS = 2_000;
// At least two, so that somebody can take over.
const TABS_MIN = 2;
const TABS_MAX = 4;
// A machine that is busy with other things stretches everything; a tab that never comes is something else.
const PATIENCE_MS = 40_000;
const FAULTS = ["crash", "freeze", "reload", "close", "busy", "cache", "take over"];

/** @typedef {import("@playwright/test").Page} Page */
/** @typedef {{ version: number, text: string, tab: string }} Saved */

/** In a page: the document, a textarea bound to it, and `typeWord()`, which does what a key does. */
async function start(/** @type {{ project: string, leaseMs: number, tab: string, isDeaf: boolean }} */ { project, leaseMs, tab, isDeaf }) {
  const page = /** @type {any} */ (window);
  if (isDeaf) {
    for (const type of ["freeze", "resume"]) document.addEventListener(type, (event) => event.stopImmediatePropagation(), { capture: true });
  }
  const { openAutoSave } = await import(/** @type {any} */ ("/pkg/syncline.js"));
  const editor = document.body.appendChild(document.createElement("textarea"));
  const save = openAutoSave({ project, leaseMs });
  page.save = save;
  page.unbind = save.bind(editor);
  save.subscribe((/** @type {any} */ { event, status }) => {
    if (event?.type === "saved") {
      fetch("/saved", { method: "POST", body: JSON.stringify({ project, version: event.version, text: event.text, tab }) }).catch(() => {});
    }
    if (status === "conflict") save.resolve("theirs");
  });
  page.typeWord = (/** @type {string} */ word) => {
    editor.focus();
    editor.setSelectionRange(editor.value.length, editor.value.length);
    document.execCommand("insertText", false, word);
    return editor.value.endsWith(word);
  };
  await save.ready;
}

class Tabs {
  /** @type {Map<string, Page>} */
  pages = new Map();
  counts = /** @type {Record<string, number>} */ ({});
  typed = 0;
  last = "nothing";
  #opened = 0;

  /**
   * @param {{ project: string, url: string, context: import("@playwright/test").BrowserContext, front: Page,
   *   draw: (below: number) => number }} facts
   */
  constructor(facts) {
    this.facts = facts;
  }

  async open() {
    const { context, url, project } = this.facts;
    const tab = `t${(this.#opened += 1)}`;
    const page = await context.newPage();
    await page.goto(`${url}/?${project}-${tab}`);
    await this.begin(tab, page);
    this.pages.set(tab, page);
  }

  async begin(/** @type {string} */ tab, /** @type {Page} */ page) {
    await page.evaluate(start, { project: this.facts.project, leaseMs: LEASE_MS, tab, isDeaf: this.facts.draw(2) === 0 });
  }

  /** Types words into whichever tab may, and returns that tab. */
  async type(/** @type {number} */ words) {
    const { draw } = this.facts;
    const until = Date.now() + PATIENCE_MS;
    for (;;) {
      for (const [tab, page] of this.pages) {
        let typed = 0;
        for (; typed < words; typed += 1) {
          const word = `<${SEED}.${(this.typed += 1)}>`;
          if (!(await page.evaluate((word) => /** @type {any} */ (window).typeWord(word), word).catch(() => false))) break;
          if (draw(3) === 0) await new Promise((resolve) => setTimeout(resolve, draw(300)));
        }
        if (typed > 0) return tab;
      }
      if (Date.now() > until) throw new Error(`no tab of ${this.facts.project} can be typed into, seed ${SEED}: ${await this.describe()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async describe() {
    const tell = () => {
      const { save } = /** @type {any} */ (window);
      const { status, problem, heldHere } = save.state;
      return { status, problem, heldHere, isReadOnly: document.querySelector("textarea")?.readOnly, history: save.history.slice(-8).map((/** @type {any} */ { type, loss }) => loss ?? type) };
    };
    const told = [...this.pages].map(async ([tab, page]) => `${tab} ${JSON.stringify(await page.evaluate(tell).catch(String))}`);
    return `after ${this.last}\n${(await Promise.all(told)).join("\n")}`;
  }

  async round() {
    const { draw } = this.facts;
    const tabs = TABS_MIN + draw(TABS_MAX - TABS_MIN + 1);
    while (this.pages.size < tabs) await this.open();
    const holder = await this.type(1 + draw(5));
    if (draw(4) > 0) await this.pages.get(holder)?.evaluate(() => /** @type {any} */ (window).save.flush().catch(() => {}));
    const others = [...this.pages.keys()].filter((tab) => tab !== holder);
    const tab = draw(4) === 0 ? others[draw(others.length)] : holder;
    const fault = FAULTS[draw(FAULTS.length)];
    this.counts[fault] = (this.counts[fault] ?? 0) + 1;
    this.last = `${fault} of ${tab}, ${holder} held it`;
    const heal = await this.#harm(tab, fault);
    // Somebody else goes on, or the same one where nothing but a reload happened.
    const harmed = this.pages.get(tab);
    const isAway = ["freeze", "cache"].includes(fault);
    if (isAway) this.pages.delete(tab);
    // The worker of a busy page keeps its lease.
    if (fault === "busy") await heal();
    await this.type(1 + draw(3));
    await heal();
    if (isAway && harmed !== undefined && !harmed.isClosed()) this.pages.set(tab, harmed);
  }

  /** Does it, and returns what makes the tab whole again. */
  async #harm(/** @type {string} */ tab, /** @type {string} */ fault) {
    const page = /** @type {Page} */ (this.pages.get(tab));
    const gone = async () => {
      this.pages.delete(tab);
      // Closed while it is in front, it would leave its place to another tab, which may be a frozen one: that wakes it.
      await this.facts.front.bringToFront();
      await page.close().catch(() => {});
    };
    const cdp = await page.context().newCDPSession(page);
    const nothing = async () => {};
    switch (fault) {
      case "crash":
        // Never answered: whoever would answer is dead.
        cdp.send("Page.crash").catch(() => {});
        this.pages.delete(tab);
        return gone;
      case "freeze":
        await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
        return () => cdp.send("Page.setWebLifecycleState", { state: "active" });
      case "reload":
        await page.reload();
        await this.begin(tab, page);
        return nothing;
      case "close":
        await gone();
        return nothing;
      case "busy": {
        const busy = page.evaluate((ms) => {
          for (const until = performance.now() + ms; performance.now() < until; );
        }, LEASE_MS * 1.5);
        return () => busy;
      }
      case "cache":
        await page.goto(`${this.facts.url}/away`, { waitUntil: "commit" });
        return async () => {
          // Evicted from the cache it is a fresh page, without an editor.
          if (!(await goBack(page, "typeof save !== 'undefined'"))) await this.begin(tab, page);
        };
      default:
        await page.evaluate(() => /** @type {any} */ (window).save.takeOver()).catch(() => {});
        return nothing;
    }
  }
}

const wordsOf = (/** @type {string} */ text) => new Set(text.match(/<[^<>]+>/g) ?? []);

/** Words that were said to be saved and are missing from a later version that was said to be saved, or from the last. */
function missing(/** @type {Saved[]} */ told, /** @type {string} */ last) {
  const ordered = [...told].sort((a, b) => a.version - b.version).map(({ version, text }) => ({ version, words: wordsOf(text) }));
  ordered.push({ version: Infinity, words: wordsOf(last) });
  return ordered.slice(1).flatMap(({ version, words }, index) =>
    [...ordered[index].words].filter((word) => !words.has(word)).map((word) => `${word} of ${ordered[index].version} in ${version}`),
  );
}

test("lk_30 no character that was said to be saved is ever missing, whatever happens to the tabs", async ({ server }) => {
  test.setTimeout(180_000 + ROUNDS * 15_000);
  const browser = await openPlainBrowser();
  try {
    const front = await browser.context.newPage();
    const kinds = [
      { project: "files", url: server.url, rounds: Math.ceil(ROUNDS * 0.7), draw: random(SEED) },
      { project: "rows", url: server.lanUrl, rounds: Math.floor(ROUNDS * 0.3), draw: random(SEED + 1) },
    ];
    for (const { project, url, rounds, draw } of kinds) {
      const tabs = new Tabs({ project, url, draw, front, context: browser.context });
      const told = () => /** @type {any[]} */ (server.writes).filter((write) => write.project === project);
      for (let round = 1; round <= rounds; round += 1) {
        await tabs.round();
        if (round % 50 === 0) console.log(`${project}: ${round} rounds, ${told().length} saves`);
      }
      // Everything that can still be stored is.
      const holder = await tabs.type(1);
      await tabs.pages.get(holder)?.evaluate(() => /** @type {any} */ (window).save.flush());
      const last = await tabs.pages.get(holder)?.evaluate(() => /** @type {any} */ (window).save.text);
      await tabs.open();
      const fresh = [...tabs.pages.values()].at(-1);
      expect(await fresh?.evaluate(() => /** @type {any} */ (window).save.text), "what the next page finds").toBe(last);
      console.log(`${project}, seed ${SEED}: ${rounds} rounds, ${tabs.typed} words tried, ${told().length} texts said to be saved, ${JSON.stringify(tabs.counts)}`);
      expect(missing(told(), last), `seed ${SEED}`).toEqual([]);
      expect(told().length, "or nothing was shown").toBeGreaterThan(rounds / 4);
      for (const page of tabs.pages.values()) await page.close();
    }
  } finally {
    await browser.close();
  }
});
