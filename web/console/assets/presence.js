// Viewers over time as the pages keep them: the node's history, with live figures added as they arrive.

const POINTS_MAX = 5_000;

/** @typedef {import("./chart.js").Point} Point */

/** @param {() => number} now */
export function openPresence(now) {
  /** @type {Point[]} */
  let points = [];
  let current = { viewers: 0, visible: 0, nodes: [] };

  return {
    /** Replaces everything by a fresh answer of `GET /api/viewer`. */
    load(/** @type {any} */ answer) {
      // Samples come at fixed times; only those that change something are points to look at.
      points = answer.history
        .filter(
          (/** @type {Point} */ point, /** @type {number} */ i, /** @type {Point[]} */ all) =>
            i === 0 || !isSame(point, all[i - 1]),
        )
        .slice(-POINTS_MAX);
      this.add(answer);
    },
    /** Takes one live figure. */
    add(/** @type {any} */ figure) {
      current = {
        viewers: Number(figure.viewers) || 0,
        visible: Number(figure.visible) || 0,
        nodes: Array.isArray(figure.nodes) ? figure.nodes : [],
      };
      const last = points[points.length - 1];
      if (last && isSame(last, current)) return;
      points.push({ at: now(), viewers: current.viewers, visible: current.visible });
      if (points.length > POINTS_MAX) points = points.slice(-POINTS_MAX);
    },
    points: () => points,
    current: () => current,
    /** Since when somebody, or nobody, has been watching; null where the record does not reach back so far. */
    since() {
      const watched = current.viewers > 0;
      for (let i = points.length - 1; i > 0; i -= 1) if (points[i - 1].viewers > 0 !== watched) return points[i].at;
      return null;
    },
  };
}

/** @param {{ viewers: number, visible: number }} a @param {{ viewers: number, visible: number }} b */
function isSame(a, b) {
  return a.viewers === b.viewers && a.visible === b.visible;
}
