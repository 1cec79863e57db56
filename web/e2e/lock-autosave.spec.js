// AutoSave in Chromium: an editor that is bound to it, tabs that have seen less than is stored, close and open again at any
// moment, several users in one page. Rounds with crashes and freezes are in autosave-rounds.spec.js.

import { openPlainBrowser } from "./support/chromium.js";
import { expect, openTab, test } from "./support/lock-test.js";

/** @typedef {import("@playwright/test").Page} Page */

/**
 * A tab with a textarea, a document as `window.save`, and the textarea bound to it unless told otherwise.
 * @param {import("@playwright/test").BrowserContext} context @param {string} url @param {{ bound?: boolean, options?: any }} [how]
 */
async function openEditor(context, url, { bound = true, options = {} } = {}) {
  const page = await openTab(context, url);
  await page.evaluate(
    async ({ bound, options }) => {
      const tab = /** @type {any} */ (window);
      document.body.innerHTML = "<textarea aria-label='Document' rows='5'></textarea>";
      tab.editor = document.querySelector("textarea");
      tab.save = tab.lock.openAutoSave(options);
      tab.events = [];
      tab.save.subscribe((/** @type {any} */ { event }) => event && tab.events.push([event.type, event.version]));
      if (bound) tab.unbind = tab.save.bind(tab.editor);
      await tab.save.ready;
    },
    { bound, options },
  );
  return page;
}

const editor = (/** @type {Page} */ page) => page.getByRole("textbox", { name: "Document" });
const status = (/** @type {Page} */ page) => page.evaluate(() => /** @type {any} */ (window).save.state.status);
const reaches = (/** @type {Page} */ page, /** @type {string} */ word) => expect.poll(() => status(page)).toBe(word);

test("lk_30 a bound editor shows what the holder saves, is read-only meanwhile, and goes on from that when the holder goes", async ({
  context,
  server,
}) => {
  const first = await openEditor(context, server.url);
  await reaches(first, "saved");
  await editor(first).pressSequentially("first words");
  const second = await openEditor(context, server.url);
  await reaches(second, "read-only");
  await expect(editor(second)).toHaveAttribute("readonly", "");
  await editor(first).press("End");
  await editor(first).pressSequentially(" and more");
  await expect(editor(second)).toHaveValue("first words and more");
  await first.close();
  await reaches(second, "saved");
  await expect(editor(second)).not.toHaveAttribute("readonly");
  await editor(second).press("ControlOrMeta+End");
  await editor(second).pressSequentially("!");
  await second.evaluate(() => /** @type {any} */ (window).save.flush());
  expect(await status(second), "flush settles when it is saved").toBe("saved");
  const third = await openEditor(context, server.url);
  await expect(editor(third)).toHaveValue("first words and more!");
});

// The README's first snippet: it never looked at what came, and its first key stored the text of when it was opened.
test("lk_30 an application that never looks at what comes is refused, and says so", async ({ context, server }) => {
  const first = await openEditor(context, server.url);
  await reaches(first, "saved");
  await editor(first).pressSequentially("first words");
  const second = await openTab(context, server.url);
  const warned = second.waitForEvent("console", (message) => message.text().includes("was refused"));
  await second.evaluate(async () => {
    const tab = /** @type {any} */ (window);
    tab.save = tab.lock.openAutoSave();
    await tab.save.ready;
    tab.shown = tab.save.text;
    tab.save.subscribe((/** @type {any} */ { status }) => (tab.status = status));
  });
  await reaches(second, "read-only");
  await editor(first).pressSequentially(" and more");
  await first.evaluate(() => /** @type {any} */ (window).save.flush());
  await expect.poll(() => second.evaluate(() => /** @type {any} */ (window).save.state.stamp)).toBeGreaterThan(0);
  await first.close();
  await reaches(second, "saved");
  expect(await second.evaluate(() => /** @type {any} */ (window).save.change(`${/** @type {any} */ (window).shown}X`))).toBe(false);
  await warned;
  const seen = await second.evaluate(() => /** @type {any} */ (window).save.text);
  expect(seen).toBe("first words and more");
  // Having read it, it may change it.
  expect(await second.evaluate((text) => /** @type {any} */ (window).save.change(`${text}!`), seen)).toBe(true);
});

