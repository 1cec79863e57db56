// What a back end feels that signs tokens (AC-09): counted by an issuer in a process of its own, with the package and a node as they are
// shipped. `SYNCLINE_ROUNDS` makes it a thousand clients whose tokens count for a minute.

import { startCrowd, startIssuer } from "./support/issuer.js";
import { openSites } from "./support/sites.js";
import { expect, test } from "./support/test.js";

const IS_LONG = process.env.SYNCLINE_ROUNDS !== undefined;

test("ac_09 clients whose tokens end at once ask their issuer once each, spread over the time that is left", async () => {
  test.setTimeout(240_000);
  const [clients, lives] = IS_LONG ? [1_000, 64] : [300, 12];
  // Renewed from 30 s before the end on, of a short token in its second half, and not in the last sixth of that.
  const spreadMs = Math.min(30, lives / 2) * (5 / 6) * 1_000;
  // One address must not have more streams than are free.
  const more = "[limits]\nconnections_per_address = 4000\nevent_streams = 4000\n";
  const { node, close } = await openSites({ more });
  const issuer = await startIssuer();
  const crowd = startCrowd({ node: node.url, issuer: issuer.url, clients, streams: 1, lives });
  await expect.poll(async () => (await issuer.asked()).length, { timeout: 60_000 }).toBeGreaterThanOrEqual(clients);
  await expect.poll(async () => (await issuer.asked()).length, { timeout: 120_000 }).toBeGreaterThanOrEqual(2 * clients);
  const asked = await issuer.asked();
  // Everybody once at the beginning, and once more.
  expect(new Set(asked.slice(0, clients).map(({ sub }) => sub)).size).toBe(clients);
  const again = asked.slice(clients);
  expect(new Set(again.map(({ sub }) => sub)).size).toBe(clients);
  expect(again.length).toBe(clients);
  const parts = IS_LONG ? 25 : 5;
  const most = fullest(again.map(({ at }) => at), spreadMs / parts);
  console.log(`${clients} clients: renewals within ${again[clients - 1].at - again[0].at} ms, at most ${most} of them in ${Math.round(spreadMs / parts)} ms`);
  // Of even ones each part would have its share; all of them together would be all. A busy machine may hold some up.
  expect(most).toBeLessThan((clients / parts) * 3);
  await expect.poll(() => crowd.told.opened, { timeout: 60_000 }).toBeGreaterThanOrEqual(2 * clients);
  expect(crowd.told.problems).toEqual([]);
  crowd.close();
  issuer.close();
  await close();
});

test("ac_09 a token that ends while a laptop sleeps is asked for once, however much waits for it", async () => {
  const { node, close } = await openSites();
  const issuer = await startIssuer();
  // For the laptop the first token counts for 30 s from its arrival; the node calls it expired after 6 s, as if the laptop's clock
  // had stood still meanwhile.
  const crowd = startCrowd({ node: node.url, issuer: issuer.url, clients: 1, streams: 10, lives: 600, age: 84, calls: true });
  await expect.poll(() => crowd.told.opened).toBe(10);
  crowd.freeze();
  await new Promise((resolve) => setTimeout(resolve, 8_000));
  const { answered } = crowd.told;
  crowd.thaw();
  // The ten streams come back, and calls go on.
  await expect.poll(() => crowd.told.opened, { timeout: 20_000 }).toBe(20);
  await expect.poll(() => crowd.told.answered).toBeGreaterThan(answered + 10);
  expect(crowd.told.problems).toEqual([]);
  expect((await issuer.asked()).length).toBe(2);
  crowd.close();
  issuer.close();
  await close();
});

/** The most of these moments that fall into one stretch of `ms`. */
function fullest(/** @type {number[]} */ moments, /** @type {number} */ ms) {
  const sorted = [...moments].sort((a, b) => a - b);
  return Math.max(...sorted.map((from) => sorted.filter((at) => at >= from && at < from + ms).length));
}
