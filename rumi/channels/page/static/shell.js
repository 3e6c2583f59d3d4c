// @ts-check
// The columns beside the talk: next to it where there is room, over it where there is not.

import { make, say } from "./dom.js";

const SIDE = "(max-width: 760px)";
const DRAWER = "(max-width: 1100px)";

/**
 * @typedef {object} Sheet
 * @property {() => boolean} isOpen
 * @property {(open: boolean) => void} show
 * @property {() => void} toggle
 */

/**
 * Return the side: always there where there is room (and foldable), opened over the talk on a phone.
 * @param {HTMLElement} element
 * @param {(open: boolean) => void} [changed]
 */
export function side(element, changed) {
  const narrow = matchMedia(SIDE);
  return sheet(element, narrow, {
    isOpen: () => (narrow.matches ? element.classList.contains("open") : !element.classList.contains("folded")),
    set: (open) => element.classList.toggle(narrow.matches ? "open" : "folded", narrow.matches ? open : !open),
    changed,
  });
}

/**
 * Return the drawer: closed at first; beside the talk where there is room, else over it.
 * @param {HTMLElement} element
 * @param {(open: boolean) => void} [changed]
 */
export function drawer(element, changed) {
  return sheet(element, matchMedia(DRAWER), {
    isOpen: () => !element.hidden,
    set: (open) => (element.hidden = !open),
    changed,
  });
}

/**
 * Over the talk it is modal: the rest is inert, Escape and a press beside it close it, and the focus returns.
 * @param {HTMLElement} element
 * @param {MediaQueryList} over
 * @param {{isOpen: () => boolean, set: (open: boolean) => void, changed?: (open: boolean) => void}} how
 * @returns {Sheet}
 */
function sheet(element, over, { isOpen, set, changed }) {
  /** @type {Element | null} */
  let before = null;
  /** @type {HTMLElement | null} */
  let scrim = null;
  /** @type {Element[]} */
  let held = [];
  const settle = () => {
    for (const each of held) each.removeAttribute("inert");
    scrim?.remove();
    [held, scrim] = [[], null];
    if (!over.matches || !isOpen()) return;
    const around = [...(element.parentElement?.children ?? [])];
    held = around.filter((each) => each !== element && !each.matches("script, dialog, .toasts, [inert]"));
    for (const each of held) each.setAttribute("inert", "");
    scrim = make("div", { class: "scrim", title: say("close") });
    scrim.addEventListener("click", () => show(false));
    element.before(scrim);
  };
  const show = (/** @type {boolean} */ open) => {
    if (open === isOpen()) return;
    if (open) before = document.activeElement;
    const inside = element.contains(document.activeElement) || over.matches;
    set(open);
    settle();
    if (open) {
      if (!element.contains(document.activeElement)) focusFirst(element);
    } else if (inside && before instanceof HTMLElement && before.isConnected) before.focus();
    changed?.(open);
  };
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || !(over.matches || element.id === "drawer")) return;
    event.stopPropagation(); // it closes the sheet, and stops no turn
    show(false);
  });
  over.addEventListener("change", settle);
  return { isOpen, show, toggle: () => show(!isOpen()) };
}

/** @param {HTMLElement} element */
function focusFirst(element) {
  const first = element.querySelector("[autofocus], button, a[href], input, [tabindex]");
  if (first instanceof HTMLElement) first.focus();
}
