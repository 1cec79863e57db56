// The six queues of the bookshelf, drawn as they hang together: a book goes from left to right.

import { serverNow } from "/assets/api.js";
import { at, h, keyed, say } from "/assets/dom.js";
import { span, whole } from "/assets/format.js";
import { doing, pace, progress, share, troubles } from "/assets/queue-status.js";

/** In the order of the drawing. `place` is the box's place in it, `role` what happens there. */
const STEPS = [
  { name: "scanner", place: "scan", role: "Scanned books" },
  { name: "ndlSearch", place: "search", role: "Search, all pages" },
  { name: "fetchNdlSearch", place: "ndl", role: "NDL Search, one page" },
  { name: "fetchBookImage", place: "image", role: "Cover of a book" },
  { name: "fetchGoogleSearch", place: "google", role: "Google Books" },
  { name: "fetchRakutenSearch", place: "rakuten", role: "Rakuten Books" },
];

/** Whether a queue is one of the bookshelf's own. */
function isOfShelf(/** @type {string} */ name) {
  return STEPS.some((step) => step.name === name);
}

export function openPipeline() {
  /** @type {Map<string, import("/assets/queue-status.js").QueueStatus>} */
  const queues = new Map();

  function show() {
    const steps = STEPS.flatMap((step) => {
      const status = queues.get(step.name);
      return status ? [{ ...step, status }] : [];
    });
    keyed(at("pipeline"), steps, ({ name }) => name, createBox);
    const isStopped = steps.some(({ status: { paused, breaker } }) => paused || breaker !== "closed");
    const left = isStopped ? 0 : Math.max(0, ...steps.map(({ status }) => status.left_ms ?? 0));
    const open = steps.reduce((sum, { status: { counts } }) => sum + counts.waiting + counts.running + counts.retrying, 0);
    say(at("pipeline-left"), open === 0 ? "Nothing to do" : left > 0 ? `About ${span(left + 999)} left` : "At work");
  }

  return {
    load(/** @type {import("/assets/queue-status.js").QueueStatus[]} */ all) {
      queues.clear();
      for (const status of all) queues.set(status.name, status);
      show();
    },
    put(/** @type {import("/assets/queue-status.js").QueueStatus} */ status) {
      if (!isOfShelf(status.name)) return;
      queues.set(status.name, status);
      show();
    },
    tick: show,
  };
}

/** @typedef {{ name: string, place: string, role: string, status: import("/assets/queue-status.js").QueueStatus }} Step */

/** @param {Step} step */
function createBox({ name, place, role }) {
  const depth = h("strong");
  const noun = h("span");
  const now = h("p", { class: "doing" });
  const trouble = h("p", { class: "trouble" });
  const rate = h("p", { class: "note" });
  const terms = h("p", { class: "note" });
  const bar = h("span");
  const box = h(
    "li",
    { class: `step at-${place}` },
    h("h3", {}, role),
    h("p", { class: "note mono" }, name),
    h("p", { class: "depth" }, depth, " ", noun),
    now,
    trouble,
    rate,
    h("div", { class: "through", "aria-hidden": "true" }, bar),
    terms,
  );
  return {
    node: box,
    /** @param {Step} step */
    update({ status }) {
      const { mood, words } = doing(status, serverNow());
      if (box.dataset.mood !== mood) box.dataset.mood = mood;
      say(depth, whole(status.counts.waiting));
      say(noun, "waiting");
      say(now, words);
      say(trouble, troubles(status));
      say(rate, progress(status) || `${whole(status.counts.done)} done`);
      say(terms, pace(status));
      bar.style.inlineSize = `${(share(status) * 100).toFixed(1)}%`;
    },
  };
}
