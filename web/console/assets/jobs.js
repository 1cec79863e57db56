// The table of jobs: when each runs in words, what gates it, its next and last tick, and buttons to run, pause and end it. A pause holds on all
// nodes; so does the end of a run.

import { ask, serverNow } from "./api.js";
import { cronInWords } from "./cron.js";
import { h, keyed, say } from "./dom.js";
import { ago, clock, countdown, exact, moment, money } from "./format.js";
import { t } from "./language.js";
import { reasonOf, result } from "./runs.js";

const GATES = {
  viewers: t("while somebody watches", "誰かが見ている間"),
  visible: t("while somebody has it in sight", "誰かが表示している間"),
  always: t("always", "常に"),
};

/** What the page does after a job was told something: it asks how the jobs are now. */
let told = () => {};

export function onJobTold(/** @type {() => void} */ then) {
  told = then;
}

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
  const next = h("span", { class: "job-next" });
  const note = h("small", { class: "note" });
  const last = h("td", { "data-label": t("Last", "前回") });
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  let isPaused = false;
  const press = (/** @type {string} */ verb, /** @type {() => string} */ action, /** @type {string} */ label, question = () => "") => {
    const button = /** @type {HTMLButtonElement} */ (h("button", { class: "button small", type: "button", "data-needs": `job:${job.name}:${verb}`, on: { click } }));
    async function click() {
      const asked = question();
      if (asked && !confirm(asked)) return;
      await tell(job.name, action(), button, trouble);
    }
    name(button, label, job.name);
    return button;
  };
  const run = press("run", () => "run", t("Run now", "今すぐ実行"));
  const hold = press("control", () => (isPaused ? "resume" : "pause"), t("Pause", "停止"), () =>
    isPaused ? "" : t(`Pause ${job.name} on all nodes? Its firings are skipped; a run under way goes on.`, `すべてのノードで ${job.name} を停止しますか。予定は見送られ、実行中のものは続きます。`),
  );
  const cancel = press("control", () => "cancel", t("Cancel run", "実行を中止"), () =>
    t(`End the run of ${job.name} that is under way? It ends as failed, and a command is killed.`, `実行中の ${job.name} を中止しますか。失敗として記録されます。`),
  );
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
    h("td", { "data-label": t("Gate", "条件") }, gateInWords(job)),
    h("td", { "data-label": t("Next", "次回") }, h("div", {}, next, note)),
    last,
    h("td", { class: "number" }, h("p", { class: "actions" }, run, hold, cancel), trouble),
  );
  let shown = "";
  return {
    node,
    /** @param {{ job: any, presence: { viewers: number, visible: number } }} row */
    update({ job, presence }) {
      isPaused = Boolean(job.paused_at);
      name(hold, isPaused ? t("Resume", "再開") : t("Pause", "停止"), job.name);
      // A run of another node is under way as well.
      cancel.hidden = !job.running && job.last?.state !== "running";
      node.classList.toggle("is-paused", isPaused);
      say(next, isPaused ? t("paused", "停止中") : job.running ? t("running now", "実行中") : job.next_at ? t(`in ${countdown(job.next_at - serverNow())}`, `${countdown(job.next_at - serverNow())} 後`) : t("never", "なし"));
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
  if (job.paused_at) return t(`since ${moment(job.paused_at, serverNow())}`, `${moment(job.paused_at, serverNow())} から`);
  if (!job.next_at) return "";
  const at = clock(job.next_at, job.cron.trim().split(/\s+/).length === 6);
  const audience = { viewers: presence.viewers, visible: presence.visible, always: 1 }[gateOf(job)];
  // Who is in a room is on its own page.
  return audience && !roomOf(job) ? at : t(`${at}, skipped unless watched`, `${at}（見られていなければ見送り）`);
}

/** @returns {keyof typeof GATES} */
function gateOf(/** @type {any} */ job) {
  if (job.gate === "always") return "always";
  return String(job.gate).includes("visible") ? "visible" : "viewers";
}

/** The room that a gate is about, as in `viewers:lobby`. */
function roomOf(/** @type {any} */ job) {
  const gate = String(job.gate);
  return gate.includes(":") ? gate.slice(gate.indexOf(":") + 1) : "";
}

function gateInWords(/** @type {any} */ job) {
  const room = roomOf(job);
  if (!room) return GATES[gateOf(job)];
  const link = h("a", { class: "mono", href: `/viewer/rooms?one=${encodeURIComponent(room)}` }, room);
  return h("span", {}, GATES[gateOf(job)], t(" in ", "："), link);
}

/** A button's words, which say for which job they are to those who hear them. */
function name(/** @type {Element} */ button, /** @type {string} */ label, /** @type {string} */ job) {
  say(button, label);
  button.setAttribute("aria-label", `${label}: ${job}`);
}

async function tell(
  /** @type {string} */ name,
  /** @type {string} */ action,
  /** @type {HTMLButtonElement} */ button,
  /** @type {HTMLElement} */ trouble,
) {
  button.disabled = true;
  trouble.hidden = true;
  try {
    await ask(`/api/jobs/${encodeURIComponent(name)}/${action}`, { method: "POST" });
    told();
  } catch (error) {
    say(trouble, error.message);
    trouble.hidden = false;
  } finally {
    button.disabled = false;
    button.focus();
  }
}
