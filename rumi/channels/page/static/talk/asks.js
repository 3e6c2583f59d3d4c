// @ts-check
// What waits for a person's yes in this chat: what would be done with which values, and the buttons.

import { call, currentChat, on, post } from "../connection.js";
import { byId, make, say, set } from "../dom.js";
import { icon } from "../icons.js";
import { busy, toast } from "../states.js";
import { all, onEntry } from "./entries.js";
import { answerOf, letterOf, read } from "./question.js";
import { scrollable } from "./scrolling.js";

/**
 * Something that waits: a question of the running turn by its `id`, or a parked call, a plan or a bot's question.
 * @typedef {{kind: "question" | "call" | "plan" | "bot", key: string, id?: string, number?: number, bot?: string,
 *   text: string, whole: string, always?: any, options?: string[]}} Ask
 */

const LONG = 240;
const ENDED_MS = 8000;

/** @type {Ask[]} */
let parked = [];
/** @type {{ask: Ask, element: HTMLElement, at: number} | null} */
let shown = null;
// Keys of what was answered here.
/** @type {Set<string>} */
const answered = new Set();
let place = 0;
let looked = "";
let chosen = "";

/** Another chat is shown. */
export function enter() {
  parked = [];
  shown = null;
  byId("asks").replaceChildren();
  load();
}

/** @param {import("../page.js").Page} _page */
export function begin(_page) {
  onEntry(({ head }) => {
    refresh();
    if (head.state !== "done") return;
    const now = `${head.id} ${head.ended}`;
    if (now > looked) load();
    looked = now;
  });
  on("marks", load);
  addEventListener("keydown", keyed);
}

let wanted = 0;

function load() {
  clearTimeout(wanted);
  wanted = window.setTimeout(async () => {
    const chat = currentChat();
    const found = await call("approvals", "list").catch(() => null);
    if (!Array.isArray(found) || chat !== currentChat()) return;
    parked = found.filter((one) => one.chat === chat && one.kind !== "question").map((one) => ({
      ...one, number: one.number ?? undefined, bot: one.bot ?? undefined, key: `${one.kind} ${one.bot ?? ""} ${one.number ?? one.session}`,
    }));
    refresh();
  }, 150);
}

/** @returns {Ask[]} */
function waiting() {
  const parts = all().flatMap(({ head, parts: known }) => (head.state === "running" ? [...known.values()].map(({ part }) => part) : []));
  const questions = parts.filter((part) => part.kind === "question" && !part.verdict).map((part) => (
    { kind: /** @type {const} */ ("question"), key: `question ${part.id}`, id: part.id, text: part.text, whole: part.whole || part.text }
  ));
  return [...questions, ...parked.filter((one) => !answered.has(one.key))];
}

function refresh() {
  const open = waiting();
  if (shown && !open.some((one) => one.key === shown?.ask.key)) ended(shown.ask);
  place = Math.min(place, Math.max(open.length - 1, 0));
  const now = open[place];
  if (!now) return void (shown && take(null));
  if (shown?.ask.key === now.key) return counter(open.length);
  take(now);
  counter(open.length);
  if (now.id) post("/chat/seen", { chat: currentChat(), question: now.id }).catch(() => {});
}

/** @param {Ask | null} ask */
function take(ask) {
  const held = shown?.element.contains(document.activeElement);
  for (const each of byId("asks").querySelectorAll(".ask-card")) each.remove();
  shown = ask && { ask, element: card(ask), at: performance.now() };
  if (shown) byId("asks").append(shown.element);
  if (!held) return;
  if (shown) shown.element.focus();
  else byId("message").focus();
}

/**
 * Say what became of a question that is no longer open, unless it was answered here.
 * @param {Ask} ask
 */
function ended(ask) {
  if (answered.has(ask.key)) return;
  const parts = all().flatMap(({ parts: known }) => [...known.values()].map(({ part }) => part));
  const verdict = parts.find((part) => part.kind === "question" && part.id === ask.id)?.verdict;
  const line = make("p", { class: "ask-over", role: "status" }, icon("info"), say(verdict === "expired" || verdict === "nobody" ? "ask_expired" : "ask_elsewhere"));
  byId("asks").append(line);
  setTimeout(() => line.remove(), ENDED_MS);
}

/** @param {number} count */
function counter(count) {
  const next = shown?.element.querySelector(".ask-next");
  if (!(next instanceof HTMLElement)) return;
  next.hidden = count < 2;
  set(next, "textContent", say("ask_next", { place: place + 1, count }));
}

/**
 * @param {boolean} yes
 * @param {boolean} [always]
 * @param {string} [words]
 */
