// The overview: viewers live, the schedule's next and last tick, what queues have to do, the node's health. Watching it makes no viewer.

import { ask, nodeStartedAt, serverNow } from "./api.js";
import { openPage } from "./app.js";
import { attention, LONG_HELD_MS } from "./attention.js";
import { openChart } from "./chart.js";
import { cronInWords } from "./cron.js";
import { at, h, icon, keyed, say } from "./dom.js";
import { ago, count, countdown, money, moment, span, whole } from "./format.js";
import { t } from "./language.js";
import { merge } from "./news.js";
import { openPresence } from "./presence.js";
import { reasonOf, result } from "./runs.js";
import { askIf, may } from "./session.js";

/** The parts of this node; what belongs to another is not shown and not asked for. */
const parts = new Set((document.documentElement.dataset.parts ?? "").split(" "));
/** What each part's figures on this page need. */
const NEEDS = /** @type {Record<string, () => boolean>} */ ({
  viewer: () => may("viewer", "count", "*"),
  queue: () => may("queue", "read"),
  outbox: () => may("outbox", "read", "*"),
  lock: () => may("lock", "see"),
  state: () => may("state", "read"),
});
const shows = (/** @type {string} */ part) => parts.has(part) && (NEEDS[part]?.() ?? true);
function showParts() {
  for (const section of document.querySelectorAll("[data-part]")) {
    /** @type {HTMLElement} */ (section).hidden = !shows(/** @type {HTMLElement} */ (section).dataset.part ?? "");
  }
}
showParts();
/** Asks where the part is on and this browser may. */
const askOf = (/** @type {string} */ part, /** @type {string} */ path) => (shows(part) ? ask(path) : Promise.resolve(null));

// More locks than these are not counted for a note.
const LOCKS_COUNTED = 100;
const LOOK_MS = 5_000;
const RUNS_EVERY_MS = 60_000;
const RUNS_LOOKED_AT = 200;
const presence = openPresence(serverNow);
const chart = openChart(at("viewer-chart"), { height: 72, axes: false });
/** @type {any[]} */
let jobs = [];
/** @type {{ ok: boolean, reason?: string } | null} */
let ready = null;
/** @type {number | null} */
let startedAt = null;
/** @type {Map<string, import("./attention.js").Queue>} */
let queues = new Map();
/** @type {import("./attention.js").Outbox | null} */
let outbox = null;
let locks = 0;
/** @type {import("./attention.js").Lock[]} */
let longHeld = [];
/** @type {{ space: string }[]} */
let full = [];
/** @type {import("./attention.js").Peer[]} */
let nodes = [];
let nodesAt = 0;
/** The last run of each job: a skip after a failure mends nothing. @type {Map<string, any>} */
const lastRuns = new Map();
let runsAt = -Infinity;

const page = openPage({
  async read() {
    showParts();
    const asking = Promise.all([
      askOf("viewer", "/api/viewer"),
      askIf(parts.has("viewer") && may("job", "read"), "/api/jobs", null),
      readiness(),
      may("node", "metrics", "*") ? nodeStartedAt() : null,
      askOf("queue", "/api/queues"),
      askOf("outbox", "/api/outbox"),
      askOf("lock", `/api/locks?limit=${LOCKS_COUNTED}`),
      askOf("lock", `/api/locks?minAgeMs=${LONG_HELD_MS}`),
      askOf("state", "/api/state?state=full"),
      askIf(parts.has("kv") && may("node", "read", "*"), "/api/nodes", null),
    ]);
    await merge(asking, ([viewer, schedule, health, started, work, stats, held, long, filled, all]) => {
      longHeld = long?.locks ?? [];
      full = filled?.spaces ?? [];
      nodes = all?.nodes ?? [];
      nodesAt = performance.now();
      queues = new Map((work?.queues ?? []).map((/** @type {any} */ queue) => [queue.name, queue]));
      outbox = stats;
      locks = held?.locks.length ?? 0;
      if (viewer) presence.load(viewer);
      jobs = schedule?.jobs ?? [];
      readRuns();
      ready = health;
      startedAt = started;
      if (viewer) showViewers();
      showJobs();
      showHealth();
      showSystems();
    });
  },
  on: {
    queue(status) {
      queues.set(status.name, status);
      showSystems();
    },
    outbox(stats) {
      outbox = stats;
      showSystems();
    },
    viewer(figure) {
      presence.add(figure);
      showViewers();
    },
    job(run) {
      if (run.decision === "run") lastRuns.set(run.job, run);
      page.refresh();
    },
  },
  tick() {
    showSince();
    showJobs();
    showHealth();
    showAttention();
  },
});

