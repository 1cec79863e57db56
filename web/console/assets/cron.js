// A cron expression in words, for the shapes people write; any other expression is shown as it is. Pure.
// Fields: [second] minute hour day month weekday, in UTC, as the schedule reads them.

import { t } from "./language.js";

const DAYS = ["日", "月", "火", "水", "木", "金", "土", "日"];
const UNITS = /** @type {Record<string, string>} */ ({ second: "秒", minute: "分", hour: "時間" });
const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const NAMES = { SUN: 0, MON: 1, TUE: 2, WED: 3, THU: 4, FRI: 5, SAT: 6 };

/** @param {string} expression */
export function cronInWords(expression) {
  const fields = expression.trim().split(/\s+/);
  const [second, minute, hour, day, month, weekday] = fields.length === 6 ? fields : ["0", ...fields];
  const plain = expression.trim();
  if (fields.length < 5 || fields.length > 6 || month !== "*") return plain;
  const everyDay = day === "*" && weekday === "*";
  const byClock = everyDay && hour === "*";

  if (byClock && minute === "*") return everyUnit(second, "second", second === "0" ? t("every minute", "毎分") : null) ?? plain;
  if (second !== "0") return plain;
  if (byClock) return everyUnit(minute, "minute", minute === "0" ? t("every hour", "毎時") : null) ?? hourly(minute) ?? plain;
  if (everyDay && minute === "0" && hour.startsWith("*/")) return everyUnit(hour, "hour", null) ?? plain;

  const time = isNumber(minute) && isNumber(hour) ? t(`at ${two(hour)}:${two(minute)} UTC`, `${two(hour)}:${two(minute)} UTC`) : null;
  const days = everyDay ? t("every day", "毎日") : day === "*" ? weekdays(weekday) : weekday === "*" ? monthly(day) : null;
  return days && time ? `${days} ${time}` : plain;
}

/** @param {string} field @param {string} unit @param {string | null} atZero */
function everyUnit(field, unit, atZero) {
  if (field === "*" || field === "*/1") return t(`every ${unit}`, `毎${UNITS[unit]}`);
  const step = /^(?:\*|0)\/(\d+)$/.exec(field);
  if (step) return t(`every ${Number(step[1])} ${unit}s`, `${Number(step[1])} ${UNITS[unit]}ごと`);
  return atZero;
}

/** @param {string} minute */
function hourly(minute) {
  return isNumber(minute) ? t(`every hour at ${Number(minute)} past`, `毎時 ${Number(minute)} 分`) : null;
}

/** @param {string} day */
function monthly(day) {
  return isNumber(day) ? t(`on day ${Number(day)} of every month`, `毎月 ${Number(day)} 日`) : null;
}

/** @param {string} field */
function weekdays(field) {
  const range = field
    .toUpperCase()
    .replace(/[A-Z]{3}/g, (name) => String(NAMES[/** @type {keyof typeof NAMES} */ (name)] ?? name));
  if (range === "1-5") return t("Monday to Friday", "月曜から金曜");
  return /^[0-7]$/.test(range) ? t(`every ${WEEKDAYS[Number(range)]}`, `毎週${DAYS[Number(range)]}曜`) : null;
}

/** @param {string} field */
function isNumber(field) {
  return /^\d{1,2}$/.test(field);
}

/** @param {string} field */
function two(field) {
  return field.padStart(2, "0");
}
