// Books into the shelf: typed, pasted, or read by the camera where the browser can read barcodes.

import { ask } from "/assets/api.js";
import { at, h, say } from "/assets/dom.js";
import { count } from "/assets/format.js";
import { candidates } from "./shelf-candidates.js";

// As many as the node takes at a time.
const SCAN_MAX = 1_000;
const REFUSED_MAX = 20;
const LOOK_EVERY_MS = 200;

export function openScan() {
  const form = /** @type {HTMLFormElement} */ (at("scan"));
  const field = /** @type {HTMLTextAreaElement} */ (at("isbns"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await add(candidates(field.value))) field.value = "";
    field.focus();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  // Offered only where it can be used.
  whyNot().then((obstacle) => (at("camera").hidden = obstacle !== undefined));
  openCamera();
}

/** Sends ISBNs to the node and says what became of them; false if none was sent. */
async function add(/** @type {string[]} */ isbns) {
  const told = at("scan-told");
  at("refused").replaceChildren();
  if (isbns.length === 0) {
    say(told, "There is no number in this. An ISBN has 10 or 13 digits and stands above the barcode.");
    return false;
  }
  let added = 0;
  /** @type {{ input: string, reason: string }[]} */
  const refused = [];
  try {
    for (let start = 0; start < isbns.length; start += SCAN_MAX) {
      const answer = await ask("/api/shelf/scan", { method: "POST", body: { isbns: isbns.slice(start, start + SCAN_MAX) } });
      added += answer.scans.length;
      refused.push(...answer.refused);
    }
  } catch (error) {
    say(told, error.message);
    return false;
  }
  say(told, [added > 0 ? `${count(added, "book")} on the way.` : "", refused.length > 0 ? `${count(refused.length, "entry").replace("entrys", "entries")} not added:` : ""].join(" ").trim());
  at("refused").replaceChildren(
    ...refused.slice(0, REFUSED_MAX).map(({ input, reason }) => h("li", {}, h("code", {}, input), " ", reason)),
    ...(refused.length > REFUSED_MAX ? [h("li", {}, `and ${refused.length - REFUSED_MAX} more`)] : []),
  );
  return true;
}

function openCamera() {
  const button = /** @type {HTMLButtonElement} */ (at("camera"));
  const view = at("camera-view");
  const video = /** @type {HTMLVideoElement} */ (at("video"));
  const told = at("camera-told");
  /** @type {MediaStream | undefined} */
  let stream;
  let looking = 0;
  /** @type {Set<string>} */
  const seen = new Set();

  button.addEventListener("click", () => (view.hidden ? start() : stop()));
  window.addEventListener("pagehide", stop);

  async function start() {
    view.hidden = false;
    button.setAttribute("aria-expanded", "true");
    say(button, "Stop the camera");
    const obstacle = await whyNot();
    video.hidden = obstacle !== undefined;
    if (obstacle !== undefined) return say(told, obstacle);
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      video.srcObject = stream;
      await video.play();
    } catch (error) {
      video.hidden = true;
      return say(told, error.name === "NotAllowedError" ? "The camera is not allowed. Allow it for this page, or type the number." : `The camera does not start: ${error.message}`);
    }
    say(told, "Hold the barcode of a book in front of the camera.");
    // @ts-expect-error not in TypeScript's library yet
    const detector = new BarcodeDetector({ formats: ["ean_13"] });
    looking = window.setInterval(() => look(detector), LOOK_EVERY_MS);
  }

  async function look(/** @type {any} */ detector) {
    const codes = await detector.detect(video).catch(() => []);
    for (const { rawValue } of codes) {
      // Books alone: other goods have barcodes of the same kind.
      if (!/^97[89]\d{10}$/.test(rawValue) || seen.has(rawValue)) continue;
      seen.add(rawValue);
      say(told, `Read ${rawValue}.`);
      if (!(await add([rawValue]))) seen.delete(rawValue);
    }
  }

  function stop() {
    clearInterval(looking);
    stream?.getTracks().forEach((track) => track.stop());
    stream = undefined;
    video.srcObject = null;
    view.hidden = true;
    button.setAttribute("aria-expanded", "false");
    say(button, "Scan with the camera");
  }
}

/** Why this browser cannot scan, in words; nothing if it can. */
async function whyNot() {
  if (!window.isSecureContext) return "Browsers open the camera on https:// or on this machine only. Type or paste the numbers instead.";
  if (!("BarcodeDetector" in window)) return "This browser cannot read barcodes; Chrome on Android, macOS and ChromeOS can. Type or paste the numbers instead.";
  // @ts-expect-error not in TypeScript's library yet
  const formats = await BarcodeDetector.getSupportedFormats().catch(() => []);
  if (!formats.includes("ean_13")) return "This machine has no reader for the barcodes of books. Type or paste the numbers instead.";
  if (!navigator.mediaDevices?.getUserMedia) return "This browser has no access to a camera. Type or paste the numbers instead.";
  return undefined;
}