// A lock that is held for long, a space that fills or a node that fell silent is no news of anybody: it is looked for.
setInterval(() => document.hidden || page.refresh(), LOOK_MS);

/** Looks for the last run of jobs whose last firing was skipped; runs that begin later are news. */
async function readRuns() {
  for (const { name, last } of jobs) if (last?.decision === "run") lastRuns.set(name, last);
  if (performance.now() - runsAt < RUNS_EVERY_MS) return;
  runsAt = performance.now();
  const skipped = jobs.filter(({ last }) => last?.decision === "skip");
  const found = skipped.map(({ name }) => ask(`/api/jobs/${encodeURIComponent(name)}/history?limit=${RUNS_LOOKED_AT}`).catch(() => ({ runs: [] })));
  (await Promise.all(found)).forEach(({ runs }, index) => {
    const run = runs.find((/** @type {any} */ each) => each.decision === "run");
    if (run) lastRuns.set(skipped[index].name, run);
  });
  showAttention();
}

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
  say(at("viewers-noun"), t(viewers === 1 ? "viewer" : "viewers", "人"));
  say(
    at("viewers-visible"),
    viewers
      ? t(`${whole(visible)} with the page in sight${nodes.length > 1 ? `, on ${count(nodes.length, "node")}` : ""}`, `表示中 ${whole(visible)} 人${nodes.length > 1 ? `、ノード ${nodes.length} 台` : ""}`)
      : t("Nobody is watching; gated jobs rest.", "誰も見ていません。条件付きのジョブは休んでいます。"),
  );
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
      : t(`${watched ? "watched" : "empty"} since ${moment(since, serverNow())} (${span(serverNow() - since)})`, `${moment(since, serverNow())} から${watched ? "閲覧中" : "不在"}（${span(serverNow() - since)}）`),
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
  say(at("saved"), jobs.length ? t(`${money(saved)} saved by ${count(skips, "skipped run")}`, `${whole(skips)} 回の見送りで ${money(saved)} 節約`) : "");
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
        job.paused_at ? t("paused", "停止中") : job.running ? t("running now", "実行中") : job.next_at ? t(`next in ${countdown(job.next_at - serverNow())}`, `次まで ${countdown(job.next_at - serverNow())}`) : t("no next run", "予定なし"),
      );
      const run = job.last;
      const key = run ? `${run.id} ${run.state}` : "none";
      if (key !== shown) {
        const when = h("span", { class: "note job-when" });
        last.replaceChildren(
          ...(run ? [result(run), ` · ${reasonOf(run)} · `, when] : [t(`Not run yet: ${cronInWords(job.cron)}`, `未実行：${cronInWords(job.cron)}`)]),
        );
        shown = key;
      }
      const when = last.querySelector(".job-when");
      const at = run?.finished_at ?? run?.started_at;
      if (when && at) say(when, ago(at, serverNow()));
    },
  };
}

