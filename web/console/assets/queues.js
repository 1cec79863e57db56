// The queues of a node: how each stands, a form to add keys, and its dead list with a way back.

import { ask, serverNow } from "./api.js";
import { at, h, keyed, say } from "./dom.js";
import { count, whole } from "./format.js";
import { doing, pace, progress } from "./queue-status.js";
import { may } from "./session.js";

const DEAD_SHOWN = 50;
const COUNTS = /** @type {const} */ (["waiting", "running", "retrying", "done", "failed", "dead"]);

/** @typedef {import("./queue-status.js").QueueStatus} QueueStatus */

export function openQueues() {
  /** @type {Map<string, QueueStatus>} */
  const queues = new Map();
  const show = () => {
    keyed(at("queues"), [...queues.values()], ({ name }) => name, createQueue);
    at("queues-empty").hidden = queues.size > 0;
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
  const keys = /** @type {HTMLInputElement} */ (h("input", { id: `keys-${name}`, autocomplete: "off", spellcheck: "false", placeholder: "key, key …" }));
  const kind = /** @type {HTMLSelectElement} */ (
    h("select", { "aria-label": `How to add to ${name}` }, ...kinds(name).map((each) => h("option", { value: each }, each)))
  );
  const deadList = h("ul", { class: "refused" });
  const reviveAll = h("button", { class: "button small", type: "button", "data-needs": `queue:${name}:manage`, on: { click: () => attempt(revive) } }, "Retry all");
  const dead = /** @type {HTMLDetailsElement} */ (h("details", { hidden: true }, h("summary", {}, "Dead keys"), deadList, reviveAll));
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

  async function revive() {
    const { revived } = await ask(`${path}/revive`, { method: "POST", body: {} });
    say(told, `${count(revived, "key")} tried once more.`);
    dead.open = false;
  }

  async function add() {
    const wanted = keys.value.split(/[\s,;]+/).filter(Boolean);
    if (wanted.length === 0) return say(told, "Type a key first.");
    const answer = await ask(path, { method: "POST", body: { kind: kind.value, keys: wanted } });
    say(told, `${whole(answer.added)} added, ${whole(answer.moved + answer.again)} moved, ${whole(answer.unchanged ?? 0)} known already.`);
    keys.value = "";
  }

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(add);
  };
  const node = h(
    "li",
    { class: "queue" },
    h("div", { class: "queue-head" }, h("h3", { class: "mono" }, name), now),
    url ? h("p", { class: "note mono" }, url) : null,
    h("dl", { class: "counts" }, ...COUNTS.map((each) => h("div", {}, h("dt", {}, h("a", { href: `/queue/keys?queue=${encodeURIComponent(name)}&state=${each}` }, each)), figures[each]))),
    terms,
    h("form", { class: "fields", "data-needs": `queue:${name}:add`, on: { submit } }, h("p", {}, h("label", { for: `keys-${name}` }, "Keys"), keys), h("p", {}, kind, " ", h("button", { class: "button", type: "submit" }, "Add"))),
    told,
    dead,
  );
  return {
    node,
    update(/** @type {QueueStatus} */ status) {
      const { mood, words } = doing(status, serverNow());
      node.dataset.mood = mood;
      say(now, words);
      say(terms, [pace(status), progress(status)].filter(Boolean).join(" · "));
      for (const each of COUNTS) say(figures[each], whole(status.counts[each]));
      dead.hidden = status.counts.dead === 0;
      if (dead.hidden) dead.open = false;
    },
  };
}
