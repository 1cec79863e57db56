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
  const twice = async () => byClient(await issuer.asked()).filter((moments) => moments.length >= 2).length;
  await expect.poll(twice, { timeout: 180_000 }).toBe(clients);
  const moments = byClient(await issuer.asked());
  // Nobody asks again while a token is in its first half, or before its last 30 s.
  const soonest = Math.min(...moments.flatMap((at) => at.slice(1).map((later, n) => later - at[n])));
  expect(soonest).toBeGreaterThanOrEqual((lives - Math.min(30, lives / 2)) * 1_000 - 1);
  const again = moments.map(([, second]) => second).sort((a, b) => a - b);
  const parts = IS_LONG ? 25 : 5;
  const most = fullest(again, spreadMs / parts);
  console.log(`${clients} clients: renewals within ${again[clients - 1] - again[0]} ms, at most ${most} of them in ${Math.round(spreadMs / parts)} ms`);
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
  return Math.max(...moments.map((from) => moments.filter((at) => at >= from && at < from + ms).length));
}

/** When each of them asked. */
function byClient(/** @type {import("./support/issuer.js").Asked[]} */ asked) {
  const moments = /** @type {Record<string, number[]>} */ ({});
  for (const { sub, at } of asked) (moments[sub] ??= []).push(at);
  return Object.values(moments);
}
