// The table of jobs: when each runs in words, what gates it, its next and last tick, and a button to run it now.

import { ask, serverNow } from "./api.js";
import { cronInWords } from "./cron.js";
import { h, keyed, say } from "./dom.js";
import { ago, clock, countdown, exact, money } from "./format.js";
import { t } from "./language.js";
import { reasonOf, result } from "./runs.js";

const GATES = {
  viewers: t("while somebody watches", "誰かが見ている間"),
  visible: t("while somebody has it in sight", "誰かが表示している間"),
  always: t("always", "常に"),
};

/**
 * @param {HTMLElement} body the table's body
 * @param {any[]} jobs
 * @param {{ viewers: number, visible: number }} presence
 */
export function showJobs(body, jobs, presence) {
  keyed(
    body,
    jobs.map((job) => ({ job, presence })),
    ({ job }) => job.name,
    createRow,
  );
}

/** @param {{ job: any }} first */
function createRow({ job }) {
  const next = h("span");
  const note = h("small", { class: "note" });
  const last = h("td", { "data-label": t("Last", "前回") });
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  const button = /** @type {HTMLButtonElement} */ (
    h(
      "button",
      { class: "button small", type: "button", "data-needs": `job:${job.name}:run`, on: { click: () => runNow(job.name, button, trouble) } },
      t("Run now", "今すぐ実行"),
    )
  );
  button.setAttribute("aria-label", `${t("Run now", "今すぐ実行")}: ${job.name}`);
  const node = h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h("span", { class: "mono job-title" }, job.name),
      h("small", { class: "note" }, t(`${job.kind}, ${money(job.cost_usd)} a run`, `${job.kind}、1 回 ${money(job.cost_usd)}`)),
    ),
    h(
      "td",
      { "data-label": t("Runs", "実行") },
      h("div", {}, cronInWords(job.cron), h("small", { class: "note mono" }, job.cron)),
    ),
    h("td", { "data-label": t("Gate", "条件") }, GATES[gateOf(job)]),
    h("td", { "data-label": t("Next", "次回") }, h("div", {}, next, note)),
    last,
    h("td", { class: "number" }, button, trouble),
  );
  let shown = "";
  return {
    node,
    /** @param {{ job: any, presence: { viewers: number, visible: number } }} row */
    update({ job, presence }) {
      say(next, job.running ? t("running now", "実行中") : job.next_at ? t(`in ${countdown(job.next_at - serverNow())}`, `${countdown(job.next_at - serverNow())} 後`) : t("never", "なし"));
      say(note, forecast(job, presence));
      const run = job.last;
      const key = run ? `${run.id} ${run.state}` : "none";
      if (key !== shown) {
        last.replaceChildren(
          run
            ? h(
                "div",
                {},
                result(run),
                h("small", { class: "note" }, reasonOf(run), ", ", h("span", { class: "when" })),
              )
            : t("not yet", "まだ"),
        );
        shown = key;
      }
      const when = last.querySelector(".when");
      const at = run?.finished_at ?? run?.started_at;
      if (when && at) {
        say(when, ago(at, serverNow()));
        when.setAttribute("title", exact(at));
      }
    },
  };
}

/** What the next tick will do if nothing changes until then. */
function forecast(/** @type {any} */ job, /** @type {{ viewers: number, visible: number }} */ presence) {
  if (!job.next_at) return "";
  const at = clock(job.next_at, job.cron.trim().split(/\s+/).length === 6);
  const audience = { viewers: presence.viewers, visible: presence.visible, always: 1 }[gateOf(job)];
  return audience ? at : t(`${at}, skipped unless watched`, `${at}（見られていなければ見送り）`);
}

/** @returns {keyof typeof GATES} */
function gateOf(/** @type {any} */ job) {
  if (job.gate === "always") return "always";
  return String(job.gate).includes("visible") ? "visible" : "viewers";
}

async function runNow(
  /** @type {string} */ name,
  /** @type {HTMLButtonElement} */ button,
  /** @type {HTMLElement} */ trouble,
) {
  button.disabled = true;
  trouble.hidden = true;
  try {
    await ask(`/api/jobs/${encodeURIComponent(name)}/run`, { method: "POST" });
  } catch (error) {
    say(trouble, error.message);
    trouble.hidden = false;
  } finally {
    button.disabled = false;
  }
}
