// A queue's status in words. Pure: the present is an argument.

import { count, countdown, span, whole } from "./format.js";

/**
 * @typedef {{
 *   name: string, url?: string | null, concurrency: number, interval_ms: number, retry_delay_ms: number,
 *   counts: { waiting: number, running: number, retrying: number, done: number, failed: number, dead: number },
 *   rate_per_sec: number, left_ms: number | null, next_call_at: number | null, next_retry_at: number | null,
 *   paused: { until: number | null, reason: string } | null, breaker: "closed" | "open" | "probing", waits_for?: string | null,
 * }} QueueStatus
 */

/** `1 at once, 100 ms apart, retry after 500 ms`. */
export function pace(/** @type {QueueStatus} */ { concurrency, interval_ms, retry_delay_ms }) {
  const parts = [`${whole(concurrency)} at once`];
  if (interval_ms > 0) parts.push(`${whole(interval_ms)} ms apart`);
  if (retry_delay_ms > 0) parts.push(`retry after ${whole(retry_delay_ms)} ms`);
  return parts.join(", ");
}

/**
 * What the queue does now: a word for its looks, and words for people.
 * @returns {{ mood: "idle" | "busy" | "waits" | "paused" | "broken", words: string }}
 */
export function doing(/** @type {QueueStatus} */ status, /** @type {number} */ now) {
  const { counts, breaker, paused, next_call_at: nextCallAt, next_retry_at: nextRetryAt } = status;
  const left = (/** @type {number} */ at) => (at - now >= 1_000 ? `in ${countdown(at - now)}` : "now");
  if (breaker === "probing") return { mood: "broken", words: "one call tries whether the API is well" };
  if (paused?.until === null) return { mood: "paused", words: "paused by hand" };
  if (paused && paused.until > now) {
    if (paused.reason === "breaker") return { mood: "broken", words: `API failing, tried again ${left(paused.until)}` };
    return { mood: "paused", words: `429, goes on ${left(paused.until)}` };
  }
  if (counts.running > 0) return { mood: "busy", words: `${whole(counts.running)} calling` };
  if (counts.waiting > 0) {
    return { mood: "waits", words: nextCallAt && nextCallAt > now ? `next call ${left(nextCallAt)}` : "next call now" };
  }
  if (counts.retrying > 0) {
    return { mood: "waits", words: nextRetryAt ? `next retry ${left(nextRetryAt)}` : "waits for a retry" };
  }
  return { mood: "idle", words: "idle" };
}

/** `4.8 a second, 12 s left`; nothing when nothing is to be done. */
export function progress(/** @type {QueueStatus} */ { counts, rate_per_sec: rate, left_ms: leftMs, paused, breaker }) {
  if (counts.waiting + counts.running + counts.retrying === 0) return "";
  // Nobody knows how long an outage takes.
  if (paused || breaker !== "closed") return "";
  const parts = [];
  if (rate >= 0.05) parts.push(`${rate >= 10 ? whole(Math.round(rate)) : rate.toFixed(1)} a second`);
  if (leftMs !== null && leftMs > 0) parts.push(`${leftMs < 1_000 ? "under 1 s" : span(leftMs)} left`);
  return parts.join(", ");
}

/** The share of all known keys that are through, from 0 to 1. */
export function share(/** @type {QueueStatus} */ { counts }) {
  const through = counts.done + counts.failed + counts.dead;
  const all = through + counts.waiting + counts.running + counts.retrying;
  return all === 0 ? 0 : through / all;
}

/** `2 retries, 1 dead`. */
export function troubles(/** @type {QueueStatus} */ { counts }) {
  const parts = [];
  if (counts.retrying > 0) parts.push(counts.retrying === 1 ? "1 retry" : `${whole(counts.retrying)} retries`);
  if (counts.failed > 0) parts.push(`${whole(counts.failed)} without result`);
  if (counts.dead > 0) parts.push(count(counts.dead, "dead key"));
  return parts.join(", ");
}
