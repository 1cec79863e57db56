// The gallery: the newest picture, the ones before, and the time until the next. This page is an audience: opening it
// starts the viewer, and that is what makes the next picture be made.

import { ask, serverNow } from "/assets/api.js";
import { openPage } from "/assets/app.js";
import { at, h, keyed, say } from "/assets/dom.js";
import { clock, count, countdown, exact, moment, zone } from "/assets/format.js";
import { merge } from "/assets/news.js";

const STRIP_MAX = 24;

const PICTURES = "/storage/pictures/";

/** @typedef {{ objectKey: string, ts: string, url: string, viewers: number, hash: string }} Picture */

/** @type {Picture[]} */
let pictures = [];
/** @type {any} */
let job = null;
/** @type {string | null} */
let chosen = null;
let viewers = 0;
let watching = false;
let watchingBegan = false;

const page = openPage({
  async read() {
    const answers = Promise.all([ask("/api/gallery"), ask("/api/jobs"), ask("/api/viewer")]);
    // Somebody who is still asked for the token sees no picture; everybody else watches, even while reading fails.
    answers.then(watch, (error) => error.needsToken || watch());
    await merge(answers, ([gallery, schedule, presence]) => {
      pictures = gallery.pictures.filter(isPicture).slice(0, STRIP_MAX);
      job = schedule.jobs.find((/** @type {any} */ each) => each.kind === "picture") ?? null;
      viewers = presence.viewers;
      show();
    });
  },
  on: {
    viewer(figure) {
      viewers = Number(figure.viewers) || 0;
      showCompany();
    },
    job: () => page.refresh(),
  },
  tick: showNext,
});

/** Counts this page as a viewer. Loaded on its own, so that a missing package costs the count and not the pictures. */
async function watch() {
  if (watchingBegan) return;
  watchingBegan = true;
  try {
    const { startViewer } = await import("/pkg/viewer.js");
    // Failed heartbeats are followed by the next one; the connection state in the header already tells of them.
    await startViewer({ onError: () => {} }).sessionId;
    watching = true;
  } catch (error) {
    const trouble = at("watch-trouble");
    say(trouble, `This page could not be counted as a viewer: ${error.message}`);
    trouble.hidden = false;
  }
  showCompany();
}

/** An address anywhere else is no picture of this node, and one without a time cannot be shown among the others. */
function isPicture(/** @type {any} */ each) {
  return typeof each?.url === "string" && each.url.startsWith(PICTURES) && !Number.isNaN(Date.parse(each.ts));
}

function show() {
  if (!pictures.some((picture) => picture.objectKey === chosen)) chosen = null;
  const picture = pictures.find((each) => each.objectKey === chosen) ?? pictures[0];
  at("gallery-empty").hidden = Boolean(picture);
  say(
    at("gallery-empty-words"),
    job
      ? "No picture yet. The first one is made at the next tick, because you are here."
      : "No picture job is configured on this node.",
  );
  at("gallery-picture").hidden = !picture;
  if (picture) showPicture(picture);
  at("strip-part").hidden = pictures.length < 2;
  keyed(at("strip"), pictures, (each) => each.objectKey, createThumb);
  showNext();
  showCompany();
}

function showPicture(/** @type {Picture} */ picture) {
  const image = /** @type {HTMLImageElement} */ (at("picture"));
  if (image.getAttribute("src") !== picture.url) image.src = picture.url;
  image.alt = `Picture of ${clock(madeAt(picture))}, made for ${count(picture.viewers, "viewer")}`;
  say(at("picture-minute"), `${moment(madeAt(picture), serverNow())} ${zone(madeAt(picture))}`);
  at("picture-minute").setAttribute("title", exact(madeAt(picture)));
  say(at("picture-viewers"), `made for ${count(picture.viewers, "viewer")}`);
  say(at("picture-newest"), picture === pictures[0] ? "newest" : "earlier");
}

function madeAt(/** @type {Picture} */ picture) {
  return Date.parse(picture.ts);
}

function createThumb(/** @type {Picture} */ picture) {
  const image = h("img", { src: picture.url, alt: "", width: 144, height: 90, loading: "lazy" });
  const choose = () => {
    chosen = picture.objectKey === pictures[0].objectKey ? null : picture.objectKey;
    show();
  };
  const button = h(
    "button",
    { class: "thumb", type: "button", on: { click: choose } },
    image,
    h("span", {}, clock(madeAt(picture))),
  );
  button.setAttribute("aria-label", `Show the picture of ${clock(madeAt(picture))}`);
  return {
    node: h("li", {}, button),
    update(/** @type {Picture} */ each) {
      button.setAttribute("aria-pressed", String(each.objectKey === (chosen ?? pictures[0].objectKey)));
    },
  };
}

function showNext() {
  if (!job) return say(at("next"), "");
  if (job.running) return say(at("next"), "The next picture is being made.");
  const left = job.next_at - serverNow();
  say(at("next"), left > 0 ? `Next picture in ${countdown(left)} while you watch` : "Next picture any moment now");
}

function showCompany() {
  if (!watching) return say(at("company"), "");
  const others = viewers - 1;
  say(at("company"), others < 1 ? "You are watching" : `You and ${count(others, "other")} are watching`);
}
