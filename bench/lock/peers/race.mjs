// Clients that acquire and release, as fast as they can, for a while:
// node race.mjs <etcd|redlock|proper-lockfile|advisory> <where> <clients> <names> <seconds>
// With fewer names than clients they contend. Prints one line of JSON.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const [peer, where] = process.argv.slice(2, 4);
const [clients, names, seconds] = process.argv.slice(4, 7).map(Number);
const TTL_MS = 15_000;

/** Each gives, per client, a function that acquires a name and gives back a function that releases it. */
const peers = {
  async etcd() {
    const { Etcd3 } = await import("etcd3");
    return () => {
      const client = new Etcd3({ hosts: where });
      return async (name) => {
        for (;;) {
          const lock = client.lock(name).ttl(TTL_MS / 1000);
          try {
            await lock.acquire();
            return () => lock.release();
          } catch (error) {
            // It does not wait: a taken lock is an error, and the caller asks again.
            if (error.constructor.name !== "EtcdLockFailedError") throw error;
            await new Promise((resolve) => setTimeout(resolve, 1));
          }
        }
      };
    };
  },

  async redlock() {
    const [{ default: Redlock }, { default: Redis }] = await Promise.all([import("redlock"), import("ioredis")]);
    return () => {
      const redis = new Redis(where);
      const redlock = new Redlock([redis], { retryCount: -1, retryDelay: 1, retryJitter: 1 });
      redlock.on("error", () => {});
      return async (name) => {
        const lock = await redlock.acquire([name], TTL_MS);
        return () => lock.release();
      };
    };
  },

  async "proper-lockfile"() {
    const { lock } = await import("proper-lockfile");
    await mkdir(where, { recursive: true });
    for (let n = 0; n < names; n += 1) {
      await writeFile(join(where, `name-${n}`), "");
    }
    const retries = { forever: true, minTimeout: 1, maxTimeout: 2, factor: 1 };
    return () => (name) => lock(join(where, name), { stale: TTL_MS, retries, realpath: false });
  },

  async advisory() {
    const { default: pg } = await import("pg");
    return () => {
      const client = new pg.Client({ connectionString: where });
      const connected = client.connect();
      return async (name) => {
        await connected;
        await client.query("select pg_advisory_lock(hashtext($1))", [name]);
        return () => client.query("select pg_advisory_unlock(hashtext($1))", [name]);
      };
    };
  },
};

const connect = await peers[peer]();
const pairs = [];
const handovers = [];
/** Per name: who let go last, and when. */
const last = new Map();
let end = Infinity;

async function race(client) {
  const acquire = connect();
  const name = `name-${client % names}`;
  // The first round connects, and does not count.
  (await acquire(name).then((release) => release()));
  await ready();
  while (performance.now() < end) {
    const asked = performance.now();
    const release = await acquire(name);
    const before = last.get(name);
    if (before && before.client !== client) {
      handovers.push(performance.now() - before.at);
    }
    last.set(name, { client, at: performance.now() });
    await release();
    pairs.push(performance.now() - asked);
  }
}

let waiting = clients;
let open;
const gate = new Promise((resolve) => (open = resolve));
let begun;
function ready() {
  waiting -= 1;
  if (waiting === 0) {
    begun = performance.now();
    end = begun + seconds * 1000;
    open();
  }
  return gate;
}

await Promise.all(Array.from({ length: clients }, (_, client) => race(client)));
const took = (performance.now() - begun) / 1000;

function percentile(values, share) {
  values.sort((one, other) => one - other);
  return values.length === 0 ? null : values[Math.min(values.length - 1, Math.floor(values.length * share))];
}

console.log(
  JSON.stringify({
    pairs_per_second: pairs.length / took,
    pair_ms: { p50: percentile(pairs, 0.5), p99: percentile(pairs, 0.99) },
    handovers: handovers.length,
    handover_ms: { p50: percentile(handovers, 0.5), p99: percentile(handovers, 0.99) },
  }),
);
process.exit(0);
