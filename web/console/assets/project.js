// The project page: a document that one tab saves at a time, who holds it, and what happened to the lock.
// Guarantees that only the holder can type, and that the page says in words what it may not do and why.

import { openPage } from "./app.js";
import { at, h, keyed, say } from "./dom.js";
import { clock, countdown, count, moment, span } from "./format.js";

const EVENTS_SHOWN = 50;
const SOURCES = /** @type {Record<string, string>} */ ({
  "web-lock": "by Web Lock",
  "opfs-lock": "by lease file",
  "idb-lock": "by IndexedDB",
});
const WORDS = /** @type {Record<string, string>} */ ({
  acquired: "This tab has it",
  "acquire-failed": "Not granted",
  renewed: "Renewed",
  expired: "Lease ended",
  released: "Given back",
  "release-failed": "Could not be given back",
  backoff: "Waiting",
  "switch-to-fallback": "Without Web Lock",
  "record-doubtful": "Lease file made no sense",
  "storage-low": "Storage nearly full",
  "storage-denied": "Storage forbidden",
  saved: "Saved",
  lost: "Lost",
  conflict: "Two versions",
  recovered: "Last words recovered",
  "drafts-off": "Last words cannot be kept",
});
const LOSSES = /** @type {Record<string, string>} */ ({
  expired: "it could not be renewed in time",
  "taken-over": "another tab took it over",
  hidden: "the page went away for a while",
});

const editor = /** @type {HTMLTextAreaElement} */ (at("editor"));
const leaseBar = /** @type {HTMLProgressElement} */ (at("lease-bar"));
/** @type {any} */
let save = null;
let leaseMs = 15_000;

openPage({ read: start, tick });
// The bar runs down more smoothly than the page's seconds.
setInterval(() => !document.hidden && showLease(), 250);

async function start() {
  if (save) return;
  const { openAutoSave } = await import("/pkg/autosave.js");
  save = openAutoSave();
  save.bind(editor);
  save.subscribe(show);
  await save.ready;
  show(save.state);
  showStorage();
  editor.addEventListener("input", showSize);
  at("take-over").addEventListener("click", takeOver);
  at("let-go").addEventListener("click", letGo);
}

async function takeOver() {
  const button = /** @type {HTMLButtonElement} */ (at("take-over"));
  button.disabled = true;
  say(button, "Asking the other tab");
  try {
    await save.takeOver();
    editor.focus();
  } catch (error) {
    trouble(`It was not handed over: ${error.message}.`);
  }
  button.disabled = false;
  say(button, "Take over");
}

async function letGo() {
  await save.close();
  save = null;
  say(at("holder"), "Not this tab");
  say(at("save-state"), "Closed here");
  at("let-go").hidden = true;
  notice("This tab let the project go. Another tab that has it open holds it now.", [
    ["Open it again", () => location.reload()],
  ]);
}

function show(/** @type {any} */ state) {
  if (!save) return;
  document.documentElement.dataset.save = state.status;
  showHolder(state);
  showSaving(state);
  showNotice(state);
  showSize();
  showLease();
  showEvents();
}

function showHolder(/** @type {any} */ { heldHere, holder, status }) {
  const elsewhere = !heldHere && ["read-only", "taken-over"].includes(status);
  say(at("holder"), heldHere ? "This tab" : elsewhere ? "Another tab" : "Nobody yet");
  const since = holder?.since ? `since ${moment(holder.since, Date.now(), true)}` : "";
  say(at("holder-note"), [since, SOURCES[holder?.source] ?? ""].filter(Boolean).join(", "));
  at("take-over").hidden = !elsewhere;
  at("let-go").hidden = !heldHere;
}

function showSaving(/** @type {any} */ { status, savedAt, stamp }) {
  const saved = savedAt ? `Saved at ${clock(savedAt, true)}` : stamp ? "Saved" : "Nothing to save yet";
  const words = /** @type {Record<string, string>} */ ({
    opening: "Opening",
    saved,
    saving: "Saving",
    unsaved: "Not saved, trying again",
    "read-only": "Read-only",
    "taken-over": "Taken over, read-only",
    lost: "Not saving",
    conflict: "Not saving: two versions",
  });
  say(at("save-state"), words[status] ?? status);
}

function showNotice(/** @type {any} */ { status, problem }) {
  if (status === "read-only") {
    notice("Read-only: another tab holds this project. What it saves appears here, and when it goes this tab takes over.");
  } else if (status === "taken-over") {
    notice("Another tab took this project over. What it saves appears here.");
  } else if (status === "lost") {
    notice("This tab lost its lease and saves nothing until it has a new one.");
  } else if (status === "conflict") {
    notice("Another tab saved a version while this one had changes of its own. Which one is to stay?", [
      ["Keep mine", () => save.resolve("mine")],
      ["Take theirs", () => save.resolve("theirs")],
    ]);
  } else at("notice").hidden = true;
  trouble(problem && ["opening", "unsaved", "lost"].includes(status) ? `${problem}.` : "");
}

