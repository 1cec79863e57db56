// What one queue can be told: another pace, and what keys carry when they are added. Guarantees that a number the node would refuse is not sent.

import { ask } from "./api.js";
import { h, say } from "./dom.js";
import { t } from "./language.js";

/** @typedef {import("./queue-status.js").QueueStatus} QueueStatus */

const SPAN_MAX_MS = 86_400_000;
const AT_ONCE_MAX = 1_000;

/**
 * A form for the pace, which opens. `attempt` does something and shows why it failed.
 * @param {string} name
 * @param {(work: () => Promise<void>) => Promise<void>} attempt
 * @param {Element} told
 */
export function openPace(name, attempt, told) {
  const path = `/api/queues/${encodeURIComponent(name)}/pace`;
  const number = (/** @type {string} */ field, /** @type {string} */ label, /** @type {number} */ min, /** @type {number} */ max) => {
    const input = /** @type {HTMLInputElement} */ (h("input", { id: `${field}-${name}`, type: "number", min: String(min), max: String(max), step: "1", required: true, inputmode: "numeric" }));
    return { field, input, node: h("p", {}, h("label", { for: input.id }, label), input) };
  };
  const fields = [
    number("concurrency", t("Keys at once", "同時に実行"), 1, AT_ONCE_MAX),
    number("intervalMs", t("Interval in ms", "間隔（ms）"), 0, SPAN_MAX_MS),
    number("groupConcurrency", t("Keys of a group at once", "グループごとに同時"), 1, AT_ONCE_MAX),
    number("groupIntervalMs", t("Interval within a group in ms", "グループ内の間隔（ms）"), 0, SPAN_MAX_MS),
  ];
  const reset = h("button", { class: "button small", type: "button", on: { click: () => attempt(giveBack) } }, t("As configured", "設定に戻す"));
  const details = /** @type {HTMLDetailsElement} */ (
    h(
      "details",
      { class: "more", "data-needs": `queue:${name}:manage`, on: { toggle: () => details.open && fill() } },
      h("summary", { "aria-label": t(`Pace of ${name}`, `${name} のペース`) }, t("Pace", "ペース")),
      h("form", { class: "fields", on: { submit } }, ...fields.map(({ node }) => node), h("p", { class: "actions" }, h("button", { class: "button small", type: "submit" }, t("Set on all nodes", "すべてのノードに設定")), reset)),
    )
  );
  /** @type {QueueStatus | null} */
  let status = null;

  /** What is set now; what somebody is typing stays. */
  function fill() {
    if (!status) return;
    const { concurrency, interval_ms: intervalMs, groups } = status;
    const now = [concurrency, intervalMs, groups?.concurrency, groups?.interval_ms];
    fields.forEach(({ input, node }, index) => {
      const isMeant = now[index] !== undefined;
      node.hidden = !isMeant;
      input.disabled = !isMeant;
      input.value = String(now[index] ?? "");
    });
  }

  function submit(/** @type {Event} */ event) {
    event.preventDefault();
    attempt(async () => {
      const body = Object.fromEntries(fields.filter(({ input }) => !input.disabled).map(({ field, input }) => [field, Number(input.value)]));
      await ask(path, { method: "PUT", body });
      say(told, t("The pace is set on all nodes.", "すべてのノードのペースを設定しました。"));
      details.open = false;
    });
  }

  async function giveBack() {
    await ask(path, { method: "DELETE" });
    say(told, t("The pace is that of the configuration again.", "ペースを設定に戻しました。"));
    details.open = false;
  }

  return {
    node: details,
    update(/** @type {QueueStatus} */ next) {
      const groupsCame = Boolean(next.groups) !== Boolean(status?.groups);
      status = next;
      reset.hidden = !next.pace_is_set;
      if (groupsCame && details.open) fill();
    },
  };
}

/** Fields for what keys carry when they are added: an input, a group, a time before which they do not start, one from which they are not started. */
export function openCarried(/** @type {string} */ name) {
  const input = /** @type {HTMLInputElement} */ (h("input", { id: `input-${name}`, autocomplete: "off", spellcheck: "false", placeholder: '{ "width": 800 }' }));
  const group = /** @type {HTMLInputElement} */ (h("input", { id: `group-${name}`, autocomplete: "off", spellcheck: "false", maxlength: "200" }));
  const notBefore = /** @type {HTMLInputElement} */ (h("input", { id: `not-before-${name}`, type: "datetime-local", step: "1" }));
  const expiresAt = /** @type {HTMLInputElement} */ (h("input", { id: `expires-at-${name}`, type: "datetime-local", step: "1" }));
  const field = (/** @type {string} */ label, /** @type {HTMLInputElement} */ element) => h("p", {}, h("label", { for: element.id }, label), element);
  const fields = [input, group, notBefore, expiresAt];
  const node = h(
    "details",
    { class: "more" },
    h("summary", { "aria-label": t(`What keys of ${name} carry`, `${name} のキーに付けるもの`) }, t("With an input, a group or a time", "入力、グループ、時刻を付ける")),
    h("div", { class: "fields" }, field(t("Input, JSON", "入力（JSON）"), input), field(t("Group", "グループ"), group), field(t("Not before", "開始時刻"), notBefore), field(t("Expires at", "期限"), expiresAt)),
  );
  return {
    node,
    /** The body of a request that adds these keys. Throws where the input is no JSON. */
    body(/** @type {string} */ kind, /** @type {string[]} */ keys) {
      if (fields.every(({ value }) => value.trim() === "")) return { kind, keys };
      const carried = {
        ...(input.value.trim() ? { input: parse(input.value) } : {}),
        ...(group.value.trim() ? { group: group.value.trim() } : {}),
        ...(notBefore.value ? { notBefore: Date.parse(notBefore.value) } : {}),
        ...(expiresAt.value ? { expiresAt: Date.parse(expiresAt.value) } : {}),
      };
      return { kind, tasks: keys.map((key) => ({ key, ...carried })) };
    },
    clear: () => fields.forEach((element) => (element.value = "")),
  };
}

function parse(/** @type {string} */ text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(t("The input is no JSON.", "入力が JSON ではありません。"));
  }
}