test("lk_30 a change names the version it is based on; events carry text and version", async ({ context, server }) => {
  const tab = await openEditor(context, server.url, { bound: false });
  await reaches(tab, "saved");
  const told = await tab.evaluate(async () => {
    const { save } = /** @type {any} */ (window);
    const saved = new Promise((resolve) => save.subscribe((/** @type {any} */ { event }) => event?.type === "saved" && resolve({ ...event })));
    const base = save.version;
    const accepted = [save.change("one", { base }), save.change("two", { base }), save.change("three", { base: save.version })];
    const refused = [save.change("four", { base: base - 1 }), save.change("four", { base: save.version + 1 })];
    await save.flush();
    return { accepted, refused, saved: await saved, version: save.version, stamp: save.state.stamp, text: save.text };
  });
  expect(told.accepted).toEqual([true, true, true]);
  expect(told.refused).toEqual([false, false]);
  expect(told.saved).toEqual({ type: "saved", text: "three", version: told.stamp });
  expect([told.version, told.text]).toEqual([told.stamp, "three"]);
});

test("lk_30 the caret stays at its place in a text that changes elsewhere, and an adapter serves other editors", async ({ context, server }) => {
  const tab = await openEditor(context, server.url);
  await reaches(tab, "saved");
  await editor(tab).fill("one three");
  const told = await tab.evaluate(() => {
    const { editor, save } = /** @type {any} */ (window);
    const div = document.body.appendChild(document.createElement("div"));
    /** @type {(listener: () => void) => () => void} */
    const onInput = (listener) => {
      div.addEventListener("input", listener);
      return () => div.removeEventListener("input", listener);
    };
    const unbind = save.bind({
      read: () => div.textContent,
      write: (/** @type {string} */ text) => (div.textContent = text),
      setReadOnly: (/** @type {boolean} */ isReadOnly) => (div.contentEditable = String(!isReadOnly)),
      onInput,
    });
    const before = [div.textContent, div.contentEditable];
    editor.focus();
    editor.setSelectionRange(9, 9);
    div.textContent = "one two three";
    div.dispatchEvent(new Event("input"));
    const shared = [editor.value, editor.selectionStart];
    unbind();
    div.textContent = "nobody's";
    div.dispatchEvent(new Event("input"));
    return { before, shared, text: save.text };
  });
  expect(told).toEqual({ before: ["one three", "true"], shared: ["one two three", 13], text: "one two three" });
});

test("lk_30 lk_24 a frozen tab that wakes is read-only before it can type, with notice and without", async ({ server }) => {
  const browser = await openPlainBrowser();
  try {
    for (const isDeaf of [false, true]) {
      const options = { project: `frozen-${isDeaf}`, leaseMs: 1_500 };
      const tab = await openEditor(browser.context, server.url, { options });
      await reaches(tab, "saved");
      await tab.evaluate(async (isDeaf) => {
        const { editor, save } = /** @type {any} */ (window);
        editor.focus();
        const type = () => document.execCommand("insertText", false, "x");
        type();
        await save.flush();
        // In the first statement after the freeze: what a key does that was pressed meanwhile.
        const before = performance.now();
        const timer = setInterval(() => {
          if (performance.now() - before < 2_500) return;
          clearInterval(timer);
          const wasReadOnly = editor.readOnly;
          type();
          /** @type {any} */ (window).woken = { wasReadOnly, value: editor.value };
        }, 10);
        if (isDeaf) for (const type of ["freeze", "resume"]) document.addEventListener(type, (event) => event.stopImmediatePropagation(), { capture: true });
      }, isDeaf);
      const cdp = await browser.context.newCDPSession(tab);
      await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
      const other = await openEditor(browser.context, server.url, { options });
      await reaches(other, "saved");
      await other.evaluate(async () => {
        const { save } = /** @type {any} */ (window);
        save.change(`${save.text}, written while it was frozen`);
        await save.flush();
      });
      await expect.poll(() => other.evaluate(() => performance.now())).toBeGreaterThan(3_000);
      await cdp.send("Page.setWebLifecycleState", { state: "active" });
      const woken = () => tab.evaluate(() => /** @type {any} */ (window).woken);
      await expect.poll(woken).toBeDefined();
      expect((await woken()).value, `deaf: ${isDeaf}`).not.toContain("xx");
      if (!isDeaf) expect((await woken()).wasReadOnly).toBe(true);
      await expect(editor(tab)).toHaveValue(/written while it was frozen$/);
      await other.close();
      await tab.close();
    }
  } finally {
    await browser.close();
  }
});

