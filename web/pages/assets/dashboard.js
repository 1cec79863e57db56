// The overview: viewers live, the schedule's next and last tick, what queues have to do, the node's health. Watching it makes no viewer.

import { ask, nodeStartedAt, serverNow } from "./api.js";
import { openPage } from "./app.js";
import { openChart } from "./chart.js";
import { cronInWords } from "./cron.js";
import { at, h, keyed, say } from "./dom.js";
import { ago, count, countdown, money, moment, span, whole } from "./format.js";
import { openPresence } from "./presence.js";
import { reasonOf, result } from "./runs.js";

const presence = openPresence(serverNow);
const chart = openChart(at("viewer-chart"), { height: 72, axes: false });
/** @type {any[]} */
let jobs = [];
/** @type {{ ok: boolean, reason?: string } | null} */
let ready = null;
/** @type {number | null} */
let startedAt = null;
/** @type {Map<string, { counts: { waiting: number, running: number, retrying: number, dead: number } }>} */
let queues = new Map();

const page = openPage({
  topics: ["viewer", "job", "queue"],
  async read() {
    const [viewer, schedule, health, started, { queues: all }] = await Promise.all([
      ask("/api/viewer"),
      ask("/api/jobs"),
      readiness(),
      nodeStartedAt(),
      ask("/api/queues"),
    ]);
    queues = new Map(all.map((/** @type {any} */ queue) => [queue.name, queue]));
    presence.load(viewer);
    jobs = schedule.jobs;
    ready = health;
    startedAt = started;
    showViewers();
    showJobs();
    showHealth();
    showQueues();
  },
  on: {
    queue(status) {
      queues.set(status.name, status);
      showQueues();
    },
    viewer(figure) {
      presence.add(figure);
      showViewers();
    },
    job: () => page.refresh(),
  },
  tick() {
    showSince();
    showJobs();
    showHealth();
  },
});

/** Not being ready is an answer too, so a refusal is shown, not thrown. */
async function readiness() {
  try {
    await ask("/readyz");
    return { ok: true };
  } catch (error) {
    if (error.needsToken || error.code === "unreachable") throw error;
    return { ok: false, reason: error.message };
  }
}

function showViewers() {
  const { viewers, visible, nodes } = presence.current();
  say(at("viewers"), whole(viewers));
  say(at("viewers-noun"), viewers === 1 ? "viewer" : "viewers");
  say(
    at("viewers-visible"),
    viewers
      ? `${whole(visible)} with the page in sight${nodes.length > 1 ? `, on ${count(nodes.length, "node")}` : ""}`
      : "Nobody is watching; gated jobs rest.",
  );
  document.title = `${count(viewers, "viewer")} · Syncline`;
  chart.show(presence.points(), serverNow());
  showSince();
}

function showSince() {
  const since = presence.since();
  const watched = presence.current().viewers > 0;
  say(
    at("viewers-since"),
    since === null
      ? ""
      : `${watched ? "watched" : "empty"} since ${moment(since, serverNow())} (${span(serverNow() - since)})`,
  );
}

function showJobs() {
  at("jobs-empty").hidden = jobs.length > 0;
  keyed(at("jobs"), jobs, (job) => job.name, createJob);
  const saved = jobs.reduce((sum, job) => sum + (job.totals?.saved_usd ?? 0), 0);
  const skips = jobs.reduce(
    (sum, job) => sum + Object.values(job.totals?.skips ?? {}).reduce((a, b) => a + Number(b), 0),
    0,
  );
  say(at("saved"), jobs.length ? `${money(saved)} saved by ${count(skips, "skipped run")}` : "");
}

function createJob(/** @type {any} */ job) {
  const next = h("span", { class: "job-next" });
  const last = h("p", { class: "job-last" });
  let shown = "";
  const node = h(
    "li",
    { class: "job" },
    h("p", { class: "job-name" }, h("strong", { class: "mono" }, job.name), next),
    last,
  );
  return {
    node,
    update(/** @type {any} */ job) {
      say(
        next,
        job.running ? "running now" : job.next_at ? `next in ${countdown(job.next_at - serverNow())}` : "no next run",
      );
      const run = job.last;
      const key = run ? `${run.id} ${run.state}` : "none";
      if (key !== shown) {
        const when = h("span", { class: "note job-when" });
        last.replaceChildren(
          ...(run ? [result(run), ` · ${reasonOf(run)} · `, when] : [`Not run yet: ${cronInWords(job.cron)}`]),
        );
        shown = key;
      }
      const when = last.querySelector(".job-when");
      const at = run?.finished_at ?? run?.started_at;
      if (when && at) say(when, ago(at, serverNow()));
    },
  };
}

function showQueues() {
  const sum = (/** @type {"waiting" | "running" | "retrying" | "dead"} */ place) =>
    [...queues.values()].reduce((total, { counts }) => total + counts[place], 0);
  const left = sum("waiting") + sum("running") + sum("retrying");
  const work = left === 0 ? "at rest" : `${count(left, "key")} to go`;
  const dead = sum("dead") > 0 ? `, ${whole(sum("dead"))} dead` : "";
  say(at("queue-note"), `${count(queues.size, "queue")}, ${work}${dead}`);
}

function showHealth() {
  if (!ready) return;
  say(at("health-ready"), ready.ok ? "Ready" : "Not ready");
  at("health-ready").classList.toggle("is-bad", !ready.ok);
  say(at("health-store"), ready.ok ? "Answers" : (ready.reason ?? ""));
  say(at("health-uptime"), startedAt ? span(serverNow() - startedAt) : "unknown");
}
