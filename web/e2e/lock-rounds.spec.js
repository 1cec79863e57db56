// One holder, always (LK-20), shown from outside: tabs that take every way to the lock meet, and in each round the holder
// is crashed, frozen, put into the back/forward cache, closed or asked to let go. A server that none of them can influence
// sees every write. SYNCLINE_ROUNDS makes it longer.

import { goBack, openPlainBrowser } from "./support/chromium.js";
import { expect, test } from "./support/lock-test.js";
import { secondHolders } from "./support/lock-server.js";
import { SEED, random } from "./support/random.js";

const ROUNDS = Number(process.env.SYNCLINE_ROUNDS ?? 20);
const LEASE_MS = 2_000;
const TABS = 3;
// Projects of one kind side by side: most of a round is waiting for a lease to end.
const PROJECTS = ROUNDS > 50 ? 2 : 1;
// Of the rounds, so many are for tabs with files; they have more ways to the lock.
const FILES_SHARE = 0.6;
// A machine that is busy with other things stretches everything; a tab that never comes is something else.
const PATIENCE_MS = 30_000;

const FAULTS = ["crash", "freeze", "cache", "close", "let go"];

class Cohort {
  /** @type {Map<string, { page: import("@playwright/test").Page, deaf: boolean, mechanism: string }>} */
  tabs = new Map();
  takeovers = /** @type {{ fault: string, ms: number }[]} */ ([]);
  #opened = 0;

  /**
   * @param {{ project: string, url: string, mechanisms: string[], server: import("./support/lock-test.js").LockServer,
   *   context: import("@playwright/test").BrowserContext, front: import("@playwright/test").Page,
   *   draw: (below: number) => number }} facts
   */
  constructor(facts) {
    this.facts = facts;
  }

  async open() {
    const { context, url, project, mechanisms, draw } = this.facts;
    const tab = `${project}-${(this.#opened += 1)}`;
    const mechanism = mechanisms[draw(mechanisms.length)];
    const deaf = draw(2) === 0;
    const page = await context.newPage();
    await page.goto(`${url}/?${tab}`);
    const options = { mechanism, leaseMs: LEASE_MS, maxWaitMs: 1_000 };
    await page.evaluate(
      (settings) => import(/** @type {any} */ ("/writer.js")).then(({ startWriter }) => startWriter(settings)),
      { tab, project, deaf, options },
    );
    this.tabs.set(tab, { page, deaf, mechanism });
  }

  async round() {
    const { server, project, draw } = this.facts;
    while (this.tabs.size < TABS) await this.open();
    const seen = server.writes.length;
    const { tab, leaseId } = await server.until(
      (writes) => writes.slice(seen).find((write) => write.project === project && this.tabs.has(write.tab)),
      PATIENCE_MS,
      `a holder of ${project}`,
    );
    const victim = /** @type {any} */ (this.tabs.get(tab));
    const fault = FAULTS[draw(FAULTS.length)];
    const how = `${fault}${victim.deaf ? ", deaf" : ""}`;
    const heal = await this.#harm(tab, victim, fault);
    const what = `a successor of ${tab} (${how}, ${victim.mechanism}), seed ${SEED}`;
    const next = await server.until((writes) => this.#successor(writes.slice(seen), leaseId), PATIENCE_MS, what);
    await heal();
    this.takeovers.push({ fault: how, ms: next.first.at - next.last.at });
  }

  /** The first write under another lease after the last one under `leaseId`, with that last one. */
  #successor(/** @type {import("./support/lock-server.js").Write[]} */ writes, /** @type {string} */ leaseId) {
    const mine = writes.filter((write) => write.project === this.facts.project);
    const at = mine.findLastIndex((write) => write.leaseId === leaseId);
    const first = mine[at + 1];
    return first === undefined ? undefined : { first, last: mine[at] };
  }