// What React's StrictMode does to an effect. It ended in `lost` for ever, with a lease that nobody could have.
test("lk_31 close and open again at any moment works, and leaves the project to be had by others", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  for (const moment of ["at once", "after a microtask", 1, 20, "when ready", "when held", "thrice"]) {
    const told = await tab.evaluate(async (moment) => {
      const { openAutoSave } = /** @type {any} */ (window).lock;
      const options = { project: `strict-${String(moment).replaceAll(" ", "-")}` };
      const held = (/** @type {any} */ save) =>
        new Promise((resolve) => save.subscribe((/** @type {any} */ { status }) => status === "saved" && resolve(status)));
      const first = openAutoSave(options);
      if (moment === "after a microtask") await null;
      else if (typeof moment === "number") await new Promise((resolve) => setTimeout(resolve, moment));
      else if (moment === "when ready") await first.ready;
      else if (moment === "when held") await held(first);
      const closed = first.close();
      if (moment === "thrice") for (let time = 0; time < 3; time += 1) openAutoSave(options).close();
      const second = openAutoSave(options);
      if (second.state.status !== "saved") await held(second);
      const changed = second.change("typed after it was opened again");
      await second.flush();
      await closed;
      const { status, heldHere } = second.state;
      await second.close();
      return { changed, status, heldHere, first: first.state.status, later: first.change("closed"), second: second.state.status };
    }, moment);
    expect(told, String(moment)).toEqual({
      changed: true,
      status: "saved",
      heldHere: true,
      first: "closed",
      later: false,
      second: "closed",
    });
    const other = await openTab(context, server.url);
    const taken = await other.evaluate(async (moment) => {
      const project = `strict-${String(moment).replaceAll(" ", "-")}`;
      const { acquireProjectLock } = /** @type {any} */ (window).lock;
      return (await acquireProjectLock({ project, retryPolicy: { maxAttempts: 1 } })).lease.source;
    }, moment);
    expect(taken, String(moment)).toBe("web-lock");
    await other.close();
  }
});

test("lk_31 the lock itself can be asked for again at any moment: aborted, released, not awaited", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  const sources = await tab.evaluate(async () => {
    const { acquireProjectLock, releaseProjectLock } = /** @type {any} */ (window).lock;
    const got = [];
    for (const waitMs of [0, 1, 5, 20]) {
      const abort = new AbortController();
      const first = acquireProjectLock({ signal: abort.signal });
      first.catch(() => {});
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      abort.abort();
      await first.then((/** @type {any} */ { lease }) => releaseProjectLock({ lease }), () => {});
      const { lease } = await acquireProjectLock();
      void releaseProjectLock({ lease });
      const again = await acquireProjectLock();
      got.push(again.lease.source);
      await releaseProjectLock({ lease: again.lease });
    }
    return got;
  });
  expect(sources).toEqual(["web-lock", "web-lock", "web-lock", "web-lock"]);
});

