// @ts-check
// Menus of a button, by the pattern "menu button" of the ARIA practices: arrows, Home, End, first letters,
// Escape; the focus returns to the button.

import { make } from "./dom.js";
import { icon } from "./icons.js";

/**
 * An entry of a menu. `checked` makes it a choice that shows a check mark.
 * @typedef {object} Item
 * @property {string} text
 * @property {() => void} act
 * @property {import("./icons.js").IconName} [icon]
 * @property {string} [hint] a faint line below the text
 * @property {boolean} [checked]
 * @property {boolean} [danger]
 * @property {boolean} [disabled]
 */

/**
 * `"line"` separates groups; `{group}` is a group's heading.
 * @typedef {Item | "line" | {group: string}} Entry
 */
/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */

const GAP = 4;
const EDGE = 8;

/**
 * Return where a menu appears: below its anchor, or above it if only there is more room; within the window.
 * @param {Box} anchor
 * @param {{width: number, height: number}} size
 * @param {{width: number, height: number}} view
 * @param {boolean} [end] line up the right edges
 */
export function placed(anchor, size, view, end = false) {
  const below = view.height - anchor.bottom - GAP - EDGE;
  const above = anchor.top - GAP - EDGE;
  const down = size.height <= below || below >= above;
  const height = Math.min(size.height, Math.max(down ? below : above, 0));
  const wanted = end ? anchor.right - size.width : anchor.left;
  return {
    left: Math.max(EDGE, Math.min(wanted, view.width - size.width - EDGE)),
    top: down ? anchor.bottom + GAP : anchor.top - GAP - height,
    height,
  };
}

/**
 * Return which of `count` items a key moves to from `at`; null if the key does not move.
 * @param {string} key
 * @param {number} at
 * @param {number} count
 */
export function moved(key, at, count) {
  if (!count) return null;
  if (key === "ArrowDown") return (at + 1) % count;
  if (key === "ArrowUp") return at <= 0 ? count - 1 : at - 1;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}

/**
 * Return the next text after `at` that begins with the letter; null if none does.
 * @param {string} letter
 * @param {number} at
 * @param {string[]} texts
 */
export function lettered(letter, at, texts) {
  const wanted = letter.toLocaleLowerCase();
  for (let step = 1; step <= texts.length; step += 1) {
    const place = (at + step + texts.length) % texts.length;
    if (texts[place].trim().toLocaleLowerCase().startsWith(wanted)) return place;
  }
  return null;
}

/** @type {((focus: boolean) => void) | null} */
let closeOpen = null;

/**
 * Make a button open a menu. Returns the button.
 * @param {HTMLButtonElement} button
 * @param {Entry[] | (() => Entry[])} items a function is asked each time the menu opens
 */
export function menu(button, items) {
  button.setAttribute("aria-haspopup", "menu");
  button.setAttribute("aria-expanded", "false");
  const open = (/** @type {number} */ at) => openMenu(button, typeof items === "function" ? items() : items, at);
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    if (button.getAttribute("aria-expanded") === "true") closeOpen?.(true);
    else open(0);
  });
  button.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    open(event.key === "ArrowDown" ? 0 : -1);
  });
  return button;
}

/**
 * @param {HTMLButtonElement} button
 * @param {Entry[]} entries
 * @param {number} at the item that gets the focus; -1 is the last
 */
function openMenu(button, entries, at) {
  closeOpen?.(false);
  const label = button.getAttribute("aria-label") || button.textContent || "";
  const list = make("div", { class: "menu", role: "menu", popover: "manual", "aria-label": label });
  const buttons = /** @type {HTMLButtonElement[]} */ ([]);
  const close = (/** @type {boolean} */ focus) => {
    if (closeOpen !== close) return;
    closeOpen = null;
    ended.abort();
    button.setAttribute("aria-expanded", "false");
    if (focus) button.focus();
    list.remove();
  };
  for (const entry of entries) {
    if (entry === "line") list.append(make("hr"));
    else if ("group" in entry) list.append(make("div", { class: "group", role: "presentation" }, entry.group));
    else buttons.push(itemButton(list, entry, close));
  }
  button.after(list); // inside of a dialog, if the button is: what is outside of it is inert
  list.showPopover();
  button.setAttribute("aria-expanded", "true");
  closeOpen = close;
  const box = button.getBoundingClientRect();
  const view = { width: document.documentElement.clientWidth, height: innerHeight };
  const size = { width: list.offsetWidth, height: list.scrollHeight + 2 };
  const place = placed(box, size, view, box.left + size.width > view.width - EDGE);
  Object.assign(list.style, { left: `${place.left}px`, top: `${place.top}px`, maxHeight: `${place.height}px` });

  const ended = new AbortController();
  const { signal } = ended;
  list.addEventListener("keydown", (event) => keyed(event, buttons, close), { signal });
  list.addEventListener("focusout", (event) => {
    const to = /** @type {Node | null} */ (event.relatedTarget);
    if (to && !list.contains(to) && to !== button) close(false);
  }, { signal });
  const outside = (/** @type {Event} */ event) => {
    const target = /** @type {Node} */ (event.target);
    if (!list.contains(target) && !button.contains(target)) close(list.contains(document.activeElement));
  };
  addEventListener("pointerdown", outside, { signal, capture: true });
  addEventListener("scroll", outside, { signal, capture: true });
  addEventListener("resize", () => close(true), { signal });
  buttons.at(at)?.focus({ preventScroll: at === 0 });
}

/**
 * @param {HTMLElement} list
 * @param {Item} item
 * @param {(focus: boolean) => void} close
 */
function itemButton(list, item, close) {
  const words = make("span", { class: "words" }, make("span", {}, item.text));
  if (item.hint) words.append(make("small", {}, item.hint));
  const choice = item.checked !== undefined;
  const about = {
    type: "button",
    tabindex: "-1",
    role: choice ? "menuitemradio" : "menuitem",
    class: item.danger ? "danger" : null,
    "aria-checked": choice ? String(item.checked) : null,
    "aria-disabled": item.disabled ? "true" : null,
  };
  const button = make("button", about, ...(item.icon ? [icon(item.icon)] : []), words);
  if (choice) button.append(icon("check"));
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    if (item.disabled) return;
    close(true); // first: what is done may move the focus
    item.act();
  });
  list.append(button);
  return button;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLButtonElement[]} buttons
 * @param {(focus: boolean) => void} close
 */
function keyed(event, buttons, close) {
  const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
  event.stopPropagation(); // Escape closes the menu, and stops no turn
  if (event.key === "Escape" || event.key === "Tab") {
    if (event.key === "Escape") event.preventDefault(); // nor does it close a dialog around the menu
    close(true); // Tab goes on from the button
    return;
  }
  let to = moved(event.key, at, buttons.length);
  if (to === null && event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey && !event.altKey) {
    to = lettered(event.key, at, buttons.map((button) => button.textContent ?? ""));
  }
  if (to === null) return;
  event.preventDefault();
  buttons[to].focus();
}
