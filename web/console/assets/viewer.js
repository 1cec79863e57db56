// The viewer page: who watches now and before, what the schedule ran and skipped and why, what that cost and saved.
// Watching this page makes no viewer.

import { ask, serverNow } from "./api.js";
import { oneAtATime, openPage } from "./app.js";
import { openChart } from "./chart.js";
import { at, h, keyed, say } from "./dom.js";
import { count, money, moment, span, whole, zone } from "./format.js";
import { openHistory } from "./history.js";
import { onJobTold, showJobs } from "./jobs.js";
import { t } from "./language.js";
import { merge } from "./news.js";
import { openPresence } from "./presence.js";
import { wordsOf } from "./runs.js";
import { askIf, may } from "./session.js";
import { legend, openTimeline } from "./timeline.js";

// A pause through another node is no news here: the jobs are looked at again this often.
const LOOK_MS = 5_000;
// More ticks than the widest strip has room for.
const TIMELINE_TICKS = 100;

const presence = openPresence(serverNow);
const chart = openChart(at("viewer-chart"), { height: 220, axes: true });
const history = openHistory(serverNow);
/** @type {any[]} */
let jobs = [];
/** @type {Map<string, import("./runs.js").Run[]>} */
let runs = new Map();

at("legend").replaceChildren(legend());

const page = openPage({
  async read() {
    await merge(readAll(), ([viewer, schedule, histories]) => {
      presence.load(viewer);
      jobs = schedule.jobs;
      runs = new Map(jobs.map((job, i) => [job.name, histories[i].runs]));
      showViewers();
      showSchedule();
      history.offer(jobs.map((job) => job.name));
      history.refresh();
    });
  },
  on: {
    viewer(figure) {
      presence.add(figure);
      showViewers();
      showJobs(at("jobs"), jobs, presence.current());
    },
    job(run) {
      remember(run);
      refreshJobs();
      history.refresh(run.job);
    },
  },
  tick() {
    showSince();
    showJobs(at("jobs"), jobs, presence.current());
  },
});

/** @returns {Promise<[any, { jobs: any[] }, any[]]>} */
async function readAll() {
  const counts = may("viewer", "count", "*");
  at("now-title").closest("section")?.toggleAttribute("hidden", !counts);
  const nobody = { viewers: 0, visible: 0, nodes: [], history: [] };
  const [viewer, schedule] = await Promise.all([askIf(counts, "/api/viewer", nobody), askIf(may("job", "read"), "/api/jobs", { jobs: [] })]);
  const histories = await Promise.all(
    schedule.jobs.map((/** @type {any} */ job) => ask(`/api/jobs/${encodeURIComponent(job.name)}/history?limit=${TIMELINE_TICKS}`)),
  );
  return [viewer, schedule, histories];
}

const refreshJobs = oneAtATime(async () => {
  try {
    jobs = (await ask("/api/jobs")).jobs;
    showSchedule();
  } catch {
    // The full read says what is wrong, and offers to try again.
    page.refresh();
  }
});

onJobTold(refreshJobs);
setInterval(() => document.hidden || jobs.length === 0 || refreshJobs(), LOOK_MS);

/** Puts a live record where the next read would show it: in place of its earlier self, or first. */
function remember(/** @type {import("./runs.js").Run} */ run) {
  const known = runs.get(run.job) ?? [];
  const place = known.findIndex((each) => each.id === run.id && run.id !== null);
  runs.set(run.job, place < 0 ? [run, ...known].slice(0, TIMELINE_TICKS) : known.with(place, run));
}

function showViewers() {
  const { viewers, visible, nodes } = presence.current();
  say(at("viewers"), whole(viewers));
  say(at("viewers-noun"), t(viewers === 1 ? "viewer" : "viewers", "人"));
  say(at("viewers-visible"), whole(visible));
  say(at("viewers-hidden"), whole(Math.max(0, viewers - visible)));
  chart.show(presence.points(), serverNow());
  keyed(at("nodes"), nodes, (/** @type {any} */ each) => each.node, createNode);
  showSince();
}

function showSince() {
  const since = presence.since();
  const watched = presence.current().viewers > 0;
  say(
    at("viewers-since"),
    since === null ? "" : t(`${watched ? "Watched" : "Empty"} since ${moment(since, serverNow())} ${zone(since)} (${span(serverNow() - since)})`, `${moment(since, serverNow())} ${zone(since)} から${watched ? "閲覧中" : "不在"}（${span(serverNow() - since)}）`),
  );
}

function createNode(/** @type {any} */ first) {
  const all = h("td", { class: "number" });
  const visible = h("td", { class: "number" });
  return {
    node: h("tr", {}, h("th", { scope: "row", class: "mono" }, first.node), all, visible),
    update(/** @type {any} */ each) {
      say(all, whole(each.viewers));
      say(visible, whole(each.visible));
    },
  };
}

function showSchedule() {
  at("jobs-empty").hidden = jobs.length > 0;
  at("jobs-table").hidden = jobs.length === 0;
  at("timeline-part").hidden = jobs.length === 0;
  at("money-part").hidden = jobs.length === 0;
  showJobs(at("jobs"), jobs, presence.current());
  keyed(
    at("timelines"),
    jobs,
    (job) => job.name,
    (job) => {
      const strip = openTimeline(job.name);
      return {
        node: strip.node,
        update: (each) => queueMicrotask(() => strip.show(runs.get(each.name) ?? [], serverNow())),
      };
    },
  );
  showMoney();
}

function showMoney() {
  const totals = { runs: 0, failed: 0, spent: 0, saved: 0 };
  /** @type {Map<string, number>} */
  const skips = new Map();
  for (const { totals: each } of jobs) {
    totals.runs += each.runs;
    totals.failed += each.failed;
    totals.spent += each.spent_usd;
    totals.saved += each.saved_usd;
    for (const [reason, n] of Object.entries(each.skips)) skips.set(reason, (skips.get(reason) ?? 0) + Number(n));
  }
  const skipped = [...skips.values()].reduce((a, b) => a + b, 0);
  say(at("saved"), money(totals.saved));
  say(at("saved-note"), t(`saved by ${count(skipped, "skipped tick")}`, `${whole(skipped)} 回の見送りで節約`));
  say(at("spent"), money(totals.spent));
  say(
    at("spent-note"),
    t(`spent on ${count(totals.runs, "run")}${totals.failed ? `, ${whole(totals.failed)} failed` : ""}`, `${whole(totals.runs)} 回の実行${totals.failed ? `（失敗 ${whole(totals.failed)}）` : ""}に使用`),
  );
  const share = totals.saved + totals.spent ? totals.saved / (totals.saved + totals.spent) : 0;
  at("saved-bar").style.inlineSize = `${(share * 100).toFixed(1)}%`;
  say(at("share"), t(`${Math.round(share * 100)} % of what running at every tick would have cost was saved.`, `毎回実行した場合の費用の ${Math.round(share * 100)} % を節約しました。`));
  keyed(
    at("skips"),
    [...skips].sort((a, b) => b[1] - a[1]),
    ([reason]) => reason,
    ([reason]) => {
      const n = h("dd");
      return {
        node: h("div", {}, h("dt", {}, wordsOf(reason)), n),
        update: ([, value]) => say(n, whole(value)),
      };
    },
  );
}
