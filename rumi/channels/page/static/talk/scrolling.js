// @ts-check
// Scrolling: who follows the end, and boxes that keys can reach because they have something to scroll.

/** A reader who is this near to the end, in pixels, is there. */
export const NEAR_END = 48;

/**
 * Whether the reader follows, after the log has moved: who scrolls up leaves, who comes to the end is back. That
 * the text grows under a reader who follows is no scrolling.
 * @param {boolean} following
 * @param {{top: number, was: number, left: number}} place `left` is what is below the window
 */
export function stillFollows(following, { top, was, left }) {
  if (left < NEAR_END) return true;
  return following && top >= was;
}

/** @type {WeakMap<Element, string>} */
const names = new WeakMap();
/** @type {ResizeObserver | undefined} */
let sizes;

/**
 * Make a box reachable by keys while its content is larger than it.
 * @param {HTMLElement} element
 * @param {string} name what a screen reader calls it
 */
export function scrollable(element, name) {
  sizes ??= new ResizeObserver((found) => found.forEach(({ target }) => measure(/** @type {HTMLElement} */ (target))));
  names.set(element, name);
  sizes.observe(element);
  for (const child of element.children) sizes.observe(child);
}

/** @param {HTMLElement} target */
function measure(target) {
  const element = names.has(target) ? target : target.parentElement;
  if (!element || !names.has(element)) return;
  const more = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
  if (more === element.hasAttribute("tabindex")) return;
  if (more) {
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", names.get(element) ?? "");
  } else {
    for (const name of ["tabindex", "role", "aria-label"]) element.removeAttribute(name);
  }
}
