// The number of viewers over time as a step line: the light layer is everybody, the dark one those who see the page.
// Guarantees a sentence that says the same as the drawing, and a fixed height, so that data moves nothing.

import { h, s, say } from "./dom.js";
import { clock, count, moment, span, whole, zone } from "./format.js";
import { t } from "./language.js";
import { scrub } from "./scrub.js";

const HOUR_MS = 3_600_000;
const WINDOW_MIN_MS = HOUR_MS / 4;
const WINDOW_MAX_MS = 48 * HOUR_MS;
const TICKS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480].map((minutes) => minutes * 60_000);
const TICK_WIDTH_PX = 84;

/** @typedef {{ at: number, viewers: number, visible: number }} Point */

/**
 * A chart inside `figure`.
 * @param {HTMLElement} figure
 * @param {{ height: number, axes: boolean }} options
 */
export function openChart(figure, { height, axes }) {
  const svg = /** @type {SVGSVGElement} */ (s("svg", { class: "chart", role: "img", height, width: "100%" }));
  const readout = h("output", { class: "note chart-readout" });
  const caption = h("figcaption", { class: "note" });
  figure.replaceChildren(...(axes ? [readout, svg, caption] : [svg]));
  /** @type {{ points: Point[], now: number }} */
  let data = { points: [], now: Date.now() };
  /** @type {ReturnType<typeof layOut>} */
  let layout = layOut(data.points, data.now, 0, height, axes);
  let drawnWidth = 0;
  const cursor = s("line", { class: "chart-cursor", y1: 0, y2: height, visibility: "hidden" });

  function draw() {
    drawnWidth = svg.clientWidth;
    if (!drawnWidth) return;
    layout = layOut(data.points, data.now, drawnWidth, height, axes);
    svg.setAttribute("viewBox", `0 0 ${drawnWidth} ${height}`);
    svg.replaceChildren(...drawing(layout, axes), cursor);
    const words = inWords(data.points, layout.from, data.now);
    svg.setAttribute("aria-label", words);
    say(caption, words);
    if (readout.dataset.picked !== "true") say(readout, t(`last ${span(data.now - layout.from)}`, `直近 ${span(data.now - layout.from)}`));
  }

  if (axes) {
    scrub(svg, {
      positions: () => layout.points.map((point) => layout.x(point.at)),
      pick(index) {
        const point = index === null ? null : layout.points[index];
        readout.dataset.picked = String(point !== null);
        cursor.setAttribute("visibility", point ? "visible" : "hidden");
        if (point) for (const end of ["x1", "x2"]) cursor.setAttribute(end, String(layout.x(point.at)));
        say(
          readout,
          point
            ? `${clock(point.at, true)} ${zone(point.at)}: ${t(`${count(point.viewers, "viewer")}, ${point.visible} visible`, `${whole(point.viewers)} 人、表示中 ${point.visible} 人`)}`
            : t(`last ${span(data.now - layout.from)}`, `直近 ${span(data.now - layout.from)}`),
        );
      },
    });
  }
  new ResizeObserver(() => svg.clientWidth !== drawnWidth && draw()).observe(svg);

  return {
    /** @param {Point[]} points oldest first @param {number} now */
    show(points, now) {
      data = { points, now };
      draw();
    },
  };
}

/** @param {Point[]} points @param {number} now @param {number} width @param {number} height @param {boolean} axes */
function layOut(points, now, width, height, axes) {
  const oldest = points[0]?.at ?? now;
  const from = now - Math.min(Math.max(now - oldest, WINDOW_MIN_MS), WINDOW_MAX_MS);
  const inside = points.filter((point) => point.at >= from && point.at <= now);
  const top = niceTop(Math.max(1, ...inside.map((point) => point.viewers)));
  const edge = axes
    ? { left: 8 + 8 * String(top).length, right: 4, top: 8, bottom: 22 }
    : { left: 0, right: 0, top: 3, bottom: 1 };
  return {
    points: inside,
    from,
    now,
    top,
    edge,
    width,
    height,
    x: (/** @type {number} */ at) => edge.left + ((at - from) / (now - from)) * (width - edge.left - edge.right),
    y: (/** @type {number} */ n) => edge.top + (1 - n / top) * (height - edge.top - edge.bottom),
  };
}

