// Answers and news in the right order. An answer shows how things were at some moment while its request was under way, and
// news that came meanwhile may be newer. Guarantees: whatever the order of arrival, news that came after a request was sent
// are applied once more after its answer, so that no answer puts back what is known to have changed.
// Every answer whose content is also told as news must be taken by way of merge().

/** @type {Record<string, (data: any) => void>} */
let listeners = {};
/** @type {[string, any][]} */
let kept = [];
let underWay = 0;

/** What is done with news, by name. */
export function listen(/** @type {Record<string, (data: any) => void>} */ on) {
  listeners = on;
}

/** Takes one piece of news: at once, and again after each answer that is still awaited. */
export function hear(/** @type {string} */ name, /** @type {any} */ data) {
  if (underWay > 0) kept.push([name, data]);
  listeners[name]?.(data);
}

/**
 * Awaits an answer, lets `take` show it, and applies the news that came since. Call it in the statement that asks.
 * @template T
 * @param {Promise<T>} asking
 * @param {(answer: T) => void} take
 * @returns {Promise<T>}
 */
export async function merge(asking, take) {
  const from = kept.length;
  underWay += 1;
  try {
    const answer = await asking;
    take(answer);
    for (const [name, data] of kept.slice(from)) listeners[name]?.(data);
    return answer;
  } finally {
    underWay -= 1;
    if (underWay === 0) kept = [];
  }
}
