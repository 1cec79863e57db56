// Calls, the last one first: who called, when, for how long, and the recording to be heard where it has arrived.

import { ask, serverNow } from "/assets/api.js";
import { createPlayer } from "./calls-player.js";
import { at, h, keyed, say } from "/assets/dom.js";
import { ago, count, countdown, exact, whole } from "/assets/format.js";
import { merge } from "/assets/news.js";
import { openSearch } from "/assets/search-on.js";

const PAGE = 50;
// So many rows at a time; the filter looks through all that were read.
const SHOWN_MAX = 500;
const TEXT_MAX = 80;

/** @typedef {{ entityType: string, entityId: string, payload?: any, changedAt: string }} Change */
/** @typedef {{ id: string, caller: string, outcome: string, startedAt: number, durationSec: number | null, place: number }} Call */

export function openCalls() {
  /** @type {Map<string, Call>} */
  let calls = new Map();
  /** @type {Map<string, number>} the bytes of recordings, by call */
  let recordings = new Map();
  /** @type {string | null} */
  let next = null;
  // Places above and below what was there when the page was read.
  let arrivals = 0;
  let older = 0;
  const filter = /** @type {HTMLInputElement} */ (at("calls-filter"));
  const more = /** @type {HTMLButtonElement} */ (at("calls-more"));
  say(at("calls-origin"), location.origin);
  // What is shown are the newest calls; what is looked for may be further back.
  const searchOn = openSearch(at("calls-search-on"), {
    found: () => visible().length > 0,
    isWhole: () => next === null,
    readMore,
    failed: (error) => say(at("calls-count"), error.message),
  });
  filter.addEventListener("input", () => (searchOn.stop(), show()));
  more.addEventListener("click", () => readMore().catch((error) => say(at("calls-count"), error.message)));

  const wanted = () => filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const missing = () => (next === null ? "No call has these words." : `Not among the newest ${count(calls.size, "call")}.`);

  function visible(words = wanted()) {
    const all = [...calls.values()].sort((a, b) => b.place - a.place);
    const found = all.filter((call) => words.every((word) => `${call.caller} ${call.outcome} ${call.id}`.toLowerCase().includes(word)));
    return found.slice(0, SHOWN_MAX);
  }

  function show() {
    const words = wanted();
    const shown = visible(words);
    keyed(at("calls"), shown, ({ id }) => id, (call) => createCall(call, (id) => recordings.get(id)));
    at("calls-empty").hidden = shown.length > 0;
    at("calls-howto").hidden = calls.size > 0;
    say(at("calls-empty-words"), calls.size > 0 ? missing() : "No call has arrived yet. Calls appear here by themselves, seconds after they end.");
    const all = `${count(calls.size, "call")}${next ? " and more" : ""}`;
    say(at("calls-count"), calls.size === 0 ? "" : words.length > 0 ? `${whole(shown.length)} of ${all}` : all);
    more.hidden = next === null || words.length > 0;
    searchOn.show(words.length > 0 && next !== null);
  }

  async function readMore() {
    const after = next;
    await merge(ask(`/api/entities/call_log?limit=${PAGE}&after=${encodeURIComponent(after ?? "")}`), (page) => {
      // The calls were read afresh meanwhile.
      if (after !== next) return;
      take(page);
      show();
    });
  }

  function take(/** @type {{ entities: any[], next: string | null }} */ page) {
    for (const entity of page.entities) {
      older += 1;
      calls.set(entity.entityId, callOf(entity.entityId, entity.payload, entity.changedAt, -older));
    }
    next = page.entities.length < PAGE ? null : page.next;
  }

  return {
    async read() {
      const asking = Promise.all([ask(`/api/entities/call_log?limit=${PAGE}`), ask("/api/recordings?limit=1000")]);
      await merge(asking, ([page, kept]) => {
        calls = new Map();
        [arrivals, older] = [0, 0];
        recordings = new Map(kept.recordings.map((/** @type {any} */ each) => [each.callLogId, each.length]));
        take(page);
        show();
      });
    },
    put(/** @type {Change} */ { entityId, payload, changedAt }) {
      arrivals += 1;
      if (payload === null) calls.delete(entityId);
      else calls.set(entityId, callOf(entityId, payload, changedAt, arrivals));
      show();
    },
    putRecording(/** @type {{ callLogId: string, length: number }} */ { callLogId, length }) {
      recordings.set(callLogId, length);
      show();
    },
    tick: show,
  };
}

/**
 * What a call's payload says, whichever way it is spelled; what it does not say is left out.
 * @param {string} id
 * @param {any} payload
 * @param {string} changedAt
 * @param {number} place
 * @returns {Call}
 */
export function callOf(id, payload, changedAt, place) {
  const said = (/** @type {string[]} */ ...names) => names.map((name) => payload?.[name]).find((value) => value !== undefined && value !== null);
  const text = (/** @type {unknown} */ value) => String(value ?? "").slice(0, TEXT_MAX);
  const started = Date.parse(text(said("startedAt", "started_at") ?? changedAt));
  const seconds = Number(said("durationSec", "duration_sec"));
  return {
    id,
    caller: text(said("callerNumber", "caller_number", "from")) || "Unknown number",
    outcome: text(said("disposition", "status")),
    startedAt: Number.isNaN(started) ? Date.parse(changedAt) : started,
    durationSec: Number.isFinite(seconds) && said("durationSec", "duration_sec") !== undefined ? seconds : null,
    place,
  };
}

/**
 * @param {Call} first
 * @param {(id: string) => number | undefined} recordingOf
 */
function createCall({ id }, recordingOf) {
  const caller = h("strong");
  const facts = h("span", { class: "quiet" });
  const when = /** @type {HTMLTimeElement} */ (h("time", { class: "note" }));
  const note = h("span", { class: "note" });
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "button small", type: "button", "aria-expanded": "false", on: { click: toggle } }));
  const node = h("li", { class: "call" }, h("div", { class: "call-row" }, h("p", { class: "call-who" }, caller, " ", facts), when, note, button));
  /** @type {{ node: Element, close: () => void } | null} */
  let player = null;
  let name = "";

  function toggle() {
    if (player) {
      player.close();
      player.node.remove();
      player = null;
    } else {
      player = createPlayer(`/storage/recordings/${encodeURIComponent(id)}/mixed.wav`, recordingOf(id) ?? 0, name);
      node.append(player.node);
      const play = /** @type {HTMLElement | null} */ (player.node.querySelector("button"));
      play?.focus();
      // "Listen" is said once.
      play?.click();
    }
    label();
  }

  function label() {
    button.setAttribute("aria-expanded", String(player !== null));
    say(button, player ? "Close" : "Listen");
    button.setAttribute("aria-label", `${player ? "Close" : "Listen to"} the call of ${name}`);
  }

  return {
    node,
    update(/** @type {Call} */ call) {
      name = call.caller;
      say(caller, call.caller);
      say(facts, [call.outcome, call.durationSec === null ? "" : countdown(call.durationSec * 1_000)].filter(Boolean).join(", "));
      when.dateTime = new Date(call.startedAt).toISOString();
      when.title = exact(call.startedAt);
      say(when, ago(call.startedAt, serverNow()));
      const here = recordingOf(id) !== undefined;
      button.hidden = !here;
      say(note, here ? "" : "No recording here");
      label();
    },
  };
}
