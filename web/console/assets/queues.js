// The queues of a node: how each stands, a form to add keys, its pace, the way to its groups, and its dead list with a way back.

import { ask, serverNow } from "./api.js";
import { at, h, keyed, say } from "./dom.js";
import { count, whole } from "./format.js";
import { t } from "./language.js";
import { openCarried, openPace } from "./queue-controls.js";
import { doing, kept, pace, progress } from "./queue-status.js";
import { may } from "./session.js";

const DEAD_SHOWN = 50;
const COUNTS = /** @type {const} */ (["waiting", "running", "retrying", "done", "failed", "dead"]);
const WORDS = { waiting: t("waiting", "待機"), running: t("running", "実行中"), retrying: t("retrying", "再試行待ち"), done: t("done", "完了"), failed: t("failed", "失敗"), dead: t("dead", "断念") };

/** @typedef {import("./queue-status.js").QueueStatus} QueueStatus */

export function openQueues() {
  /** @type {Map<string, QueueStatus>} */
  const queues = new Map();
  const show = () => {
    // The address may name which of them are meant.
    const wanted = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
    const meant = [...queues.values()].filter(({ name }) => name.toLowerCase().includes(wanted));
    keyed(at("queues"), meant, ({ name }) => name, createQueue);
    at("queues-empty").hidden = queues.size > 0;
    const filtered = document.getElementById("queues-filtered");
    if (!filtered) return;
    filtered.hidden = wanted === "";
    say(at("queues-filter"), t(`${meant.length} of ${count(queues.size, "queue")}`, `${queues.size} 個のうち ${meant.length} 個`));
  };
  return {
    load(/** @type {QueueStatus[]} */ all) {
      queues.clear();
      for (const status of all) queues.set(status.name, status);
      show();
    },
    put(/** @type {QueueStatus} */ status) {
      queues.set(status.name, status);
      show();
    },
    tick: show,
  };
}

/** How this browser may add to a queue: what is urgent costs calls. */
function kinds(/** @type {string} */ name) {
  return may("queue", "urge", name) ? ["new", "priority", "again", "retry"] : ["new", "retry"];
}

/** @param {QueueStatus} first */
function createQueue({ name, url }) {
  const path = `/api/queues/${encodeURIComponent(name)}`;
  const now = h("p", { class: "doing" });
  const terms = h("p", { class: "note" });
  const told = h("p", { class: "quiet", role: "status" });
  const figures = Object.fromEntries(COUNTS.map((each) => [each, h("dd")]));
  const keys = /** @type {HTMLInputElement} */ (h("input", { id: `keys-${name}`, autocomplete: "off", spellcheck: "false", placeholder: t("key, key …", "キー, キー …") }));
  const kind = /** @type {HTMLSelectElement} */ (
    h("select", { "aria-label": t(`How to add to ${name}`, `${name} への追加方法`) }, ...kinds(name).map((each) => h("option", { value: each }, each)))
  );
  const deadList = h("ul", { class: "refused" });
  const reviveAll = h("button", { class: "button small", type: "button", "data-needs": `queue:${name}:manage`, on: { click: () => attempt(revive) } }, t("Retry all", "すべて再試行"));
  const hold = h("button", { class: "button small", type: "button", "data-needs": `queue:${name}:manage`, on: { click: () => attempt(toggle) } });
  let isPaused = false;
  const dead = /** @type {HTMLDetailsElement} */ (h("details", { hidden: true }, h("summary", {}, t("Dead keys", "断念されたキー")), deadList, reviveAll));
  dead.addEventListener("toggle", () => dead.open && attempt(listDead));

  async function attempt(/** @type {() => Promise<void>} */ work) {
    try {
      await work();
    } catch (error) {
      say(told, error.message);
    }
  }

  async function listDead() {
    const page = await ask(`${path}/keys?state=dead&limit=${DEAD_SHOWN}`);
    deadList.replaceChildren(...page.keys.map((/** @type {any} */ each) => h("li", {}, h("code", {}, each.key), " ", each.reason ?? "")));
  }

  /** Stops it on all nodes, or lets it go on. */
  async function toggle() {
    const question = t(`Pause ${name} on all nodes? What runs goes on; nothing more is started.`, `すべてのノードで ${name} を停止しますか。実行中のものは続きます。`);
    if (!isPaused && !confirm(question)) return;
    await ask(`${path}/${isPaused ? "resume" : "pause"}`, { method: "POST", body: {} });
    say(told, isPaused ? t("It goes on.", "再開しました。") : t("It is paused.", "停止しました。"));
  }

  async function revive() {
    const { revived } = await ask(`${path}/revive`, { method: "POST", body: {} });
    say(told, t(`${count(revived, "key")} tried once more.`, `${whole(revived)} 件を再試行します。`));
    dead.open = false;
  }

  async function add() {
    const wanted = keys.value.split(/[\s,;]+/).filter(Boolean);
    if (wanted.length === 0) return say(told, t("Type a key first.", "先にキーを入力してください。"));
    const answer = await ask(path, { method: "POST", body: carried.body(kind.value, wanted) });
    say(told, t(`${whole(answer.added)} added, ${whole(answer.moved + answer.again)} moved, ${whole(answer.unchanged ?? 0)} known already.`, `追加 ${whole(answer.added)}、移動 ${whole(answer.moved + answer.again)}、既知 ${whole(answer.unchanged ?? 0)}。`));
    keys.value = "";
    carried.clear();
  }

  const carried = openCarried(name);
  const speed = openPace(name, attempt, told);
  const groups = h("a", { class: "button small", href: `/queue/groups?queue=${encodeURIComponent(name)}`, "aria-label": t(`Groups of ${name}`, `${name} のグループ`) }, t("Groups", "グループ"));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(add);
  };
  const node = h(
    "li",
    { class: "queue" },
    h("div", { class: "queue-head" }, h("h3", { class: "mono" }, name), now, h("p", { class: "actions" }, groups, hold)),
    url ? h("p", { class: "note mono" }, url) : null,
    h("dl", { class: "counts" }, ...COUNTS.map((each) => h("div", {}, h("dt", {}, h("a", { href: `/queue/keys?queue=${encodeURIComponent(name)}&state=${each}` }, WORDS[each])), figures[each]))),
    terms,
    h("form", { class: "fields", "data-needs": `queue:${name}:add`, on: { submit } }, h("p", {}, h("label", { for: `keys-${name}` }, t("Keys", "キー")), keys), h("p", {}, kind, " ", h("button", { class: "button", type: "submit" }, t("Add", "追加"))), carried.node),
    speed.node,
    told,
    dead,
  );
  return {
    node,
    update(/** @type {QueueStatus} */ status) {
      const { mood, words } = doing(status, serverNow());
      node.dataset.mood = mood;
      // A pause that the API asked for can be ended as well.
      isPaused = Boolean(status.paused);
      say(hold, isPaused ? t("Resume", "再開") : t("Pause", "停止"));
      hold.setAttribute("aria-label", `${hold.textContent}: ${name}`);
      say(now, words);
      speed.update(status);
      groups.hidden = !status.groups;
      say(terms, [pace(status), kept(status), progress(status)].filter(Boolean).join(" · "));
      for (const each of COUNTS) say(figures[each], whole(status.counts[each]));
      dead.hidden = status.counts.dead === 0;
      if (dead.hidden) dead.open = false;
    },
  };
}
