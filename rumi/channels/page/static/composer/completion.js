// @ts-check
// Completion of commands, skills and files below the cursor: a listbox, by the pattern of the ARIA practices.

import { call, currentChat } from "../connection.js";
import { get, make, say } from "../dom.js";
import { commandOffers, mentions } from "./keys.js";

/** @typedef {import("./keys.js").Offer} Offer */

const MOST_SHOWN = 50;
const WAIT_MS = 80;

const list = make("ul", { id: "offers", role: "listbox", "aria-label": say("offers"), hidden: true });
const count = make("span", { class: "unseen", role: "status" });
/** @type {HTMLTextAreaElement} */
let field;
/** @type {Offer[]} */
let shown = [];
let chosen = -1;
let asked = 0;
let timer = 0;
/** @type {{name: string, description: string, text: string}[] | null} */
let skills = null;

/**
 * Offer completions in a field. Returns the list and the text for screen readers.
 * @param {HTMLTextAreaElement} element
 */
export function begin(element) {
  field = element;
  const about = { "aria-autocomplete": "list", "aria-controls": list.id };
  for (const [name, value] of Object.entries(about)) field.setAttribute(name, value);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", keyed, { capture: true });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the focus stays in the field
  return [list, count];
}

/** Whether completions are shown. */
export function offering() {
  return !list.hidden;
}

/** Show no completions. */
export function close() {
  asked += 1;
  clearTimeout(timer);
  if (list.hidden) return;
  list.hidden = true;
  list.replaceChildren();
  shown = [];
  count.textContent = "";
  field.removeAttribute("aria-activedescendant");
}

/** Look for completions of what stands before the cursor now. */
export function look() {
  const before = field.value.slice(0, field.selectionStart);
  const { offers, whole } = commandOffers(before, field.value, commands(), skills ?? []);
  if (before === "/" && skills === null) loadSkills();
  if (offers.length) return offer(offers, whole ? -1 : 0);
  clearTimeout(timer);
  if (!mentions(before)) return close();
  timer = window.setTimeout(() => files(before), WAIT_MS);
}

/** @returns {[string, string][]} */
function commands() {
  return JSON.parse(document.body.dataset.commands || "[]");
}

async function loadSkills() {
  skills = [];
  const found = await call("skills", "list").catch(() => null);
  const named = Array.isArray(found) ? found : found?.skills ?? [];
  skills = named
    .filter((/** @type {any} */ skill) => skill.name && skill.enabled !== false && (skill.state ?? "enabled") !== "disabled")
    .map((/** @type {any} */ { name, description = "" }) => ({ name, description, text: say("use_skill", { name }) }));
  if (field.value === "/") look();
}

/** @param {string} before */
async function files(before) {
  const mine = ++asked;
  const chat = currentChat();
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const answer = await get("/files/offers", { chat, line });
  if (mine !== asked || chat !== currentChat() || field.value.slice(0, field.selectionStart) !== before) return;
  /** @type {Offer[]} */
  const found = (answer?.offers ?? []).filter((/** @type {Offer} */ each) => each.text !== each.typed);
  if (!found.length) return close();
  offer(found.map((each) => ({ ...each, text: each.label.endsWith("/") ? each.text : `${each.text} ` })), 0);
}

/**
 * @param {Offer[]} offers
 * @param {number} first the one that Enter takes; -1 for none
 */
function offer(offers, first) {
  shown = offers.slice(0, MOST_SHOWN);
  list.replaceChildren(...shown.map((each, place) => {
    const hint = each.hint ? [make("span", { class: "faint" }, each.hint)] : [];
    const item = make("li", { id: `offer-${place}`, role: "option", "aria-selected": "false" }, make("b", {}, each.label), ...hint);
    item.addEventListener("click", () => accept(place));
    return item;
  }));
  list.hidden = false;
  list.scrollTop = 0;
  count.textContent = say("offers_count", { count: shown.length });
  choose(first);
}

/** @param {number} place */
function choose(place) {
  chosen = place;
  [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === place)));
  if (place < 0) return field.removeAttribute("aria-activedescendant");
  field.setAttribute("aria-activedescendant", `offer-${place}`);
  list.children[place].scrollIntoView({ block: "nearest" });
}

/** @param {number} place */
function accept(place) {
  const { text, typed } = shown[place];
  const end = field.selectionStart;
  close();
  field.focus();
  field.setRangeText(text, end - typed.length, end, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** @param {KeyboardEvent} event */
function keyed(event) {
  if (list.hidden || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const take = (event.key === "Enter" && !event.shiftKey) || (event.key === "Tab" && !event.shiftKey);
  if (event.key === "ArrowDown") choose((chosen + 1) % shown.length);
  else if (event.key === "ArrowUp") choose(chosen <= 0 ? shown.length - 1 : chosen - 1);
  else if (take && (chosen >= 0 || event.key === "Tab")) accept(Math.max(0, chosen));
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
