// @ts-check
// What a screen reader says of the conversation: that an answer is on its way, and then the answer, once.

import { make, say, set } from "../dom.js";
import { onEntry } from "./entries.js";

const MOST_CHARS = 5000;

const region = make("div", { class: "unseen", role: "status", "aria-live": "polite", id: "spoken" });
/** @type {Set<string>} */
const running = new Set();

/** Another chat is shown. */
export function enter() {
  running.clear();
  region.textContent = "";
}

/**
 * Return the words of an entry without those of its buttons.
 * @param {HTMLElement} element
 */
export function wordsOf(element) {
  const copy = /** @type {HTMLElement} */ (element.cloneNode(true));
  for (const each of copy.querySelectorAll("button, footer, .calls, .tool, details:not([open]) > :not(summary)")) each.remove();
  return (copy.textContent ?? "").trim().slice(0, MOST_CHARS);
}

/** Listen to the entries. */
export function begin() {
  document.body.append(region);
  onEntry(({ head, element }) => {
    if (head.kind !== "answer" && head.kind !== "reply") return;
    if (head.state === "running") {
      if (!running.size) set(region, "textContent", say("answering"));
      running.add(head.id);
    } else if (running.delete(head.id)) {
      setTimeout(() => set(region, "textContent", wordsOf(element)), 300); // its last block has closed
    }
  });
}
