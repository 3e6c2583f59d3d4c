// @ts-check
// A tool call: what it does, its steps, its output, and what it changed.

import { block } from "../copy.js";
import { arrange, make, say, set, took } from "../dom.js";
import { icon } from "../icons.js";
import { shownFile } from "./files.js";
import { scrollable } from "./scrolling.js";

/** @typedef {import("../types.js").Part} Part */

// What tools do, by their names: the name of the text.
/** @type {Record<string, string>} */
const VERBS = {
  bash: "do_run", bash_output: "do_look", bash_stop: "do_stop", read: "do_read", read_file: "do_read", ls: "do_list",
  grep: "do_search", find: "do_search", write_file: "do_write", edit_file: "do_edit", send_file: "do_send",
  web_fetch: "do_open", web_search: "do_search", note: "do_note", make_image: "do_draw", delegate: "do_delegate",
  research: "do_research", research_repo: "do_research", remember: "do_remember", forget: "do_forget",
  remind: "do_schedule", schedule: "do_schedule", use_skill: "do_skill", recall: "do_recall", sleep: "do_sleep",
  mail_search: "do_mail_search", mail_read: "do_mail_read", mail_save: "do_mail_save", mail_draft: "do_mail_draft", mail_send: "do_mail_send",
  calendar_read: "do_calendar_read", calendar_free: "do_calendar_free", calendar_write: "do_calendar_write",
  browser_open: "do_browser_open", browser_read: "do_browser_read", browser_click: "do_browser_click", browser_fill: "do_browser_fill",
};

/**
 * Return what a call does: a verb for people, and on what. A call of an unknown tool has only its title.
 * @param {string} name
 * @param {string} title
 * @returns {[string, string]} the name of the verb's text, or nothing
 */
export function doing(name, title) {
  const verb = VERBS[name] ?? "";
  if (!verb) return ["", title];
  const start = name === "bash" ? "$ " : `${name} `;
  return [verb, title.startsWith(start) ? title.slice(start.length) : title === name ? "" : title];
}

/**
 * Return the element of a tool call, to be filled with `fill`.
 * @param {Part} part
 */
export function tool(part) {
  const call = make("span", { class: "call" }, make("b"), make("code"), make("span", { class: "faint" }));
  const step = make("span", { class: "step faint" });
  const steps = make("ol", { class: "steps", "aria-label": say("steps") });
  scrollable(steps, say("steps"));
  return fill(make("details", {}, make("summary", {}, make("span", { class: "state" }), call, step), steps), part);
}

/** @param {Part} part */
export function remarks(part) {
  const found = [];
  if (part.state !== "running" && part.count) found.push(part.count === 1 ? say("step_in_all") : say("steps_in_all", { count: part.count }));
  if (part.state === "failed" && typeof part.exit !== "number") found.push(say("failed"));
  if (typeof part.exit === "number" && part.exit !== 0) found.push(say("exit", { code: part.exit }));
  if (typeof part.ms === "number" && part.ms >= 100) found.push(took(part.ms / 1000));
  return found.join(" · ");
}

/**
 * @param {Element} place
 * @param {string} state
 */
function mark(place, state) {
  if (place.getAttribute("data-state") === state) return;
  place.setAttribute("data-state", state);
  const word = state === "running" ? say("working") : state === "failed" ? say("failed") : say("done");
  const shown = state === "running" ? make("span", { class: "dot work" }) : icon(state === "failed" ? "cross" : "check");
  place.replaceChildren(shown, make("span", { class: "unseen" }, word));
}

/**
 * Show a tool call as it is now in the element that was made for it: what is folded open, selected or has the
 * focus stays.
 * @template {HTMLElement} T
 * @param {T} element
 * @param {Part} part
 * @returns {T}
 */
export function fill(element, part) {
  const [summary, list] = /** @type {HTMLElement[]} */ ([...element.children]);
  const [state, call, step] = [...summary.children];
  const steps = /** @type {{number: number, text: string}[]} */ (part.steps ?? []);
  const running = part.state === "running";
  element.className = `tool plain ${part.state}`;
  mark(state, part.state);
  const [verb, on] = doing(part.name, part.title);
  set(call.children[0], "textContent", verb && say(verb));
  set(call.children[1], "textContent", on);
  set(call.children[2], "textContent", remarks(part));
  const output = running ? printed(part.output ?? "") : "";
  const last = steps[steps.length - 1]?.text ?? "";
  set(step, "textContent", running ? output.slice(output.lastIndexOf("\n") + 1) || last : "");
  const known = new Map([...list.children].map((item) => [/** @type {HTMLLIElement} */ (item).value, item]));
  const follow = list.scrollHeight - list.scrollTop - list.clientHeight < 20;
  arrange(list, steps.map(({ number, text }) => known.get(number) ?? make("li", { value: number }, text)));
  list.hidden = !steps.length;
  if (follow) list.scrollTop = list.scrollHeight;
  const text = output || (part.said ? part.said + (part.cut ? "\n…" : "") : "");
  const shows = /** @type {string[]} */ (part.shows ?? []);
  const standing = new Map([...element.querySelectorAll(":scope > .shown")].map((item) => [/** @type {HTMLElement} */ (item).dataset.path, item]));
  if ((shows.length && !standing.size) || (part.state === "failed" && part.said && !element.dataset.seen)) {
    element.dataset.seen = "true";
    if (shows.length) element.setAttribute("open", ""); // it is there to be seen
  }
  const files = shows.map((path) => standing.get(path) ?? shownFile(path));
  arrange(element, [summary, list, ...boxOf(element, "said", text), ...diffOf(element, part.diff ?? ""), ...files]);
  return element;
}

/**
 * Return the box with a text: the one that stands, so that a selection in it stays.
 * @param {HTMLElement} element
 * @param {string} name
 * @param {string} text
 */
function boxOf(element, name, text) {
  if (!text) return [];
  const known = /** @type {HTMLElement | null} */ (element.querySelector(`:scope > .block.${name}`));
  const box = known ?? block(make("pre", {}, text));
  box.classList.add(name);
  const pre = /** @type {HTMLElement} */ (box.firstElementChild);
  const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 20;
  const node = pre.firstChild;
  if (node instanceof Text && text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else set(pre, "textContent", text);
  if (known && atEnd && pre.scrollTop) pre.scrollTop = pre.scrollHeight;
  if (!known) scrollable(pre, say("output"));
  return [box];
}

/**
 * @param {HTMLElement} element
 * @param {string} text
 */
function diffOf(element, text) {
  if (!text) return [];
  const known = element.querySelector(":scope > .block.changes");
  if (known) return [/** @type {HTMLElement} */ (known)];
  const pre = diff(text);
  const box = block(pre);
  box.classList.add("changes");
  scrollable(pre, say("changes"));
  return [box];
}

/**
 * Output of a command as a terminal shows it: a carriage return overwrites its line.
 * @param {string} text
 */
export function printed(text) {
  return text.replace(/\r\n/g, "\n").replace(/[^\n]*\r/g, "").trimEnd();
}

/**
 * What a call changed in a file, line by line in colours, without the lines that name the file.
 * @param {string} text
 */
export function diff(text) {
  /** @type {Record<string, string>} */
  const kinds = { "+": "added", "-": "removed", "@": "faint" };
  const lines = text.replace(/\n$/, "").split("\n").slice(2);
  return make("pre", { class: "diff" }, ...lines.map((line) => make("span", { class: kinds[line[0]] ?? "" }, `${line}\n`)));
}