function showSystems() {
  const sum = (/** @type {"waiting" | "running" | "retrying" | "failed" | "dead"} */ place) =>
    [...queues.values()].reduce((total, { counts }) => total + counts[place], 0);
  const left = sum("waiting") + sum("running") + sum("retrying");
  const work = left === 0 ? t("at rest", "待機中") : t(`${count(left, "key")} to go`, `残り ${whole(left)} 件`);
  const failed = sum("failed") > 0 ? t(`, ${whole(sum("failed"))} failed`, `、失敗 ${whole(sum("failed"))}`) : "";
  const dead = sum("dead") > 0 ? t(`, ${whole(sum("dead"))} dead`, `、断念 ${whole(sum("dead"))}`) : "";
  say(at("queue-note"), `${t(count(queues.size, "queue"), `キュー ${whole(queues.size)} 個`)}${t(", ", "、")}${work}${failed}${dead}`);
  const held = locks >= LOCKS_COUNTED ? `${whole(LOCKS_COUNTED)}+` : whole(locks);
  say(at("lock-note"), locks === 0 ? t("No lock is held", "保持されているロックはありません") : t(`${held} ${locks === 1 ? "lock" : "locks"} held`, `ロック ${held} 件が保持中`));
  if (outbox) {
    const given = outbox.dead > 0 ? t(`, ${whole(outbox.dead)} given up`, `、断念 ${whole(outbox.dead)}`) : "";
    say(at("outbox-note"), `${outbox.paused ? t("Paused: nothing is sent", "停止中：送信しません") : outbox.pending === 0 ? t("Nothing waits", "送信待ちはありません") : t(`${count(outbox.pending, "change")} on the way`, `${whole(outbox.pending)} 件を送信中`)}${given}`);
  }
  showAttention();
}

/** What an operator has to look at, with the page where it can be mended. */
function showAttention() {
  const found = attention({ ready, jobs: jobs.map((job) => ({ ...job, last: lastRuns.get(job.name) ?? job.last })), queues: [...queues.values()], outbox, locks: longHeld, full, nodes });
  const list = at("attention");
  list.hidden = found.length === 0;
  at("all-well").hidden = found.length > 0 || ready === null;
  keyed(list, found, ({ key }) => key, ({ href }) => {
    const link = h("a", { href });
    return { node: h("li", {}, icon("failed"), link), update: ({ words }) => say(link, words) };
  });
  const node = document.querySelector("[data-node]")?.textContent ?? "";
  document.title = `${found.length > 0 ? `(${found.length}) ` : ""}${t("Overview", "概要")}${node && node !== "–" ? ` · ${node}` : ""} · Syncline`;
}

function showNodes() {
  at("nodes-part").hidden = nodes.length < 2;
  const now = performance.now() - nodesAt;
  keyed(at("nodes"), nodes, ({ node }) => node, () => {
    const cells = [h("th", { scope: "row", class: "mono" }), ...[t("Version", "版"), t("Up for", "稼働時間"), t("Last word", "最後の知らせ"), t("Store answers in", "データベースの応答")].map((label) => h("td", { "data-label": label }))];
    return {
      node: h("tr", {}, ...cells),
      update: (/** @type {any} */ each) => {
        say(cells[0], each.self ? t(`${each.node} (this one)`, `${each.node}（これ）`) : each.node);
        say(cells[1], each.version);
        say(cells[2], span(each.uptimeMs + now));
        say(cells[3], each.self ? t("now", "今") : t(`${span(each.silentMs + now)} ago${each.standsStill ? ", does not answer" : ""}`, `${span(each.silentMs + now)} 前${each.standsStill ? "、応答なし" : ""}`));
        cells[3].classList.toggle("is-bad", each.standsStill);
        say(cells[4], `${whole(each.storeMs)} ms`);
      },
    };
  });
}

function showHealth() {
  showNodes();
  if (!ready) return;
  // Ready is whether it answers; what waits for somebody is listed above.
  say(at("health-ready"), ready.ok ? t("Ready", "準備完了") : t("Not ready", "準備できていません"));
  at("health-ready").classList.toggle("is-bad", !ready.ok);
  say(at("health-store"), ready.ok ? t("Answers", "応答あり") : (ready.reason ?? ""));
  say(at("health-uptime"), startedAt ? span(serverNow() - startedAt) : t("unknown", "不明"));
}
