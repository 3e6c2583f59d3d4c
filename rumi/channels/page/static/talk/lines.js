// @ts-check
// Lines between entries: days, sessions, and the folds of earlier versions.

import { arrange, make, say, set } from "../dom.js";
import { icon } from "../icons.js";

/** @typedef {import("./entries.js").Known} Known */
/** @typedef {import("../types.js").Head} Head */

// Folds that the reader has opened, by the first entry.
/** @type {Set<string>} */
const opened = new Set();

/**
 * The day of a time, as a key.
 * @param {number} seconds
 */
export function dayOf(seconds) {
  return new Date(seconds * 1000).toDateString();
}

/**
 * Return a day in words: today, yesterday, or its date.
 * @param {number} seconds
 * @param {number} [now]
 */
export function dayInWords(seconds, now = Date.now() / 1000) {
  if (dayOf(seconds) === dayOf(now)) return say("today");
  if (dayOf(seconds) === dayOf(now - 86_400)) return say("yesterday");
  const year = new Date(seconds * 1000).getFullYear() !== new Date(now * 1000).getFullYear();
  /** @type {Intl.DateTimeFormatOptions} */
  const form = { weekday: "long", day: "numeric", month: "long", ...(year ? { year: "numeric" } : {}) };
  return new Date(seconds * 1000).toLocaleDateString(document.documentElement.lang, form);
}

/**
 * Return which lines stand before each entry: a new day, a new session, the beginning of a fold.
 * @param {Head[]} heads in their order
 */
export function linesOf(heads) {
  /** @type {Head | undefined} */
  let last;
  let fold = "";
  return heads.map((head) => {
    const session = Boolean(last?.session && head.session && head.session !== last.session);
    const day = head.began > 0 && (!last || dayOf(last.began) !== dayOf(head.began));
    fold = head.replaced ? fold || head.id : "";
    if (head.began > 0) last = head.session || !last ? head : { ...head, session: last.session };
    // A branch and its earlier version are sessions too; the fold says so.
    return { id: head.id, day, session: session && !head.replaced, fold };
  });
}

/**
 * Put the lines between the entries, and return all nodes in their order.
 * @param {Known[]} known
 * @param {HTMLElement} list
 */
export function separate(known, list) {
  const found = linesOf(known.map(({ head }) => head));
  /** @type {Node[]} */
  const nodes = [];
  known.forEach((entry, place) => {
    const { day, session, fold } = found[place];
    if (session || day) nodes.push(line(entry, session));
    else entry.line = undefined;
    if (fold === entry.head.id) nodes.push(foldOf(entry, found.filter((one) => one.fold === fold).length));
    else entry.fold = undefined;
    entry.element.hidden = Boolean(fold) && !opened.has(fold);
    nodes.push(entry.element);
  });
  arrange(list, nodes);
}

/**
 * @param {Known} entry
 * @param {boolean} session
 */
function line(entry, session) {
  entry.line ??= make("div", { class: "line", role: "separator" });
  const day = dayInWords(entry.head.began);
  const words = session ? `${say("another_session")} · ${day}` : day;
  entry.line.classList.toggle("session", session);
  set(entry.line, "textContent", words);
  set(entry.line, "ariaLabel", words);
  return entry.line;
}

/**
 * @param {Known} entry
 * @param {number} count
 */
function foldOf(entry, count) {
  const id = entry.head.id;
  if (!entry.fold) {
    const button = make("button", { type: "button", class: "quiet small" }, icon("branch"), make("span"));
    entry.fold = make("div", { class: "fold" }, button);
    button.addEventListener("click", () => {
      opened.has(id) ? opened.delete(id) : opened.add(id);
      entry.changed();
    });
  }
  const button = /** @type {HTMLElement} */ (entry.fold.firstElementChild);
  const open = opened.has(id);
  set(/** @type {Element} */ (button.lastElementChild), "textContent", say(open ? "hide_version" : "earlier_version", { count }));
  button.setAttribute("aria-expanded", String(open));
  return entry.fold;
}

/**
 * Open the fold that hides an entry.
 * @param {Known[]} known
 * @param {string} id
 */
export function unfold(known, id) {
  const fold = linesOf(known.map(({ head }) => head)).find((one) => one.id === id)?.fold;
  if (fold) opened.add(fold);
}
