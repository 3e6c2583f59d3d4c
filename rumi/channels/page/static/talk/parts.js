// @ts-check
// The parts of an entry as elements.

import { make, say, took } from "../dom.js";
import { icon } from "../icons.js";
import { codeBlock } from "./code.js";
import { shownFile } from "./files.js";
import { scrollable } from "./scrolling.js";
import { TextView } from "./text.js";
import { fill, tool } from "./tool.js";

/** @typedef {import("../types.js").Part} Part */
/** @typedef {import("../types.js").Head} Head */

/**
 * A part that is shown: its element, and how it takes changes. `update` returns false if it needs a new element.
 * @typedef {{
 *   part: Part, element: HTMLElement, text?: TextView,
 *   update: (part: Part) => boolean
 * }} Shown
 */

/**
 * Show a part of an entry.
 * @param {Part} part
 * @param {Head} head
 * @returns {Shown}
 */
export function show(part, head) {
  if (part.kind === "text" && head.kind !== "you" && head.kind !== "event") return showText(part);
  if (part.kind === "tool") {
    const element = tool(part);
    const update = (/** @type {Part} */ now) => now.kind === "tool" && now.id === part.id && Boolean(fill(element, now));
    return { part, element, update };
  }
  return { part, element: still(part, head), update: () => false };
}

/**
 * @param {Part} part
 * @returns {Shown}
 */
function showText(part) {
  const text = new TextView();
  const element = text.element;
  element.classList.toggle("ending", Boolean(part.ending));
  text.set(part.raw ?? "", part.blocks ?? []);
  return {
    part,
    element,
    text,
    update(now) {
      if (now.kind !== "text") return false;
      element.classList.toggle("ending", Boolean(now.ending));
      text.set(now.raw ?? "", now.blocks ?? []);
      return true;
    },
  };
}

/**
 * @param {Part} part
 * @param {Head} head
 * @returns {HTMLElement}
 */
function still(part, head) {
  switch (part.kind) {
    case "todo":
      return todo(part.items);
    case "question":
      return asked(part);
    case "file":
      return shownFile(part.path, part.name || part.path, part.size);
    case "command":
      return codeBlock([part.text], "");
    case "handed":
      return folded("handed", say("handed_by", { source: part.source }), part.text);
    case "thought":
      return folded("thought", say("thought_for", { time: took(part.ms / 1000) }), part.text);
    case "waiting":
      return waiting(part);
    case "text":
      return head.kind === "event" && (part.raw ?? "").length > 200
        ? folded("task", say("the_task"), part.raw ?? "")
        : make("div", { class: "text", dir: "auto" }, part.raw ?? "");
    default:
      return make("p", { class: "note" }, part.text ?? "");
  }
}

/**
 * @param {string} name
 * @param {string} title
 * @param {string} text
 */
function folded(name, title, text) {
  const body = make("div", { class: "folded", dir: "auto" }, text);
  scrollable(body, title);
  return make("details", { class: name }, make("summary", {}, title), body);
}

/** @param {{text: string, state: string, mark: string}[]} items */
function todo(items) {
  const done = items.filter(({ state }) => state === "done").length;
  const title = make("p", { class: "card-title" }, icon("list"), make("b", {}, say("todo")), make("span", { class: "faint" }, `${done} / ${items.length}`));
  return make("div", { class: "todo" }, title, make("ul", { "aria-label": say("todo") }, ...items.map(todoItem)));
}

/** @param {{text: string, state: string, mark: string}} item */
function todoItem(item) {
  const mark = make("span", { class: "mark", role: "img", "aria-label": say(`todo_${item.state}`) }, ...(item.state === "done" ? [icon("check")] : []));
  return make("li", { class: item.state }, mark, make("span", {}, item.text));
}

/**
 * A question with its answer. While it is open, it is shown with its buttons above the composer.
 * @param {Part} part
 */
function asked(part) {
  if (!part.verdict) return make("p", { hidden: true });
  const words = make("span", {}, String(part.text).split("\n")[0]);
  const badge = make("span", { class: `badge ${part.verdict === "yes" ? "ok" : ""}` }, say(`verdict_${part.verdict}`));
  const body = make("div", { class: "folded" }, part.whole || part.text);
  scrollable(body, say("whole_question"));
  return make("details", { class: "asked" }, make("summary", {}, words, badge), body);
}

/**
 * A pause before the next attempt, with the seconds that are left.
 * @param {Part} part
 */
function waiting(part) {
  const left = make("span", {}, "");
  const element = make("p", { class: "note waiting" }, make("span", { class: "dot work" }), make("span", {}, part.why), left);
  const show = () => {
    const seconds = Math.max(0, Math.ceil(part.until - Date.now() / 1000));
    left.textContent = seconds ? say("again_in", { seconds }) : say("again_now");
    if (seconds && (!element.dataset.shown || element.isConnected)) setTimeout(show, 1000);
    element.dataset.shown = "true";
  };
  show();
  return element;
}
