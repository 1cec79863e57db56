// One strip per job: every tick as a mark on a time axis, run, skipped or failed by its outline.
// As many ticks as have room are drawn, so that outlines stay legible on a phone; the history table has the rest.

import { h, icon, s, say } from "./dom.js";
import { clock, count, span, whole } from "./format.js";
import { t } from "./language.js";
import { isToTheSecond, momentOf, reasonOf, stateOf, WORDS } from "./runs.js";
import { scrub } from "./scrub.js";

/** @typedef {import("./runs.js").Run} Run */

const HEIGHT_PX = 46;
const MARK_PX = 12;
const TICK_ROOM_PX = 15;
const AXIS_LABEL_PX = 84;
// Times at which a scale is marked: round ones.
const STEPS_MS = [1, 5, 10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400].map((seconds) => seconds * 1_000);

/** The strip of one job. */
export function openTimeline(/** @type {string} */ job) {
  const svg = /** @type {SVGSVGElement} */ (
    s("svg", { class: "timeline", role: "img", height: HEIGHT_PX, width: "100%" })
  );
  const readout = h("output", { class: "note" });
  const node = h(
    "li",
    { class: "timeline-row" },
    h("div", { class: "timeline-head" }, h("h3", { class: "mono" }, job), readout),
    svg,
  );
  /** @type {{ runs: Run[], now: number }} */
  let data = { runs: [], now: Date.now() };
  let layout = layOut(data.runs, data.now, 0);
  let drawnWidth = 0;
  let picked = false;

  function draw() {
    drawnWidth = svg.clientWidth;
    if (!drawnWidth) return;
    layout = layOut(data.runs, data.now, drawnWidth);
    svg.setAttribute("viewBox", `0 0 ${drawnWidth} ${HEIGHT_PX}`);
    svg.setAttribute("height", layout.marks.length ? String(HEIGHT_PX) : "0");
    svg.setAttribute("tabindex", layout.marks.length ? "0" : "-1");
    svg.setAttribute("aria-label", `${job}: ${inWords(layout.marks)}`);
    svg.replaceChildren(
      ...(layout.marks.length ? axis(layout) : []),
      ...layout.marks.map(({ run, x }) => mark(run, x)),
    );
    if (!picked) say(readout, inWords(layout.marks));
  }

  scrub(svg, {
    positions: () => layout.marks.map(({ x }) => x),
    pick(index) {
      const chosen = index === null ? null : layout.marks[index];
      picked = chosen !== null;
      svg.querySelector(".is-picked")?.classList.remove("is-picked");
      if (chosen) svg.querySelectorAll(".mark")[/** @type {number} */ (index)]?.classList.add("is-picked");
      say(
        readout,
        chosen
          ? `${clock(momentOf(chosen.run), isToTheSecond(chosen.run))} ${WORDS[stateOf(chosen.run)]}: ${reasonOf(chosen.run)}`
          : inWords(layout.marks),
      );
    },
  });
  new ResizeObserver(() => svg.clientWidth !== drawnWidth && draw()).observe(svg);

  return {
    node,
    /** @param {Run[]} runs newest first */
    show(runs, /** @type {number} */ now) {
      data = { runs, now };
      draw();
    },
  };
}

/** The meaning of every outline, in words. */
export function legend() {
  const states = /** @type {const} */ (["done", "skipped", "failed", "running", "abandoned"]);
  return h(
    "ul",
    { class: "legend note" },
    states.map((state) => h("li", { class: `result is-${state}` }, icon(state), WORDS[state])),
  );
}

/** @param {Run[]} runs newest first @param {number} now @param {number} width */
function layOut(runs, now, width) {
  const sorted = runs.toSorted((a, b) => momentOf(a) - momentOf(b));
  const tickMs = shortestGap(sorted) ?? 60_000;
  const room = Math.max(8, Math.floor(width / TICK_ROOM_PX));
  // The axis ends just after the newest mark, not at `now`: otherwise every second would move every mark.
  const to = (sorted.length ? momentOf(sorted[sorted.length - 1]) : now) + tickMs / 2;
  const from = to - room * tickMs;
  const x = (/** @type {number} */ at) => ((at - from) / (to - from)) * width;
  return {
    from,
    to,
    tickMs,
    width,
    x,
    marks: sorted.filter((run) => momentOf(run) > from).map((run) => ({ run, x: x(momentOf(run)) })),
  };
}

/** @param {Run[]} sorted oldest first */
function shortestGap(sorted) {
  let gap = Infinity;
  // A run by hand falls between two ticks.
  const ticks = sorted.filter(({ bucket }) => bucket !== null);
  for (let i = 1; i < ticks.length; i += 1) {
    const between = momentOf(ticks[i]) - momentOf(ticks[i - 1]);
    if (between >= 1_000) gap = Math.min(gap, between);
  }
  return Number.isFinite(gap) ? gap : null;
}

function mark(/** @type {Run} */ run, /** @type {number} */ x) {
  const state = stateOf(run);
  const use = s("use", {
    href: `/assets/icons.svg#${state}`,
    x: (x - MARK_PX / 2).toFixed(1),
    y: 6,
    width: MARK_PX,
    height: MARK_PX,
  });
  return s("g", { class: `mark is-${state}` }, use);
}

/** @param {ReturnType<typeof layOut>} layout */
function axis({ x, from, to, width }) {
  const nodes = [s("line", { class: "chart-grid", x1: 0, x2: width, y1: 24, y2: 24 })];
  const room = Math.max(1, width / AXIS_LABEL_PX);
  // A scale of years, as a wrong time makes it, has marks as well, and few.
  const every = STEPS_MS.find((ms) => (to - from) / ms <= room) ?? Math.ceil((to - from) / room);
  // Round in local time, which matters where the zone is not a whole number of hours from UTC.
  const offset = new Date(to).getTimezoneOffset() * 60_000;
  for (let at = Math.ceil((from - offset) / every) * every + offset; at < to; at += every) {
    if (x(at) < 20 || x(at) > width - 22) continue;
    nodes.push(s("line", { class: "chart-base", x1: x(at).toFixed(1), x2: x(at).toFixed(1), y1: 24, y2: 28 }));
    nodes.push(
      s(
        "text",
        { class: "chart-label", x: x(at).toFixed(1), y: 42, "text-anchor": "middle" },
        clock(at, every < 60_000),
      ),
    );
  }
  return nodes;
}

/** @param {{ run: Run }[]} marks */
function inWords(marks) {
  if (!marks.length) return t("no tick yet", "まだありません");
  const ran = marks.filter(({ run }) => run.decision === "run").length;
  const first = momentOf(marks[0].run);
  const last = momentOf(marks[marks.length - 1].run);
  return t(`${count(ran, "run")}, ${marks.length - ran} skipped in ${span(last - first)}`, `${span(last - first)} で実行 ${whole(ran)}、見送り ${whole(marks.length - ran)}`);
}