test("lk_31 several users in one page share the document, each with its own listeners, and the last one ends it", async ({ context, server }) => {
  const tab = await openTab(context, server.url);
  const told = await tab.evaluate(async () => {
    const { openAutoSave } = /** @type {any} */ (window).lock;
    const [first, second] = [openAutoSave(), openAutoSave()];
    await Promise.all([first.ready, second.ready]);
    const adopted = /** @type {string[]} */ ([]);
    second.subscribe((/** @type {any} */ state) => state.adopted && adopted.push(state.text));
    if (first.state.status !== "saved") await new Promise((resolve) => first.subscribe((/** @type {any} */ { status }) => status === "saved" && resolve(status)));
    const changes = [first.change("from the first"), second.change("from the second"), first.change("stale", { base: 0 })];
    await first.flush();
    await first.close();
    const after = [first.change("no more"), second.change("alone now"), second.state.status !== "closed"];
    await second.flush();
    let other = "";
    try {
      openAutoSave({ file: "other.json" });
    } catch (error) {
      other = error.code;
    }
    await second.close();
    const third = openAutoSave();
    await third.ready;
    return { changes, adopted, after, other, text: third.text };
  });
  expect(told).toEqual({
    changes: [true, true, false],
    adopted: ["from the first"],
    after: [false, true, true],
    other: "invalid-argument",
    text: "alone now",
  });
});

test("lk_31 with a full or forbidden localStorage last words survive a reload, the tab has its project back at once, and it is said", async ({
  context,
  server,
}) => {
  for (const trouble of ["full", "forbidden"]) {
    const tab = await context.newPage();
    if (trouble === "forbidden") {
      await tab.addInitScript(() => {
        Object.defineProperty(window, "localStorage", {
          get() {
            throw new DOMException("forbidden", "SecurityError");
          },
        });
      });
    }
    const open = async () => {
      await tab.evaluate(async (project) => {
        const page = /** @type {any} */ (window);
        const { openAutoSave } = await import(/** @type {any} */ ("/pkg/syncline.js"));
        page.save = openAutoSave({ project, leaseMs: 60_000 });
        await page.save.ready;
      }, `storage-${trouble}`);
      await reaches(tab, "saved");
    };
    await tab.goto(server.url);
    if (trouble === "full") {
      await tab.evaluate(() => {
        for (let size = 2 ** 22; size >= 1; size >>= 1) {
          try {
            for (;;) localStorage.setItem(`filler${Math.random()}`, "x".repeat(size));
          } catch {
            // The next smaller piece.
          }
        }
      });
    }
    const warned = tab.waitForEvent("console", (message) => message.text().includes("localStorage is full or forbidden"));
    await open();
    await warned;
    expect(await tab.evaluate(() => /** @type {any} */ (window).save.history.map((/** @type {any} */ { type }) => type))).toContain("drafts-off");
    await tab.evaluate(() => void /** @type {any} */ (window).save.change("the last words"));
    await tab.reload();
    await open();
    await expect.poll(() => tab.evaluate(() => /** @type {any} */ (window).save.text)).toBe("the last words");
    await tab.evaluate(() => localStorage.clear()).catch(() => {});
    await tab.close();
  }
});

test("lk_30 st_33 when site data is cleared under two tabs, the text is stored again", async ({ context, server }) => {
  const first = await openEditor(context, server.url, { options: { leaseMs: 2_000 } });
  await reaches(first, "saved");
  await editor(first).pressSequentially("kept");
  await first.evaluate(() => /** @type {any} */ (window).save.flush());
  const second = await openEditor(context, server.url, { options: { leaseMs: 2_000 } });
  await expect(editor(second)).toHaveValue("kept");
  const cdp = await context.newCDPSession(first);
  await cdp.send("Storage.clearDataForOrigin", { origin: new URL(server.url).origin, storageTypes: "all" });
  // Whoever holds it now has stored it, under a version far above those of before.
  const stamps = () => Promise.all([first, second].map((page) => page.evaluate(() => /** @type {any} */ (window).save.state.stamp)));
  await expect.poll(async () => Math.max(...(await stamps())), { timeout: 20_000 }).toBeGreaterThan(2 ** 32);
  const third = await openEditor(context, server.url, { options: { leaseMs: 2_000 } });
  await expect(editor(third)).toHaveValue("kept");
});
