// Reading a drawing point by point: with the pointer, or with the arrow keys once it has the focus.
// Leaves to the drawing where its points are and how the picked one is shown.

/**
 * @param {SVGSVGElement} svg
 * @param {{ positions: () => number[], pick: (index: number | null) => void }} drawing x of every point, in order
 */
export function scrub(svg, { positions, pick }) {
  let index = -1;

  function choose(/** @type {number} */ next) {
    const last = positions().length - 1;
    if (last < 0) return;
    index = Math.min(Math.max(next, 0), last);
    pick(index);
  }

  function leave() {
    index = -1;
    pick(null);
  }

  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", (event) =>
    choose(nearest(positions(), event.clientX - svg.getBoundingClientRect().left)),
  );
  svg.addEventListener("pointerleave", () => svg !== document.activeElement && leave());
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const from = index < 0 ? positions().length : index;
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: positions().length - 1 }[event.key];
    if (event.key === "Escape") leave();
    if (next === undefined) return;
    event.preventDefault();
    choose(next);
  });
}

/** @param {number[]} positions ascending @param {number} x */
function nearest(positions, x) {
  let best = 0;
  for (let i = 1; i < positions.length; i += 1) {
    if (Math.abs(positions[i] - x) <= Math.abs(positions[best] - x)) best = i;
  }
  return best;
}