/** @param {ReturnType<typeof layOut>} layout @param {boolean} axes */
function drawing(layout, axes) {
  const { points, x, y, now, edge, width } = layout;
  const nodes = axes ? grid(layout) : [s("line", { class: "chart-base", x1: 0, x2: width, y1: y(0), y2: y(0) })];
  if (points.length) {
    for (const key of /** @type {const} */ (["viewers", "visible"])) {
      const line =
        points
          .map((point, i) =>
            i ? `H${fixed(x(point.at))}V${fixed(y(point[key]))}` : `M${fixed(x(point.at))} ${fixed(y(point[key]))}`,
          )
          .join("") + `H${fixed(x(now))}`;
      nodes.push(s("path", { class: `chart-area is-${key}`, d: `${line}V${fixed(y(0))}H${fixed(x(points[0].at))}Z` }));
      if (key === "viewers") nodes.push(s("path", { class: "chart-line", d: line }));
    }
    const last = points[points.length - 1];
    nodes.push(
      s("circle", { class: "chart-now", cx: fixed(x(now) - (axes ? 0 : 5)), cy: fixed(y(last.viewers)), r: 3 }),
    );
  }
  if (axes) nodes.push(s("line", { class: "chart-base", x1: edge.left, x2: width - edge.right, y1: y(0), y2: y(0) }));
  return nodes;
}

/** @param {ReturnType<typeof layOut>} layout */
function grid({ x, y, from, now, top, edge, width, height }) {
  const nodes = [];
  for (const n of top > 1 && top % 2 === 0 ? [0, top / 2, top] : [0, top]) {
    nodes.push(
      s("line", { class: "chart-grid", x1: edge.left, x2: width - edge.right, y1: fixed(y(n)), y2: fixed(y(n)) }),
    );
    nodes.push(s("text", { class: "chart-label", x: edge.left - 6, y: fixed(y(n) + 4), "text-anchor": "end" }, n));
  }
  const room = Math.max(1, Math.floor((width - edge.left) / TICK_WIDTH_PX));
  const step = TICKS_MS.find((ms) => (now - from) / ms <= room) ?? TICKS_MS[TICKS_MS.length - 1];
  // Ticks fall on round local times, which matters where the zone is not a whole number of hours from UTC.
  const zone = new Date(now).getTimezoneOffset() * 60_000;
  for (let at = Math.ceil((from - zone) / step) * step + zone; at < now; at += step) {
    const where = x(at);
    if (where < edge.left + 16 || where > width - 20) continue;
    nodes.push(s("text", { class: "chart-label", x: fixed(where), y: height - 5, "text-anchor": "middle" }, clock(at)));
    nodes.push(s("line", { class: "chart-grid", x1: fixed(where), x2: fixed(where), y1: edge.top, y2: fixed(y(0)) }));
  }
  return nodes;
}

/** The text alternative: now, the most, and how long nobody was there. */
function inWords(/** @type {Point[]} */ points, /** @type {number} */ from, /** @type {number} */ now) {
  const inside = points.filter((point) => point.at >= from && point.at <= now);
  if (!inside.length) return t("No figures yet: the node has just started.", "まだ値がありません。ノードは起動したばかりです。");
  const most = inside.reduce((best, point) => (point.viewers > best.viewers ? point : best));
  const emptyMs = inside.reduce(
    (sum, point, i) => sum + (point.viewers ? 0 : (inside[i + 1]?.at ?? now) - point.at),
    0,
  );
  const begun = `${moment(inside[0].at, now)} ${zone(inside[0].at)}`;
  const since = t(`Since ${begun}: `, `${begun} から：`);
  if (!most.viewers) return `${since}${t("nobody.", "閲覧者なし。")}`;
  const [top, empty, all] = [moment(most.at, now), span(emptyMs), span(now - inside[0].at)];
  return `${since}${t(`at most ${count(most.viewers, "viewer")} (${top}); nobody for ${empty} of ${all}.`, `最大 ${whole(most.viewers)} 人（${top}）、${all} のうち ${empty} は不在。`)}`;
}

function niceTop(/** @type {number} */ n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return /** @type {number} */ ([1, 2, 4, 6, 8, 10].map((step) => step * power).find((top) => top >= n));
}

function fixed(/** @type {number} */ n) {
  return Number(n.toFixed(1));
}
