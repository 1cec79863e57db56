// One holder in every engine and mode (RE-02, RE-03), shown from outside: tabs that take every way to the lock meet, and in each round
// the holder is crashed, closed, reloaded or asked to let go. A server that none of them can influence sees every write.
// SYNCLINE_ROUNDS makes it longer.

import { expect, openTab, test } from "./support/engines.js";
import { secondHolders } from "./support/lock-server.js";
import { SEED, random } from "./support/random.js";

const ROUNDS = Number(process.env.SYNCLINE_ROUNDS ?? 16);
const LEASE_MS = 3_000;
const TABS = 3;
const FAULTS = ["crash", "close", "reload", "let go"];
// A machine that is busy with other things stretches everything; a tab that never comes is something else.
const PATIENCE_MS = 40_000;

/** @typedef {import("./support/engines.js").Tab} Tab */
/** @typedef {import("./support/lock-server.js").Write} Write */

class Cohort {
  /** @type {Map<string, Tab>} */
  tabs = new Map();
  takeovers = /** @type {{ fault: string, ms: number }[]} */ ([]);
  #opened = 0;

  /**
   * @param {{ project: string, url: string, mechanisms: string[], server: Awaited<ReturnType<typeof import("./support/lock-server.js").openLockServer>>,
   *   browser: import("./support/engines.js").Browser, draw: (below: number) => number }} facts
   */
  constructor(facts) {
    this.facts = facts;
  }

  async #begin(/** @type {Tab} */ tab) {
    const { project, mechanisms, draw } = this.facts;
    const name = `${project}-${(this.#opened += 1)}`;
    const options = { mechanism: mechanisms[draw(mechanisms.length)], leaseMs: LEASE_MS, maxWaitMs: 1_000 };
    await tab.evaluate(
      (/** @type {any} */ settings) => import(/** @type {any} */ ("/writer.js")).then(({ startWriter }) => startWriter(settings)),
      { tab: name, project, deaf: false, options },
    );
    this.tabs.set(name, tab);
  }

  async round() {
    const { browser, url, server, project, draw } = this.facts;
    while (this.tabs.size < TABS) await this.#begin(await openTab(browser, url));
    const seen = server.writes.length;
    const isTheirs = (/** @type {Write} */ write) => write.project === project && this.tabs.has(write.tab);
    const { tab: name, leaseId } = await server.until((writes) => writes.slice(seen).find(isTheirs), PATIENCE_MS, `a holder of ${project}`);
    const fault = FAULTS[draw(FAULTS.length)];
    const tab = /** @type {Tab} */ (this.tabs.get(name));
    if (fault !== "let go") this.tabs.delete(name);
    await harm(tab, fault);
    const what = `a successor of ${name} (${fault}), seed ${SEED}`;
    const { first, last } = await server.until((writes) => this.#successor(writes.slice(seen), leaseId), PATIENCE_MS, what);
    this.takeovers.push({ fault, ms: first.at - last.at });
    if (fault === "reload") await this.#begin(tab);
  }

  /** The first write under another lease after the last one under `leaseId`, with that last one. */
  #successor(/** @type {Write[]} */ writes, /** @type {string} */ leaseId) {
    const mine = writes.filter((write) => write.project === this.facts.project);
    const at = mine.findLastIndex((write) => write.leaseId === leaseId);
    return mine[at + 1] === undefined ? undefined : { first: mine[at + 1], last: mine[at] };
  }
}

async function harm(/** @type {Tab} */ tab, /** @type {string} */ fault) {
  if (fault === "crash") await tab.crash();
  else if (fault === "close") await tab.close();
  else if (fault === "reload") await tab.reload();
  else await tab.evaluate(() => void (/** @type {any} */ (window).writer.polite = true));
}

test("re_02 re_03 one holder in every mode, whatever happens to it, and a follower within the lease and a second", async ({ engine, open, server }) => {
  test.setTimeout(180_000 + ROUNDS * 10_000);
  const browser = await open({ crashes: true });
  const probe = await openTab(browser, server.url);
  const hasFiles = await probe.evaluate(async () => (await import(/** @type {any} */ ("/pkg/lock-record.js"))).usesFiles());
  const record = hasFiles ? "opfs-lock" : "idb-lock";
  const kinds = [
    { project: "rows", url: server.lanUrl, mechanisms: ["idb-lock"] },
    { project: "record", url: server.url, mechanisms: [record] },
    { project: "mixed", url: server.url, mechanisms: ["web-lock", record] },
  ];
  const cohorts = kinds.map((kind, number) => new Cohort({ ...kind, server, browser, draw: random(SEED + number) }));
  for (let round = 1; round <= ROUNDS; round += 1) {
    await cohorts[round % cohorts.length].round();
    if (round % 50 === 0 || round === ROUNDS) console.log(report(engine, round, cohorts, server.writes));
  }
  expect(secondHolders(server.writes), `seed ${SEED}`).toEqual([]);
  const late = cohorts.flatMap(({ takeovers }) => takeovers).filter(({ ms }) => ms > LEASE_MS + 1_000);
  expect(late, `seed ${SEED}`).toEqual([]);
});

/** The counts, for whoever reads the output of a long run. */
function report(/** @type {string} */ engine, /** @type {number} */ rounds, /** @type {Cohort[]} */ cohorts, /** @type {Write[]} */ writes) {
  const leases = new Set(writes.map(({ leaseId }) => leaseId)).size;
  const lines = [`${engine}, seed ${SEED}: ${rounds} rounds, ${leases} leases, ${writes.length} writes, ${secondHolders(writes).length} by a second holder`];
  for (const { facts, takeovers } of cohorts) {
    for (const fault of FAULTS) {
      const times = takeovers.filter((each) => each.fault === fault).map(({ ms }) => Math.round(ms)).sort((a, b) => a - b);
      if (times.length > 0) lines.push(`  ${facts.project}, ${fault}: ${times.length} times, followed after ${times[times.length >> 1]} ms (median), ${times.at(-1)} ms (longest)`);
    }
  }
  return lines.join("\n");
}
