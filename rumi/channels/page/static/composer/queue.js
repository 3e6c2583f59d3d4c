// @ts-check
// Messages that wait for their turn: shown above the field, to edit or to drop.

import { call, currentChat, on } from "../connection.js";
import { arrange, make, say } from "../dom.js";
import { all, onEntry } from "../talk/entries.js";
import { button, busy, toast } from "../ui.js";

/** @typedef {import("../talk/entries.js").Known} Known */

const list = make("ul", { id: "queue", "aria-label": say("queue"), hidden: true });
/** @type {Map<string, {element: HTMLElement, text: HTMLElement}>} */
const rows = new Map();
/** @type {(text: string, files: {path: string, name: string}[]) => void} */
let edit = () => {};

/**
 * Return the list. `work` is called with a message that the person edits: it waits no longer.
 * @param {(text: string, files: {path: string, name: string}[]) => void} work
 */
export function begin(work) {
  edit = work;
  onEntry(refresh);
  for (const type of ["begin", "gone"]) on(type, refresh); // an entry that was dropped tells nobody
  return list;
}

/** The messages that wait, in their order. */
export function waiting() {
  return all().filter(({ head }) => head.kind === "you" && head.state === "queued");
}

/** @param {Known} known */
function textOf({ parts }) {
  return [...parts.values()].map(({ part }) => (part.kind === "text" ? part.raw ?? "" : part.kind === "file" ? part.name : "")).filter(Boolean).join(" · ");
}

/** Show what waits now. */
export function refresh() {
  const now = waiting();
  for (const id of rows.keys()) if (!now.some(({ head }) => head.id === id)) rows.delete(id);
  const elements = now.map((known) => {
    const row = rows.get(known.head.id) ?? rowOf(known);
    rows.set(known.head.id, row);
    if (row.text.textContent !== textOf(known)) row.text.textContent = textOf(known);
    return row.element;
  });
  arrange(list, elements);
  list.hidden = !elements.length;
}

/** @param {Known} known */
function rowOf(known) {
  const text = make("span", { class: "what", dir: "auto" });
  const change = button({ icon: "edit", label: say("edit_queued"), kind: "quiet small" });
  const drop = button({ icon: "cross", label: say("drop_queued"), kind: "quiet small" });
  change.addEventListener("click", () => busy(change, take(known, true)));
  drop.addEventListener("click", () => busy(drop, take(known, false)));
  const element = make("li", {}, make("span", { class: "badge" }, say("queued_one")), text, change, drop);
  return { element, text };
}

/**
 * Withdraw a message that waits; with `again`, edit it.
 * @param {Known} known
 * @param {boolean} again
 */
export async function take(known, again) {
  const chat = currentChat();
  try {
    const answer = await call("chats", "drop", { chat, message: known.head.number });
    if (!answer.dropped) toast(say("begun_already"), { bad: true });
    else if (again && chat === currentChat()) edit(answer.text, answer.files.map((/** @type {string} */ path) => ({ path, name: path })));
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), { bad: true });
  }
}
