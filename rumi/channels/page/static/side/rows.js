// @ts-check
// A chat's row in the side: its mark, its title, which is renamed in place, and its menu.

import { make, say, set } from "../dom.js";
import { icon, menu } from "../ui.js";
import { markOf } from "./grouping.js";
import { titleOf } from "./naming.js";
import { isSeen, refresh } from "./store.js";

/** @typedef {import("./grouping.js").Chat} Chat */
/** @typedef {import("../menu.js").Entry} MenuEntry */
/**
 * @typedef {object} RowActs
 * @property {(chat: string) => void} go
 * @property {(chat: Chat) => MenuEntry[]} menu
 * @property {(chat: string, title: string) => Promise<boolean>} rename
 */
/** @typedef {{element: HTMLLIElement, update: (chat: Chat, current: boolean) => void, rename: () => void}} Row */

const MOST_TITLE = 100;

/**
 * Return the row of a chat. Updates keep its elements, so that the focus stays.
 * @param {Chat} first
 * @param {RowActs} acts
 * @returns {Row}
 */
export function chatRow(first, acts) {
  let chat = first;
  const title = make("span", { class: "clip", dir: "auto" });
  const dot = make("i", { class: "dot", hidden: true });
  const state = make("span", { class: "unseen" });
  const link = make("a", { href: `?chat=${encodeURIComponent(first.chat)}` }, title, state, dot);
  const more = make("button", { type: "button", class: "quiet icon-only small" }, icon("more"));
  const element = make("li", { "data-chat": first.chat }, link, menu(more, () => acts.menu(chat)));
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser opens a tab or a window
    event.preventDefault();
    acts.go(chat.chat);
  });
  const rename = () => {
    if (element.querySelector("input")) return;
    const field = make("input", { type: "text", maxlength: MOST_TITLE, value: chat.title, "aria-label": say("chat_title"), dir: "auto" });
    let ended = false;
    const end = async (/** @type {boolean} */ keeps, /** @type {boolean} */ focus) => {
      if (ended) return; // a field that is removed loses the focus, which is no second end
      ended = true;
      const wanted = field.value.trim();
      const done = !keeps || wanted === chat.title || (await acts.rename(chat.chat, wanted));
      if (!done) {
        ended = false;
        field.focus();
        return;
      }
      field.replaceWith(link);
      if (focus) link.focus();
      refresh();
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation(); // Escape stops no turn, and closes no overlay
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault();
      end(event.key === "Enter", true);
    });
    field.addEventListener("blur", () => end(true, false));
    link.replaceWith(field);
    field.focus();
    field.select();
  };
  link.addEventListener("dblclick", (event) => {
    event.preventDefault();
    rename();
  });
  link.addEventListener("keydown", (event) => {
    if (event.key !== "F2") return;
    event.preventDefault();
    rename();
  });
  const update = (/** @type {Chat} */ now, /** @type {boolean} */ current) => {
    chat = now;
    const name = titleOf(now);
    const mark = markOf(now, isSeen(now.chat));
    set(title, "textContent", name);
    if (link.title !== name) link.title = name;
    dot.hidden = !mark;
    set(dot, "className", `dot ${mark}`);
    set(state, "textContent", mark ? ` · ${say(`mark_${mark}`)}` : "");
    element.classList.toggle("unread", mark === "unread" || mark === "ask");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    const label = say("actions_of", { name });
    if (more.getAttribute("aria-label") !== label) more.setAttribute("aria-label", label);
  };
  return { element, update, rename };
}
