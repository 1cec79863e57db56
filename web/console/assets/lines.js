// A small chart of some lines over the last hour, or as much of it as there is. Lines differ by their dashes as well as by their colours. Guarantees a sentence that says the
// same as the drawing, and a fixed height, so that data moves nothing.

import { h, s, say } from "./dom.js";
import { clock, zone } from "./format.js";
import { t } from "./language.js";
import { scrub } from "./scrub.js";

const HEIGHT_PX = 120;
const EDGE = { left: 44, right: 6, top: 8, bottom: 20 };
const WINDOW_MAX_MS = 3_600_000;
const WINDOW_MIN_MS = 300_000;
// More lines than these cannot be told apart; the largest are drawn.
const LINES_MAX = 5;

/** @typedef {{ label: string, values: (number | null)[] }} Line */

/**
 * @param {string} title
 * @param {"number" | "time"} kind
 */
export function openLines(title, kind) {
  const svg = /** @type {SVGSVGElement} */ (s("svg", { class: "lines", role: "img", height: HEIGHT_PX, width: "100%" }));
  const readout = h("output", { class: "note" });
  const legend = h("ul", { class: "lines-legend note" });
  const node = h("figure", { class: "lines-figure" }, h("figcaption", {}, h("strong", {}, title), readout), svg, legend);
  const cursor = s("line", { class: "chart-cursor", y1: EDGE.top, y2: HEIGHT_PX - EDGE.bottom, visibility: "hidden" });
  const words = kind === "time" ? duration : figure;
  /** @type {{ at: number[], lines: Line[] }} */
  let data = { at: [], lines: [] };
  let width = 0;
  let picked = -1;

  const shownMs = () => Math.min(Math.max((data.at.at(-1) ?? 0) - (data.at[0] ?? 0), WINDOW_MIN_MS), WINDOW_MAX_MS);
  const x = (/** @type {number} */ at) => {
    const to = data.at.at(-1) ?? 0;
    return EDGE.left + (1 - (to - at) / shownMs()) * (width - EDGE.left - EDGE.right);
  };

  function draw() {
    width = svg.clientWidth;
    if (!width) return;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT_PX}`);
    const { at, lines } = data;
    const top = niceTop(Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0))));
    const y = (/** @type {number} */ value) => EDGE.top + (1 - value / top) * (HEIGHT_PX - EDGE.top - EDGE.bottom);
    const base = HEIGHT_PX - EDGE.bottom;
    const nodes = [0, top].flatMap((value) => [
      s("line", { class: value ? "chart-grid" : "chart-base", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
      s("text", { class: "chart-label", x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, words(value)),
    ]);
    const end = at.at(-1);
    if (end !== undefined) {
      const times = [[EDGE.left, end - shownMs(), "start"], [width - EDGE.right, end, "end"]];
      for (const [where, time, anchor] of times) nodes.push(s("text", { class: "chart-label", x: where, y: base + 15, "text-anchor": anchor }, `${clock(Number(time))} ${anchor === "end" ? zone(Number(time)) : ""}`.trim()));
    }
    lines.forEach(({ values }, index) => {
      let path = "";
      let isOpen = false;
      values.forEach((value, n) => {
        if (value === null) return (isOpen = false);
        path += `${isOpen ? "L" : "M"}${x(at[n]).toFixed(1)} ${y(value).toFixed(1)}`;
        isOpen = true;
      });
      if (path) nodes.push(s("path", { class: `lines-line is-${index}`, d: path }));
      // A value between two gaps would be a line of no length.
      values.forEach((value, n) => {
        if (value !== null && (values[n - 1] ?? null) === null && (values[n + 1] ?? null) === null) nodes.push(s("circle", { class: `lines-dot is-${index}`, cx: x(at[n]).toFixed(1), cy: y(value).toFixed(1), r: 1.5 }));
      });
    });
    svg.replaceChildren(...nodes, cursor);
    svg.setAttribute("aria-label", `${title}: ${sentence()}`);
    tell();
  }

  /** Every line at one moment, or now. */
  function sentence(n = data.at.length - 1) {
    if (data.lines.length === 0) return t("nothing yet", "まだありません");
    return data.lines.map(({ label, values }) => `${label ? `${label} ` : ""}${values[n] === null || values[n] === undefined ? "–" : words(/** @type {number} */ (values[n]))}`).join(", ");
  }

  function tell() {
    if (data.at.length === 0) return say(readout, "");
    say(readout, picked < 0 ? sentence() : `${clock(data.at[picked], true)}: ${sentence(picked)}`);
  }

  scrub(svg, {
    positions: () => data.at.map(x),
    pick(index) {
      picked = index ?? -1;
      cursor.setAttribute("visibility", picked < 0 ? "hidden" : "visible");
      if (picked >= 0) for (const end of ["x1", "x2"]) cursor.setAttribute(end, String(x(data.at[picked])));
      tell();
    },
  });
  new ResizeObserver(() => svg.clientWidth !== width && draw()).observe(svg);

  return {
    node,
    show(/** @type {number[]} */ at, /** @type {Line[]} */ lines) {
      const size = (/** @type {Line} */ { values }) => Math.max(0, ...values.map((value) => value ?? 0));
      const largest = lines.toSorted((a, b) => size(b) - size(a)).slice(0, LINES_MAX);
      data = { at, lines: largest };
      legend.replaceChildren(...(largest.length > 1 ? largest.map(({ label }, index) => h("li", { class: `is-${index}` }, s("svg", { class: "lines-key", width: 22, height: 8, "aria-hidden": "true" }, s("line", { class: `lines-line is-${index}`, x1: 0, x2: 22, y1: 4, y2: 4 })), label)) : []));
      draw();
    },
  };
}

function figure(/** @type {number} */ value) {
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value >= 1 ? value.toFixed(1) : value.toFixed(2);
}

function duration(/** @type {number} */ seconds) {
  if (seconds === 0) return "0";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return `${seconds.toFixed(1)} s`;
}

function niceTop(/** @type {number} */ most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return /** @type {number} */ ([1, 2, 5, 10].map((step) => step * power).find((top) => top >= most * 0.999));
}
