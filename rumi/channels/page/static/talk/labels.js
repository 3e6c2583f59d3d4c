// @ts-check
// The line above an entry: where it comes from if no person said it, and what became of it.

import { make, say } from "../dom.js";
import { icon } from "../icons.js";

/** @typedef {import("./entries.js").Known} Known */

/**
 * Return the name of the text for a source, its values, and its icon: a schedule, a task, or a trigger by name.
 * @param {string} source
 * @returns {[string, Record<string, string>, import("../icons.js").IconName]}
 */
export function sourceOf(source) {
  const [, kind, number] = /^(schedule|task) (\d+)$/.exec(source) ?? [];
  if (kind === "schedule") return ["from_schedule", { number }, "clock"];
  if (kind === "task") return ["from_task", { number }, "task"];
  return source ? ["from_trigger", { name: source }, "bell"] : ["from_rumi", {}, "bell"];
}

/**
 * @param {Known} known
 * @returns {Node[]}
 */
export function label(known) {
  const { head } = known;
  const said = [];
  if (head.kind === "event" || (head.kind === "reply" && head.source)) {
    const [name, values, image] = sourceOf(head.source);
    said.push(make("span", { class: "source" }, icon(image), say(name, values)));
  }
  if (head.undone) said.push(make("span", { class: "badge" }, icon("undo"), say("undone")));
  if (head.replaced) said.push(make("span", { class: "badge" }, say("replaced")));
  if (head.state === "queued") said.push(make("span", { class: "faint" }, String(head.about?.note || say("waits"))));
  const key = JSON.stringify([head.kind, head.source, head.undone, head.replaced, head.state, head.about?.note]);
  if (!said.length) return [];
  if (known.label.dataset.key !== key) known.label.replaceChildren(...said);
  known.label.dataset.key = key;
  return [known.label];
}
