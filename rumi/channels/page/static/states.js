// @ts-check
// States of what is shown: busy, empty, on its way; and toasts, which say what has happened.

import { make, say } from "./dom.js";
import { icon } from "./icons.js";

const TOAST_MS = 6000;
const WITH_ACTION_MS = 12_000;
const MOST_TOASTS = 3;

/**
 * Show that a button's work is under way until the promise ends, and return the promise's value. The button
 * keeps the focus and takes no further press.
 * @template T
 * @param {HTMLButtonElement} button
 * @param {Promise<T>} promise
 */
export async function busy(button, promise) {
  const refuse = (/** @type {Event} */ event) => (event.preventDefault(), event.stopImmediatePropagation());
  button.addEventListener("click", refuse, { capture: true });
  const late = setTimeout(() => button.setAttribute("aria-busy", "true"), 150); // what is quick does not flicker
  button.setAttribute("aria-disabled", "true");
  try {
    return await promise;
  } finally {
    clearTimeout(late);
    button.removeEventListener("click", refuse, { capture: true });
    button.removeAttribute("aria-busy");
    button.removeAttribute("aria-disabled");
  }
}

/**
 * Return what stands where there is nothing yet: a sentence, and what one can do about it.
 * @param {string} text
 * @param {{text: string, act: () => void}} [action]
 * @param {import("./icons.js").IconName} [image]
 */
export function empty(text, action, image) {
  const element = make("div", { class: "empty" }, ...(image ? [icon(image)] : []), make("p", {}, text));
  if (action) {
    const button = make("button", { type: "button" }, action.text);
    button.addEventListener("click", action.act);
    element.append(button);
  }
  return element;
}

/** Return grey lines for what is being loaded. */
export function skeleton(lines = 4) {
  const bars = Array.from({ length: lines }, () => make("i"));
  return make("div", { class: "skeleton", role: "status", "aria-label": say("loading") }, ...bars);
}

/**
 * Return a notice: a sentence with an icon on a soft ground.
 * @param {string | Node} text
 * @param {"" | "warn" | "bad"} [kind]
 */
export function notice(text, kind = "") {
  return make("div", { class: `notice ${kind}` }, icon(kind ? "warn" : "info"), make("div", {}, text));
}

/** @type {HTMLElement | null} */
let region = null;

/**
 * Make the region that toasts appear in. A live region must be there before its first text: call it at the start.
 */
export function toastRegion() {
  region ??= make("div", { class: "toasts", role: "status", "aria-live": "polite", popover: "manual" });
  if (!region.isConnected) document.body.append(region);
  return region;
}

/**
 * Say what has happened, for some seconds; longer under the pointer or the focus. A failure stays until it is
 * dismissed. Returns a function that removes it.
 * @param {string} text
 * @param {object} [about]
 * @param {{text: string, act: () => void}} [about.action] such as "Undo"
 * @param {boolean} [about.bad]
 */
export function toast(text, about = {}) {
  const { action, bad = false } = about;
  const place = toastRegion();
  const element = make("div", { class: bad ? "toast bad" : "toast" }, icon(bad ? "warn" : "check"), make("span", {}, text));
  let timer = 0;
  const remove = () => {
    clearTimeout(timer);
    element.remove();
    if (!place.childElementCount && place.matches(":popover-open")) place.hidePopover();
  };
  const wait = () => {
    clearTimeout(timer);
    if (!bad) timer = window.setTimeout(remove, action ? WITH_ACTION_MS : TOAST_MS);
  };
  if (action) {
    const button = make("button", { type: "button", class: "quiet small" }, action.text);
    button.addEventListener("click", () => (remove(), action.act()));
    element.append(button);
  }
  const cross = make("button", { type: "button", class: "quiet icon-only small", "aria-label": say("close") }, icon("cross"));
  cross.addEventListener("click", remove);
  element.append(cross);
  for (const name of ["pointerenter", "focusin"]) element.addEventListener(name, () => clearTimeout(timer));
  for (const name of ["pointerleave", "focusout"]) element.addEventListener(name, wait);
  while (place.childElementCount >= MOST_TOASTS) place.firstElementChild?.remove();
  if (place.matches(":popover-open")) place.hidePopover();
  place.showPopover(); // again, so that it lies above a dialog that was opened since
  place.append(element);
  wait();
  return remove;
}
