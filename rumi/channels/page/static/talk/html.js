// @ts-check
// The one place where HTML becomes elements: HTML that the server has made of Markdown and sanitised.

import { make, say } from "../dom.js";
import { CodeBlock, coloured } from "./code.js";
import { picture } from "./files.js";
import { scrollable } from "./scrolling.js";

/**
 * Return the elements of the server's HTML. The page's policy runs no script in it, whatever it says.
 * @param {string} html
 * @returns {ChildNode[]}
 */
export function fromServer(html) {
  const body = new DOMParser().parseFromString(html, "text/html").body;
  for (const pre of body.querySelectorAll("pre")) {
    const code = /** @type {HTMLElement} */ (pre.querySelector("code") ?? pre);
    const text = (pre.textContent ?? "").replace(/\n$/, "");
    pre.replaceWith(new CodeBlock(code.dataset.lang ?? pre.dataset.lang ?? "").set(coloured(text, code.dataset.colours ?? "")).element);
  }
  for (const table of body.querySelectorAll("table")) {
    const box = make("div", { class: "table" });
    table.replaceWith(box);
    box.append(table);
    scrollable(box, say("table"));
  }
  for (const shown of body.querySelectorAll("[data-picture]")) {
    shown.replaceWith(picture(shown.getAttribute("data-picture") ?? "", shown.getAttribute("alt") ?? ""));
  }
  // The chat's title is the only heading above those of an answer.
  for (const each of body.querySelectorAll("h3, h4, h5, h6")) each.setAttribute("aria-level", String(Number(each.tagName[1]) - 1));
  for (const mark of body.querySelectorAll("sup[data-note]")) toNote(/** @type {HTMLElement} */ (mark));
  for (const link of body.querySelectorAll("a[href]")) link.setAttribute("target", "_blank");
  return [...body.childNodes];
}

/**
 * Make a footnote's mark lead to its note.
 * @param {HTMLElement} mark
 */
function toNote(mark) {
  const number = mark.dataset.note ?? "";
  const button = make("button", { type: "button", class: "note-mark", "aria-label": say("footnote", { number }) }, number);
  mark.replaceChildren(button);
  button.addEventListener("click", () => {
    const note = mark.closest(".text")?.querySelector(`div[data-note="${CSS.escape(number)}"]`);
    if (!(note instanceof HTMLElement)) return;
    note.tabIndex = -1;
    note.scrollIntoView({ block: "nearest" });
    note.focus({ preventScroll: true });
    note.addEventListener("keydown", (event) => event.key === "Escape" && button.focus(), { once: true });
  });
}