async function answer(yes, always = false, words = "") {
  if (!shown) return;
  const { ask, element } = shown;
  const button = /** @type {HTMLButtonElement} */ (element.querySelector(always ? ".always" : yes ? ".yes" : ".no") ?? element.querySelector("button"));
  const chat = currentChat();
  try {
    answered.add(ask.key);
    const work = ask.kind === "question" ? post("/chat/answer", { chat, id: ask.id, yes })
      : ask.kind === "bot" ? call("bots", "wake", { name: ask.bot, session: undefined, text: words || (yes ? say("yes") : say("no")) })
      : call("approvals", "answer", { chat, yes, number: ask.number, bot: ask.bot ?? "", always });
    const told = await busy(button, work);
    if (told?.counts === false || told?.answered === false) toast(say("answer_failed"), { bad: true });
    chosen = ask.key;
    refresh();
  } catch (error) {
    answered.delete(ask.key);
    toast(error instanceof Error ? error.message : String(error), { bad: true });
  }
}

/** @param {Ask} ask */
function card(ask) {
  const { from, asks, rows } = read(ask.whole || ask.text);
  const title = make("h2", { id: "ask-title" }, ask.bot ? say("ask_of_bot", { bot: ask.bot }) : ask.kind === "plan" ? say("ask_plan") : asks);
  const lead = ask.bot || ask.kind === "plan" ? [make("p", {}, asks)] : [];
  const origin = from ? [make("p", { class: "ask-from" }, icon("warn"), make("span", {}, from))] : [];
  const values = make("dl", { class: "ask-rows" }, ...rows.flatMap(({ name, path, value, lines }) => [
    make("dt", {}, path ? `${name} · ${path}` : name),
    make("dd", { dir: "auto" }, lines ? unfolded(value) : whole(value)),
  ]));
  scrollable(values, say("ask_values"));
  const yes = make("button", { type: "button", class: "primary yes", "aria-keyshortcuts": letterOf(say("yes")) }, say("yes"), make("kbd", {}, letterOf(say("yes")).toUpperCase()));
  const no = make("button", { type: "button", class: "no", "aria-keyshortcuts": "n" }, say("no"), make("kbd", {}, "N"));
  yes.addEventListener("click", () => answer(true));
  no.addEventListener("click", () => answer(false));
  const more = [];
  if (ask.always) {
    const always = make("button", { type: "button", class: "always" }, say("ask_always"));
    always.title = say("ask_always_about", { days: ask.always.days });
    always.addEventListener("click", () => answer(true, true));
    more.push(always);
  }
  const options = (ask.options ?? []).map((words) => {
    const button = make("button", { type: "button" }, words);
    button.addEventListener("click", () => answer(true, false, words));
    return button;
  });
  const next = make("button", { type: "button", class: "quiet small ask-next", hidden: true });
  next.addEventListener("click", () => {
    place = (place + 1) % Math.max(waiting().length, 1);
    take(null);
    refresh();
    shown?.element.focus();
  });
  const about = { class: "ask-card", role: "group", "aria-labelledby": "ask-title", tabindex: "-1" };
  const buttons = options.length ? options : [yes, no, ...more];
  const said = make("p", { class: "unseen", role: "alert" }, `${asks} ${say("ask_how")}`);
  return make("div", about, make("div", { class: "ask-body" }, title, ...origin, ...lead, ...(rows.length ? [values] : [])), make("div", { class: "row wrap ask-buttons" }, ...buttons, make("span", { class: "space" }), next), said);
}

/**
 * Return a value: whole, and folded if it is long.
 * @param {string} value
 */
function whole(value) {
  if (value.length <= LONG) return value;
  const summary = make("summary", {}, make("span", { class: "clip" }, value.slice(0, LONG)), make("span", { class: "faint" }, say("characters", { count: value.length })));
  return make("details", {}, summary, unfolded(value));
}

/**
 * Return a text with its lines, such as that of a mail: it is never folded, because nobody should say yes unread.
 * @param {string} value
 */
function unfolded(value) {
  const body = make("div", { class: "folded" }, value);
  scrollable(body, say("whole_question"));
  return body;
}

/** @param {KeyboardEvent} event */
function keyed(event) {
  if (!shown || document.querySelector("dialog[open], .menu")) return;
  const target = event.target instanceof Element ? event.target : null;
  const yes = answerOf(event, {
    inCard: shown.element.contains(target),
    typing: Boolean(target?.closest("input, textarea, select, [contenteditable]")),
    free: !target || target === document.body || target.id === "log",
    age: performance.now() - shown.at,
  }, letterOf(say("yes")));
  if (yes === null || chosen === shown.ask.key || (shown.ask.options?.length ?? 0)) return;
  event.preventDefault();
  answer(yes);
}