function notice(/** @type {string} */ words, /** @type {[string, () => void][]} */ choices = []) {
  const box = at("notice");
  if (box.dataset.words !== words) {
    box.dataset.words = words;
    box.replaceChildren(
      h("span", {}, words),
      h(
        "span",
        {},
        choices.map(([label, click]) => h("button", { class: "button small", type: "button", on: { click } }, label)),
      ),
    );
  }
  box.hidden = false;
}

function trouble(/** @type {string} */ words) {
  say(at("trouble"), words);
  at("trouble").hidden = words === "";
}

function showSize() {
  const words = editor.value.trim() ? editor.value.trim().split(/\s+/).length : 0;
  say(at("editor-size"), `${count(editor.value.length, "character")}, ${count(words, "word")}`);
  const files = "storage" in navigator;
  say(at("editor-place"), files ? "project/document.json in this browser's private files" : "in this browser's IndexedDB");
}

function showLease() {
  if (!save) return;
  const { holder, heldHere } = save.state;
  const left = holder ? holder.expiresAt - Date.now() : 0;
  leaseMs = Math.max(1_000, heldHere ? leaseMs : 15_000);
  leaseBar.value = Math.max(0, Math.min(1, left / leaseMs));
  leaseBar.classList.toggle("is-low", Boolean(holder) && left < leaseMs / 5);
  say(at("lease-words"), holder ? `${countdown(left)} left` : "No lease known");
  say(at("lease-id"), holder ? holder.leaseId.slice(0, 8) : "");
  const note = heldHere ? "Renewed every 5 s while this tab is open." : holder ? "Free for this tab when it runs out." : "";
  say(at("lease-note"), note);
}

function showEvents() {
  const history = save.history;
  const shown = history.slice(-EVENTS_SHOWN).reverse();
  at("events-table").hidden = shown.length === 0;
  at("events-empty").hidden = shown.length > 0;
  say(at("events-count"), history.length ? `the last ${Math.min(history.length, EVENTS_SHOWN)}` : "");
  keyed(at("events"), shown, (each) => `${each.at} ${each.type} ${each.attempt ?? ""} ${each.lease?.expiresAt ?? ""}`, (each) => ({
    node: h("tr", {}, h("td", {}, clock(each.at, true)), h("td", { class: tone(each.type) }, WORDS[each.type] ?? each.type), h("td", {}, detail(each))),
    update() {},
  }));
}

function tone(/** @type {string} */ type) {
  if (["expired", "lost", "acquire-failed", "release-failed", "storage-denied"].includes(type)) return "is-bad";
  return ["backoff", "switch-to-fallback", "conflict", "storage-low", "record-doubtful"].includes(type) ? "is-warn" : "";
}

function detail(/** @type {any} */ { type, lease, error, attempt, delayMs, loss, stamp }) {
  if (type === "backoff") return `attempt ${attempt}; again in ${delayMs < 1_000 ? `${delayMs} ms` : span(delayMs)}, or when the other tab lets go`;
  if (type === "lost") return LOSSES[loss] ?? "";
  if (type === "saved") return `version ${stamp}`;
  if (type === "recovered") return "a page that was closed had no time to save them";
  if (type === "drafts-off") return "localStorage is full or forbidden";
  if (error) return error.message;
  return lease ? `until ${clock(lease.expiresAt, true)}, ${SOURCES[lease.source]}` : "";
}

async function showStorage() {
  const bar = /** @type {HTMLProgressElement} */ (at("storage-bar"));
  if (!navigator.storage?.estimate) {
    say(at("storage-words"), "This browser does not say how much room there is.");
    say(at("storage-note"), "On plain http there is no private file system: the document and its lease are in IndexedDB.");
    return;
  }
  const { usage = 0, quota = 0 } = await navigator.storage.estimate();
  bar.value = quota ? usage / quota : 0;
  bar.classList.toggle("is-low", quota > 0 && quota - usage < quota / 20);
  say(at("storage-words"), `${bytes(usage)} of ${bytes(quota)} in use`);
  say(at("storage-note"), "You are warned in the list of events before it is full.");
}

function bytes(/** @type {number} */ n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, n)) / 3));
  return `${(n / 1_000 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
}

function tick() {
  if (save && Math.floor(Date.now() / 1_000) % 15 === 0) showStorage();
}
