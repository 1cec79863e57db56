// Plays one recording: play and pause, a waveform to see and to seek in, with the mouse or the keyboard.
// Guarantees that one recording sounds at a time, and that it says in words why it does not.

import { BARS, waveform } from "./calls-waveform.js";
import { h, s, say } from "/assets/dom.js";
import { countdown } from "/assets/format.js";

const STEP_SEC = 5;
const HEIGHT = 48;

/** @type {HTMLAudioElement | null} */
let sounding = null;

/**
 * @param {string} url
 * @param {number} bytes
 * @param {string} name
 */
export function createPlayer(url, bytes, name) {
  const audio = /** @type {HTMLAudioElement} */ (h("audio", { src: url, preload: "metadata" }));
  const gone = new AbortController();
  const time = h("span", { class: "mono note" }, "00:00");
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "button small primary", type: "button", on: { click: toggle } }, "Play"));
  const quiet = bars(new Array(BARS).fill(0.02));
  const played = s("rect", { class: "played", x: 0, y: 0, width: 0, height: HEIGHT });
  const wave = s("svg", { class: "wave", viewBox: `0 0 ${BARS * 4} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, played, quiet);
  const slider = h("div", { class: "seek", role: "slider", tabindex: "0", "aria-label": `Place in the call of ${name}`, "aria-valuemin": "0", on: { keydown, pointerdown: seek, pointermove: drag } }, wave);
  const download = h("a", { class: "note", href: url, download: "mixed.wav" }, "Download");
  const node = h("div", { class: "player" }, button, slider, time, download, trouble, audio);

  for (const event of ["timeupdate", "loadedmetadata", "play", "pause", "ended", "seeked"]) audio.addEventListener(event, show);
  audio.addEventListener("error", () => fail("The recording cannot be played."));
  waveform(url, bytes, gone.signal).then(
    (found) => quiet.replaceWith(bars(found.map((bar) => Math.max(0.02, bar)))),
    (error) => gone.signal.aborted || fail(`The waveform cannot be shown: ${error.message}.`),
  );
  show();

  function toggle() {
    if (!audio.paused) return audio.pause();
    if (sounding !== audio) sounding?.pause();
    sounding = audio;
    audio.play().catch((error) => gone.signal.aborted || fail(`It does not play: ${error.message}`));
  }

  function show() {
    const length = Number.isFinite(audio.duration) ? audio.duration : 0;
    const at = audio.currentTime;
    say(button, audio.paused ? "Play" : "Pause");
    say(time, `${countdown(Math.floor(at) * 1_000)} of ${countdown(length * 1_000)}`);
    played.setAttribute("width", String(length ? (at / length) * BARS * 4 : 0));
    slider.setAttribute("aria-valuemax", String(Math.round(length)));
    slider.setAttribute("aria-valuenow", String(Math.round(at)));
    slider.setAttribute("aria-valuetext", `${Math.round(at)} of ${Math.round(length)} seconds`);
  }

  function to(/** @type {number} */ seconds) {
    if (Number.isFinite(audio.duration)) audio.currentTime = Math.min(Math.max(0, seconds), audio.duration);
    show();
  }

  function seek(/** @type {PointerEvent} */ event) {
    const { left, width } = slider.getBoundingClientRect();
    slider.setPointerCapture(event.pointerId);
    to(((event.clientX - left) / width) * audio.duration);
  }

  function drag(/** @type {PointerEvent} */ event) {
    if (event.buttons === 1) seek(event);
  }

  function keydown(/** @type {KeyboardEvent} */ event) {
    const act = {
      ArrowRight: () => to(audio.currentTime + STEP_SEC),
      ArrowUp: () => to(audio.currentTime + STEP_SEC),
      ArrowLeft: () => to(audio.currentTime - STEP_SEC),
      ArrowDown: () => to(audio.currentTime - STEP_SEC),
      PageUp: () => to(audio.currentTime + 6 * STEP_SEC),
      PageDown: () => to(audio.currentTime - 6 * STEP_SEC),
      Home: () => to(0),
      End: () => to(audio.duration),
      " ": toggle,
      Enter: toggle,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  function fail(/** @type {string} */ words) {
    say(trouble, words);
    trouble.hidden = false;
  }

  return {
    node,
    close() {
      gone.abort();
      audio.pause();
      audio.removeAttribute("src");
      audio.load();
    },
  };
}

function bars(/** @type {number[]} */ heights) {
  const d = heights.map((bar, i) => `M${i * 4 + 2} ${(HEIGHT * (1 - bar)) / 2}V${(HEIGHT * (1 + bar)) / 2}`).join("");
  return s("path", { class: "bars", d });
}
