// Browsers that puppeteer drives: Firefox as Debian ships it, by WebDriver BiDi, because Playwright drives only builds of its own; and
// Chromium, where a test is written for all engines.
//
// Guarantees a profile of its own for each browser, in which `lan.test` is this machine and yet no secure context.

import puppeteer from "puppeteer-core";
import { CHROMIUM, FLAGS } from "./chromium.js";
import { descendants, end, processOf } from "./processes.js";

const FIREFOX = process.env.FIREFOX_PATH ?? "/usr/bin/firefox-esr";
// What Firefox calls its processes that show pages.
const FIREFOX_CONTENT = "Web Content";
// Of all its processes.
const CHROMIUM_CONTENT = "chrom";

/** @typedef {import("./engines.js").Wishes} Wishes */

export async function openFirefox(/** @type {Wishes} */ { isPrivate = false, forbidsStorage = false, profile } = {}) {
  const browser = await puppeteer.launch({
    browser: "firefox",
    executablePath: FIREFOX,
    headless: true,
    userDataDir: profile,
    extraPrefsFirefox: {
      "network.dns.localDomains": "lan.test",
      // A tab of its own process each, and no process started ahead: fewer of them on a small machine.
      "dom.ipc.processPrelaunch.enabled": false,
      "dom.ipc.processCount": 100,
      "browser.privatebrowsing.autostart": isPrivate,
      ...(forbidsStorage ? { "network.cookie.cookieBehavior": 2 } : {}),
    },
  });
  return driven(browser, FIREFOX_CONTENT);
}

export async function openChromium() {
  return driven(await puppeteer.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS }), CHROMIUM_CONTENT);
}

function driven(/** @type {import("puppeteer-core").Browser} */ browser, /** @type {string} */ content) {
  const child = browser.process();
  if (child?.pid === undefined) throw new Error("this browser has no process");
  const contents = () => descendants(/** @type {number} */ (child.pid), content);
  return {
    newPage: async () => new PuppetTab(await browser.newPage(), contents),
    // One that a test has killed is no longer connected.
    close: async () => void (browser.connected && (await browser.close())),
    async kill() {
      await end(child);
      await browser.disconnect().catch(() => {});
    },
  };
}

class PuppetTab {
  #page;
  #contents;

  /** @param {import("puppeteer-core").Page} page @param {() => Promise<number[]>} contents */
  constructor(page, contents) {
    this.#page = page;
    this.#contents = contents;
  }

  goto = (/** @type {string} */ url) => this.#page.goto(url);

  /** @type {import("./engines.js").Tab["evaluate"]} */
  evaluate = (work, ...args) => /** @type {any} */ (this.#page.evaluate(/** @type {any} */ (work), ...args));

  reload = () => this.#page.reload();

  close = () => this.#page.close();

  /** Kills its process, as a crash does. */
  async crash() {
    process.kill(await processOf(await this.#contents(), () => this.evaluate(() => 1)), "SIGKILL");
  }
}
