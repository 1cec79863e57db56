// The history of one job, page by page, newest first. New records appear by themselves on the newest page only, so that
// nothing moves under the eyes of somebody who is reading an older one.

import { ask } from "./api.js";
import { at, h, keyed, say } from "./dom.js";
import { exact, moment, money, span } from "./format.js";
import { t } from "./language.js";
import { isToTheSecond, momentOf, reasonOf, result } from "./runs.js";

const PAGE_ROWS = 20;

/** @typedef {import("./runs.js").Run} Run */

/** Wires the table, its job choice and its paging. */
export function openHistory(/** @type {() => number} */ now) {
  const choice = /** @type {HTMLSelectElement} */ (at("history-job"));
  const older = /** @type {HTMLButtonElement} */ (at("history-older"));
  const newer = /** @type {HTMLButtonElement} */ (at("history-newer"));
  const trouble = at("history-trouble");
  /** @type {Run["id"][]} The page shown is the last; each is the id its rows come before. */
  let pages = [null];
  let asked = 0;
  // A link may say whose history is meant.
  let meant = new URLSearchParams(location.search).get("job");

  async function load() {
    const job = choice.value;
    if (!job) return;
    const turn = (asked += 1);
    const before = pages[pages.length - 1];
    const query = `limit=${PAGE_ROWS + 1}${before === null ? "" : `&before=${encodeURIComponent(before)}`}`;
    try {
      const { runs } = await ask(`/api/jobs/${encodeURIComponent(job)}/history?${query}`);
      // A slow answer must not replace that to a later question.
      if (turn !== asked) return;
      trouble.hidden = true;
      show(runs);
    } catch (error) {
      if (turn !== asked) return;
      say(trouble, error.message);
      trouble.hidden = false;
    }
  }

  function show(/** @type {Run[]} */ runs) {
    const rows = runs.slice(0, PAGE_ROWS);
    keyed(
      at("history"),
      rows,
      (run) => run.id ?? `${run.job} ${run.started_at}`,
      (run) => createRow(run, now()),
    );
    at("history-empty").hidden = rows.length > 0;
    older.disabled = runs.length <= PAGE_ROWS;
    newer.disabled = pages.length === 1;
    older.onclick = () => turn(() => pages.push(rows[rows.length - 1].id));
    say(at("history-place"), t(`page ${pages.length}`, `${pages.length} ページ`));
  }

  function turn(/** @type {() => void} */ step) {
    step();
    load();
  }

  newer.onclick = () => turn(() => pages.pop());
  choice.onchange = () => turn(() => (pages = [null]));

  return {
    /** Offers these jobs; keeps the choice where it still exists. */
    offer(/** @type {string[]} */ names) {
      const kept = choice.value;
      keyed(
        choice,
        names,
        (name) => name,
        (name) => ({ node: h("option", { value: name }, name), update() {} }),
      );
      if (!names.includes(kept) && names.length) choice.value = names[0];
      if (meant !== null && names.includes(meant)) choice.value = meant;
      meant = null;
      at("history-part").hidden = names.length === 0;
    },
    /** Reads the newest page of `job` again, if that is what is shown; an older page stays as it is. */
    refresh(job = choice.value) {
      if (pages.length === 1 && job === choice.value) load();
    },
  };
}

function createRow(/** @type {Run} */ first, /** @type {number} */ now) {
  const cells = {
    result: h("td"),
    why: h("td"),
    took: h("td", { "data-label": t("took", "時間"), class: "number" }),
    cost: h("td", { "data-label": t("cost", "費用"), class: "number" }),
    detail: h("td", { class: "detail" }),
  };
  const when = momentOf(first);
  const node = h(
    "tr",
    {},
    h(
      "td",
      {},
      h(
        "time",
        { datetime: new Date(when).toISOString(), title: exact(when) },
        moment(when, now, isToTheSecond(first)),
      ),
    ),
    cells.result,
    cells.why,
    cells.took,
    cells.cost,
    h("td", { "data-label": t("on", "ノード"), class: "mono" }, first.node),
    cells.detail,
  );
  let shown = "";
  return {
    node,
    update(/** @type {Run} */ run) {
      if (run.state === shown) return;
      shown = run.state;
      cells.result.replaceChildren(result(run));
      say(cells.why, reasonOf(run));
      say(cells.took, run.decision === "run" ? took(run) : "");
      say(cells.cost, run.decision === "run" && run.cost_usd ? money(run.cost_usd) : "");
      say(cells.detail, [run.attempts > 1 ? t(`${run.attempts} attempts`, `${run.attempts} 回`) : "", run.detail].filter(Boolean).join("; "));
    },
  };
}

function took(/** @type {Run} */ run) {
  if (!run.started_at || !run.finished_at) return "";
  const ms = run.finished_at - run.started_at;
  return ms < 10_000 ? `${ms} ms` : span(ms);
}