  /** Does it, and returns what makes the tab whole again once it has been followed. */
  async #harm(/** @type {string} */ tab, /** @type {any} */ { page }, /** @type {string} */ fault) {
    const gone = async () => {
      this.tabs.delete(tab);
      // Closed while it is in front, it would leave its place to another tab, which may be a frozen one: that wakes it.
      await this.facts.front.bringToFront();
      await page.close().catch(() => {});
    };
    const cdp = await page.context().newCDPSession(page);
    switch (fault) {
      case "crash":
        // Never answered: whoever would answer is dead.
        cdp.send("Page.crash").catch(() => {});
        return gone;
      case "freeze":
        await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
        return () => cdp.send("Page.setWebLifecycleState", { state: "active" });
      case "cache":
        await page.goto(`${this.facts.url}/away`, { waitUntil: "commit" });
        return async () => {
          // Evicted from the cache it is a fresh page, and no writer.
          if (!(await goBack(page, "typeof writer !== 'undefined'"))) await gone();
        };
      case "close":
        await gone();
        return async () => {};
      default:
        await page.evaluate("writer.polite = true");
        return async () => {};
    }
  }
}

test(`lk_20 lk_21 lk_24 one holder in every mix of tabs, and a follower within the lease and a second`, async ({ server }) => {
  test.setTimeout(120_000 + ROUNDS * 5_000);
  const browser = await openPlainBrowser();
  try {
    const shared = { server, context: browser.context, front: await browser.context.newPage() };
    const kinds = [
      { name: "files", left: Math.ceil(ROUNDS * FILES_SHARE), url: server.url, mechanisms: ["web-lock", "opfs-lock"] },
      { name: "rows", left: Math.floor(ROUNDS * (1 - FILES_SHARE)), url: server.lanUrl, mechanisms: ["idb-lock"] },
    ];
    /** @type {Cohort[]} */
    const cohorts = [];
    const run = async (/** @type {typeof kinds[number]} */ kind, /** @type {number} */ number) => {
      const facts = { url: kind.url, mechanisms: kind.mechanisms, draw: random(SEED + cohorts.length) };
      const cohort = new Cohort({ ...shared, ...facts, project: `${kind.name}-${number}` });
      cohorts.push(cohort);
      while (kind.left-- > 0) {
        await cohort.round();
        // A long run says how far it is.
        if (kind.left > 0 && kind.left % 50 === 0) report(cohorts, server.writes);
      }
    };
    const numbers = Array.from({ length: PROJECTS }, (_, number) => number + 1);
    await Promise.all(kinds.flatMap((kind) => numbers.map((number) => run(kind, number))));
    report(cohorts, server.writes);
    expect(secondHolders(server.writes)).toEqual([]);
    const late = cohorts.flatMap(({ takeovers }) => takeovers).filter(({ ms }) => ms > LEASE_MS + 1_000);
    expect(late, `seed ${SEED}`).toEqual([]);
  } finally {
    await browser.close();
  }
});

/** The counts, for whoever reads the output of a long run. */
function report(/** @type {Cohort[]} */ cohorts, /** @type {import("./support/lock-server.js").Write[]} */ writes) {
  const lines = [`seed ${SEED}, lease ${LEASE_MS} ms, ${writes.length} writes, ${secondHolders(writes).length} by a second holder`];
  for (const { facts, takeovers } of cohorts) {
    const sources = new Map();
    for (const { project, source, leaseId } of writes) {
      if (project === facts.project) sources.set(source, (sources.get(source) ?? new Set()).add(leaseId));
    }
    const leases = [...sources].map(([source, ids]) => `${ids.size} ${source}`).join(", ");
    lines.push(`${facts.project}: ${takeovers.length} rounds, leases: ${leases}`);
    for (const fault of [...new Set(takeovers.map((each) => each.fault))].sort()) {
      const times = takeovers.filter((each) => each.fault === fault).map(({ ms }) => Math.round(ms)).sort((a, b) => a - b);
      lines.push(`  ${fault}: ${times.length} times, followed after ${times[times.length >> 1]} ms (median), ${times.at(-1)} ms (longest)`);
    }
  }
  console.log(lines.join("\n"));
}
