// A queue's status in words. Pure: the present is an argument.

import { count, countdown, span, whole } from "./format.js";
import { t } from "./language.js";

/**
 * @typedef {{
 *   name: string, url?: string | null, concurrency: number, interval_ms: number, retry_delay_ms: number, pace_is_set?: boolean, resultTtlSec?: number,
 *   groups?: { concurrency: number, interval_ms: number } | null,
 *   counts: { waiting: number, running: number, retrying: number, done: number, failed: number, dead: number },
 *   rate_per_sec: number, left_ms: number | null, next_call_at: number | null, next_retry_at: number | null,
 *   paused: { until: number | null, reason: string } | null, breaker: "closed" | "open" | "probing", waits_for?: string | null,
 * }} QueueStatus
 */

/** `1 at once, 100 ms apart, retry after 500 ms`. */
export function pace(/** @type {QueueStatus} */ { concurrency, interval_ms, retry_delay_ms, pace_is_set: isSet }) {
  const parts = [t(`${whole(concurrency)} at once`, `同時に ${whole(concurrency)}`)];
  if (interval_ms > 0) parts.push(t(`${whole(interval_ms)} ms apart`, `間隔 ${whole(interval_ms)} ms`));
  if (retry_delay_ms > 0) parts.push(t(`retry after ${whole(retry_delay_ms)} ms`, `${whole(retry_delay_ms)} ms 後に再試行`));
  if (isSet) parts.push(t("set by hand", "手動設定"));
  return parts.join(", ");
}

/** The pace of each group, as `each group: 1 at once, 250 ms apart`; nothing where there are no groups. */
export function groupPace(/** @type {QueueStatus} */ { groups }) {
  if (!groups) return "";
  const { concurrency, interval_ms: intervalMs } = groups;
  const apart = intervalMs > 0 ? t(`, ${whole(intervalMs)} ms apart`, `、間隔 ${whole(intervalMs)} ms`) : "";
  return t(`Each group: ${whole(concurrency)} at once${apart}.`, `グループごとに同時 ${whole(concurrency)}${apart}。`);
}

/** How long results are kept, where that is bounded. */
export function kept(/** @type {QueueStatus} */ { resultTtlSec }) {
  return resultTtlSec ? t(`results kept for ${span(resultTtlSec * 1_000)}`, `結果の保存 ${span(resultTtlSec * 1_000)}`) : "";
}

/**
 * What the queue does now: a word for its looks, and words for people.
 * @returns {{ mood: "idle" | "busy" | "waits" | "paused" | "broken", words: string }}
 */
export function doing(/** @type {QueueStatus} */ status, /** @type {number} */ now) {
  const { counts, breaker, paused, next_call_at: nextCallAt, next_retry_at: nextRetryAt } = status;
  const left = (/** @type {number} */ at) => (at - now >= 1_000 ? t(`in ${countdown(at - now)}`, `${countdown(at - now)} 後`) : t("now", "今"));
  if (breaker === "probing") return { mood: "broken", words: t("one call tries whether the API is well", "API の回復を一回の呼び出しで確認中") };
  if (paused?.until === null) return { mood: "paused", words: t("paused by hand", "手動で停止中") };
  if (paused && paused.until > now) {
    if (paused.reason === "breaker") return { mood: "broken", words: t(`API failing, tried again ${left(paused.until)}`, `API が失敗中、再開 ${left(paused.until)}`) };
    return { mood: "paused", words: t(`429, goes on ${left(paused.until)}`, `429、再開 ${left(paused.until)}`) };
  }
  if (counts.running > 0) return { mood: "busy", words: t(`${whole(counts.running)} calling`, `${whole(counts.running)} 件呼び出し中`) };
  if (counts.waiting > 0) {
    return { mood: "waits", words: nextCallAt && nextCallAt > now ? t(`next call ${left(nextCallAt)}`, `次の呼び出し ${left(nextCallAt)}`) : t("next call now", "次の呼び出し 今") };
  }
  if (counts.retrying > 0) {
    return { mood: "waits", words: nextRetryAt ? t(`next retry ${left(nextRetryAt)}`, `次の再試行 ${left(nextRetryAt)}`) : t("waits for a retry", "再試行待ち") };
  }
  return { mood: "idle", words: t("idle", "待機中") };
}

/** `4.8 a second, 12 s left`; nothing when nothing is to be done. */
export function progress(/** @type {QueueStatus} */ { counts, rate_per_sec: rate, left_ms: leftMs, paused, breaker }) {
  if (counts.waiting + counts.running + counts.retrying === 0) return "";
  // Nobody knows how long an outage takes.
  if (paused || breaker !== "closed") return "";
  const parts = [];
  if (rate >= 0.05) parts.push(t(`${rate >= 10 ? whole(Math.round(rate)) : rate.toFixed(1)} a second`, `毎秒 ${rate >= 10 ? whole(Math.round(rate)) : rate.toFixed(1)} 件`));
  if (leftMs !== null && leftMs > 0) parts.push(t(`${leftMs < 1_000 ? "under 1 s" : span(leftMs)} left`, `残り ${leftMs < 1_000 ? "1 s 未満" : span(leftMs)}`));
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
