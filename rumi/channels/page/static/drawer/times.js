// @ts-check
// Times and amounts in the reader's language and by this browser's clock.

const DAY_MS = 86_400_000;

/** @param {Date} date */
function midnight(date) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}

/**
 * Return a time such as `today, 09:00`, `Thursday, 18:30`, `12 Dec 2026, 09:00`; empty without one.
 * @param {string | number | null | undefined} at in RFC 3339, or in milliseconds
 * @param {string} language
 * @param {number} [now] in milliseconds
 */
export function moment(at, language, now = Date.now()) {
  if (!at) return "";
  const then = new Date(at);
  const days = Math.round((midnight(then) - midnight(new Date(now))) / DAY_MS);
  const clock = then.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  if (Math.abs(days) <= 1) return `${new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(days, "day")}, ${clock}`;
  if (days > 1 && days < 7) return `${then.toLocaleDateString(language, { weekday: "long" })}, ${clock}`;
  return `${then.toLocaleDateString(language, { day: "numeric", month: "short", year: "numeric" })}, ${clock}`;
}

/**
 * Return an amount of money with as many digits as say something.
 * @param {number} amount in USD
 * @param {string} language
 */
export function money(amount, language) {
  const digits = amount >= 1 || amount === 0 ? 2 : 4;
  return amount.toLocaleString(language, { style: "currency", currency: "USD", minimumFractionDigits: 2, maximumFractionDigits: digits });
}

/**
 * Return a count with the language's separators, short from ten thousand on: `8,212`, `81K`.
 * @param {number} number
 * @param {string} language
 */
export function count(number, language) {
  const about = /** @type {Intl.NumberFormatOptions} */ (number < 10_000 ? {} : { notation: "compact", maximumFractionDigits: 1 });
  return number.toLocaleString(language, about);
}

/**
 * Return a share such as `80 %`.
 * @param {number} share 1 is all
 * @param {string} language
 */
export function percent(share, language) {
  return share.toLocaleString(language, { style: "percent", maximumFractionDigits: 0 });
}

/** The language of the page. */
export function language() {
  return document.documentElement.lang || "en";
}
