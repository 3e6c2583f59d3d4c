// @ts-check
// What the panels that manage something share beside their acts: busy buttons, times, and what folds out.

import { copies } from "../copy.js";
import { make, say } from "../dom.js";
import { busy } from "../ui.js";
import { failures } from "./acts.js";

/**
 * Return an empty place for failures, and a function that does something and shows there why it failed. It returns
 * whether the action succeeded. The button that began it is busy meanwhile.
 */
export function outcome() {
  const { element: place, during } = failures();
  const act = (/** @type {HTMLButtonElement | null} */ pressed, /** @type {() => Promise<unknown>} */ work) =>
    pressed ? busy(pressed, during(work)) : during(work);
  return { place, act };
}

/**
 * Return a button of which `work` learns, so that it can be shown as busy.
 * @param {string} text
 * @param {(button: HTMLButtonElement) => unknown} work
 * @param {string} [kind]
 */
export function doing(text, work, kind = "") {
  const element = make("button", { type: "button", class: kind || null }, text);
  element.addEventListener("click", () => work(element));
  return element;
}

/**
 * Return `3 Mar 2026, 14:05` in the reader's language; empty without a time.
 * @param {string | null | undefined} time as ISO 8601
 */
export function moment(time) {
  if (!time) return "";
  return new Date(time).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
}

/**
 * Return what folds out: a summary, and children that are made when it is opened for the first time.
 * @param {string} title
 * @param {() => Node[]} children
 */
export function folded(title, children) {
  const element = make("details", {}, make("summary", {}, title));
  element.addEventListener("toggle", () => element.childElementCount === 1 && element.append(...children()));
  return element;
}

/**
 * Return a command for a terminal, with a button that copies it.
 * @param {string} command
 */
export function commandLine(command) {
  return make("div", { class: "command" }, make("code", {}, command), copies(say("copy_command"), () => command));
}
