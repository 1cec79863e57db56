// Rounds that can be run again: what happens in them follows from a seed, which a failure names.

export const SEED = Number(process.env.SYNCLINE_SEED ?? Date.now() % 1_000_000);

/** Numbers that look random and are the same for the same seed. */
export function random(/** @type {number} */ seed) {
  return (/** @type {number} */ below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
