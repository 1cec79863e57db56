// Numbers, times and money as words. Pure: the present is an argument.

import { locale, t } from "./language.js";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const WHOLE = new Intl.NumberFormat("en-US");
const CLOCK = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const CLOCK_SECONDS = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const EXACT = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const ZONE = new Intl.DateTimeFormat(locale, { timeZoneName: "short" });
const DAY = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });

/** `1 viewer`, `2 viewers`. */
export function count(/** @type {number} */ n, /** @type {string} */ noun) {
  return `${WHOLE.format(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** `12,345`. */
export function whole(/** @type {number} */ n) {
  return WHOLE.format(n);
}

/** The local clock, `14:05`, or with seconds `14:05:09`. */
export function clock(/** @type {number} */ at, seconds = false) {
  return (seconds ? CLOCK_SECONDS : CLOCK).format(at);
}

/** The clock today, with the day in front on any other day. */
export function moment(/** @type {number} */ at, /** @type {number} */ now, seconds = false) {
  const sameDay = new Date(at).toDateString() === new Date(now).toDateString();
  return sameDay ? clock(at, seconds) : `${DAY.format(at)}, ${clock(at, seconds)}`;
}

/** Day, time to the second and zone, for whoever wants to know exactly: `17 Nov 2026, 14:05:09 GMT+9`. */
export function exact(/** @type {number} */ at) {
  return Number.isFinite(at) ? EXACT.format(at) : "";
}

/** The zone that all times of these pages are in, as it is at a moment: `GMT+9`, `UTC`. */
export function zone(/** @type {number} */ at) {
  return ZONE.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value ?? "";
}

/** A length of time in its two largest units: `45 s`, `4 min`, `2 h 10 min`, `3 d 4 h`. */
export function span(/** @type {number} */ ms) {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return pair(Math.floor(ms / HOUR_MS), "h", Math.floor((ms % HOUR_MS) / MINUTE_MS), "min");
  return pair(Math.floor(ms / DAY_MS), "d", Math.floor((ms % DAY_MS) / HOUR_MS), "h");
}

/** `just now`, `4 min ago`. */
export function ago(/** @type {number} */ at, /** @type {number} */ now) {
  const past = now - at;
  return past < 5 * SECOND_MS ? t("just now", "たった今") : t(`${span(past)} ago`, `${span(past)} 前`);
}

/** What is left, as `00:42` or `3:02:10`; never below zero. */
export function countdown(/** @type {number} */ ms) {
  const left = Math.max(0, Math.ceil(ms / SECOND_MS));
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const hours = Math.floor(left / 3600);
  return `${hours ? `${hours}:` : ""}${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
}

/** Dollars; small sums keep the digits that a cost of a fraction of a cent needs. */
export function money(/** @type {number} */ usd) {
  const digits = Math.abs(usd) < 1 && usd !== 0 ? 3 : 2;
  return new Intl.NumberFormat("en-US", {
    style: "currency",
    currency: "USD",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(usd);
}

function pair(
  /** @type {number} */ a,
  /** @type {string} */ unitA,
  /** @type {number} */ b,
  /** @type {string} */ unitB,
) {
  return b ? `${a} ${unitA} ${b} ${unitB}` : `${a} ${unitA}`;
}
