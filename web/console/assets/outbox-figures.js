// This node's own outbox: what waits, how old it is, what was given up, with a way back and a way out; and the switch that lets nothing leave.

import { ask } from "./api.js";
import { at, h, keyed, say } from "./dom.js";
import { count, span, whole } from "./format.js";
import { t } from "./language.js";
import { merge } from "./news.js";

const DEAD_SHOWN = 20;

/** @typedef {{ pending: number, inFlight: number, retrying: number, behind: number, dead: number, oldestMs: number | null, delivered: number, deliveredLastMinute: number, paused: boolean, filesPaused: boolean }} Stats */

export function openOutbox() {
  /** @type {Stats | null} */
  let stats = null;
  let statsAt = 0;
  let listed = -1;
  at("dead-retry").addEventListener("click", () => act("retry", {}));
  at("dead-discard").addEventListener("click", () => {
    if (confirm(t(`Remove ${count(stats?.dead ?? 0, "change")} for good? The other side will never hear of them.`, `${whole(stats?.dead ?? 0)} 件を破棄しますか。相手には届きません。`))) act("discard", {});
  });

  at("outbox-hold").addEventListener("click", hold);

  /** Lets nothing leave any more, or everything again: the switch that `serversync` reads. */
  async function hold() {
    const isPaused = Boolean(stats?.paused);
    const question = t("Pause the outbox? Changes are kept and wait; nothing is sent until somebody resumes it.", "アウトボックスを停止しますか。変更は保存されますが、再開するまで送信されません。");
    if (!isPaused && !confirm(question)) return;
    try {
      await ask(`/api/outbox/${isPaused ? "resume" : "pause"}`, { method: "POST" });
      say(at("outbox-told"), isPaused ? t("It goes on.", "再開しました。") : t("It is paused.", "停止しました。"));
      await merge(ask("/api/outbox"), put);
    } catch (error) {
      say(at("outbox-told"), error.message);
    }
  }

  function show() {
    if (!stats) return;
    say(at("outbox-hold"), stats.paused ? t("Resume", "再開") : t("Pause", "停止"));
    at("outbox-hold").setAttribute("aria-label", `${at("outbox-hold").textContent}: ${t("Outbox", "アウトボックス")}`);
    at("outbox-note").classList.toggle("is-warn", stats.paused || stats.filesPaused);
    const oldest = stats.oldestMs === null ? null : stats.oldestMs + (performance.now() - statsAt);
    say(at("outbox-pending"), whole(stats.pending));
    say(at("outbox-oldest"), oldest === null ? t("none", "なし") : span(oldest));
    say(at("outbox-in-flight"), whole(stats.inFlight));
    say(at("outbox-retrying"), whole(stats.retrying));
    say(at("outbox-dead"), whole(stats.dead));
    say(at("outbox-rate"), t(`${whole(stats.deliveredLastMinute)} / min`, `毎分 ${whole(stats.deliveredLastMinute)}`));
    say(at("outbox-delivered"), whole(stats.delivered));
    at("outbox-dead").classList.toggle("is-bad", stats.dead > 0);
    at("outbox-oldest").classList.toggle("is-warn", (oldest ?? 0) > 60_000);
    say(at("outbox-note"), words(stats, oldest));
    at("dead").hidden = stats.dead === 0;
    if (stats.dead > 0 && stats.dead !== listed) listDead(stats.dead).catch((error) => say(at("outbox-told"), error.message));
    if (stats.dead === 0) listed = -1;
  }

  async function listDead(/** @type {number} */ dead) {
    listed = dead;
    const page = await ask(`/api/outbox/entries?state=dead&limit=${DEAD_SHOWN}`);
    keyed(at("dead-list"), page.entries, ({ id }) => id, (entry) => createDead(entry, act));
    const left = dead - page.entries.length;
    say(at("dead-more"), left > 0 ? t(`and ${whole(left)} more`, `ほか ${whole(left)} 件`) : "");
  }

  async function act(/** @type {"retry" | "discard"} */ what, /** @type {{ ids?: number[] }} */ body) {
    try {
      const { entries } = await ask(`/api/outbox/${what}`, { method: "POST", body });
      say(at("outbox-told"), t(`${count(entries, "change")} ${what === "retry" ? "in line again" : "removed for good"}.`, `${whole(entries)} 件を${what === "retry" ? "再送します" : "破棄しました"}。`));
      listed = -1;
      await merge(ask("/api/outbox"), put);
    } catch (error) {
      say(at("outbox-told"), error.message);
    }
  }

  function put(/** @type {Stats} */ next) {
    stats = next;
    statsAt = performance.now();
    show();
  }

  return { put, tick: show };
}

/** How it is, in a sentence. */
function words(/** @type {Stats} */ stats, /** @type {number | null} */ oldest) {
  if (stats.paused) return t(`Paused: ${count(stats.pending, "change")} held back`, `停止中：${whole(stats.pending)} 件を保留`);
  if (stats.filesPaused) return t(`Files are switched off, ${count(stats.pending, "change")} left`, `ファイルは停止中、残り ${whole(stats.pending)} 件`);
  if (stats.pending === 0) return stats.dead > 0 ? t("What is left was given up", "残りは断念されたものです") : t("Everything has arrived", "すべて届きました");
  if (stats.inFlight === 0 && (oldest ?? 0) > 60_000) return t("Nothing is being sent: is serversync running?", "何も送信されていません。serversync は動いていますか");
  return t(`${count(stats.pending, "change")} on the way`, `${whole(stats.pending)} 件を送信中`);
}

/**
 * @param {any} entry
 * @param {(what: "retry" | "discard", body: { ids: number[] }) => void} act
 */
function createDead(entry, act) {
  const { id, entityType, entityId, attempts, lastError } = entry;
  const name = `${entityType} ${entityId}`;
  const isMeant = (/** @type {"retry" | "discard"} */ what) =>
    what === "retry" || confirm(t(`Remove ${name} for good? The other side will never hear of it.`, `${name} を破棄しますか。相手には届きません。`));
  const button = (/** @type {string} */ label, /** @type {"retry" | "discard"} */ what) =>
    h("button", { class: "button small", type: "button", "aria-label": `${label} ${name}`, on: { click: () => isMeant(what) && act(what, { ids: [id] }) } }, label);
  const node = h(
    "li",
    {},
    h("div", {}, h("p", {}, h("code", {}, name)), h("p", { class: "note" }, t(`${count(attempts, "attempt")}: ${lastError ?? "no reason known"}`, `${whole(attempts)} 回：${lastError ?? "理由は不明"}`))),
    h("p", { class: "actions", "data-needs": "outbox:*:manage" }, button(t("Retry", "再試行"), "retry"), button(t("Discard", "破棄"), "discard")),
  );
  return { node, update() {} };
}
