// @ts-check
// Search in all chats: results as one types, with the words marked; arrows move, Escape returns.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { button, empty, icon, skeleton } from "../ui.js";
import { pieces } from "./grouping.js";
import { titleOf } from "./naming.js";

const PAUSE_MS = 250;
/** Where a result is shown: a text with marks. */
/** @typedef {{chat: string, entry: string, title: string, marks: [number, number][], excerpt?: string, who?: string, at?: string}} Hit */

const field = make("input", { type: "search", id: "search", autocomplete: "off", spellcheck: "false", enterkeyhint: "search" });
const results = make("div", { id: "found", hidden: true });
const list = make("ul", {});
const told = make("p", { class: "unseen", role: "status" });

/** The search field. */
export const bar = make("div", { class: "find", role: "search" }, icon("search"), field, make("kbd", { class: "wide-only", "aria-hidden": "true" }, "Ctrl K"));
/** The results, which stand in place of the list of chats. */
export const element = results;

let timer = 0;
let asked = 0;
let next = 0;
let searched = "";
/** @type {(chat: string, entry: string) => void} */
let go = () => {};
/** @type {(searching: boolean) => void} */
let changed = () => {};

/** Put the focus into the field. */
export function focus() {
  field.focus();
  field.select();
}

/** End the search: the chats are shown again. */
export function end() {
  clearTimeout(timer);
  asked += 1;
  field.value = "";
  searched = "";
  results.hidden = true;
  told.textContent = "";
  changed(false);
}

async function search(before = 0) {
  const words = field.value.trim();
  if (!words) return end();
  if (words === searched && !before) return;
  searched = words;
  const own = ++asked;
  if (results.hidden) {
    results.hidden = false;
    list.replaceChildren();
    changed(true);
  }
  if (!list.childElementCount) list.replaceChildren(make("li", {}, skeleton(3)));
  try {
    const found = await call("chats", "search", { words, before });
    if (own !== asked) return;
    show(found, before > 0);
  } catch (error) {
    if (own !== asked) return;
    searched = "";
    list.replaceChildren(make("li", {}, empty(error instanceof Error ? error.message : String(error))));
  }
}

/**
 * @param {{entries: any[], titles: any[], next: number}} found
 * @param {boolean} further
 */
function show(found, further) {
  next = found.next;
  /** @type {Hit[]} */
  const hits = [
    ...(found.titles ?? []).map((one) => ({ chat: one.chat, entry: "", title: one.title, marks: one.marks })),
    ...found.entries.filter((one) => one.entry && one.role !== "tool").map((one) => ({
      chat: one.chat,
      entry: one.entry,
      title: titleOf(one),
      marks: one.marks,
      excerpt: one.excerpt,
      who: say(one.role === "user" ? "you" : one.role === "system" ? "event" : "assistant"),
      at: one.time,
    })),
  ];
  const items = hits.map(hitItem);
  for (const more of list.querySelectorAll(".more")) more.remove();
  if (further) list.append(...items);
  else list.replaceChildren(...items);
  if (next) list.append(make("li", { class: "more" }, button({ text: say("older_hits"), kind: "quiet small", act: () => search(next) })));
  if (!list.querySelector("a")) list.replaceChildren(make("li", {}, empty(say("nothing_found_for", { words: searched }), undefined, "search")));
  const count = list.querySelectorAll("a").length;
  told.textContent = count ? say(next ? "found_more" : "found_count", { count }) : say("nothing_found_for", { words: searched });
}

/** @param {Hit} hit */
function hitItem(hit) {
  const where = `?chat=${encodeURIComponent(hit.chat)}${hit.entry ? `&entry=${hit.entry}` : ""}`;
  const title = make("span", { class: "hit-title clip", dir: "auto" }, ...(hit.excerpt === undefined ? marked(hit.title, hit.marks) : [hit.title]));
  const head = make("span", { class: "hit-head" }, title, ...(hit.at ? [make("time", { datetime: hit.at }, day(hit.at))] : [icon("next")]));
  const link = make("a", { href: where }, head);
  if (hit.excerpt !== undefined) {
    const words = make("span", { class: "hit-text", dir: "auto" });
    words.append(make("b", {}, `${hit.who}: `), ...marked(hit.excerpt, hit.marks));
    link.append(words);
  }
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(hit.chat, hit.entry);
  });
  return make("li", {}, link);
}

/**
 * @param {string} text
 * @param {[number, number][]} marks
 */
function marked(text, marks) {
  return pieces(text, marks).map((piece) => (piece.found ? make("mark", {}, piece.text) : piece.text));
}

/** @param {string} at */
function day(at) {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  const language = document.documentElement.lang;
  if (today) return date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", hour12: false });
  const year = date.getFullYear() === new Date().getFullYear() ? undefined : /** @type {const} */ ("numeric");
  return date.toLocaleDateString(language, { day: "numeric", month: "short", year });
}

/** @param {KeyboardEvent} event */
function keyed(event) {
  if (event.isComposing) return;
  const links = [...list.querySelectorAll("a")];
  const at = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
  if (event.key === "Escape" && (field.value || !results.hidden)) {
    event.preventDefault();
    event.stopPropagation(); // it ends the search, and stops no turn
    end();
    field.focus();
  } else if (event.key === "ArrowDown" && links.length) {
    event.preventDefault();
    links[Math.min(at + 1, links.length - 1)].focus();
  } else if (event.key === "ArrowUp" && at >= 0) {
    event.preventDefault();
    if (at === 0) field.focus();
    else links[at - 1].focus();
  } else if (event.key === "Enter" && document.activeElement === field && links.length && searched === field.value.trim()) {
    event.preventDefault();
    links[0].click();
  }
}

/**
 * @param {(chat: string, entry: string) => void} open
 * @param {(searching: boolean) => void} onChange
 */
export function begin(open, onChange) {
  go = open;
  changed = onChange;
  field.placeholder = say("search_chats");
  field.setAttribute("aria-label", say("search_chats"));
  list.setAttribute("aria-label", say("found"));
  results.append(list);
  bar.append(told);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    if (!field.value.trim()) end();
    else timer = window.setTimeout(search, PAUSE_MS);
  });
  for (const part of [bar, results]) part.addEventListener("keydown", keyed);
}
