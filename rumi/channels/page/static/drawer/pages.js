// @ts-check
// A panel's pages: a list, and what is behind one of its rows, with the way back.

import { make, say } from "../dom.js";
import { button, skeleton } from "../ui.js";

/** @typedef {(root: HTMLElement, signal: AbortSignal) => Promise<void>} Build */

/**
 * @typedef {object} Pages
 * @property {(key?: string) => void} home back to the list, with the focus on that row
 * @property {(key: string, title: string, build: Build) => void} open
 */

/**
 * Show the first page in the body of a panel. A page's signal is aborted when the page is left.
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 * @param {(pages: Pages, root: HTMLElement, signal: AbortSignal) => Promise<void>} first
 * @returns {Pages & {ready: Promise<void>}}
 */
export function openPages(body, signal, first) {
  let leave = new AbortController();
  signal.addEventListener("abort", () => leave.abort(), { once: true });
  /** @param {HTMLElement[]} head @param {Build} build */
  const show = async (head, build) => {
    leave.abort();
    leave = new AbortController();
    const own = leave.signal;
    const room = make("div", { class: "stack" });
    const wait = skeleton();
    body.replaceChildren(make("div", { class: "panel stack" }, ...head, wait, room));
    body.scrollTop = 0;
    try {
      await build(room, own);
    } finally {
      wait.remove();
    }
    return !own.aborted;
  };
  const home = async (/** @type {string | undefined} */ key) => {
    const stays = await show([], (root, own) => first(pages, root, own));
    if (!stays || key === undefined) return;
    const row = [...body.querySelectorAll("[data-key]")].find((each) => /** @type {HTMLElement} */ (each).dataset.key === key);
    const at = row?.querySelector("button") ?? body.querySelector("button");
    if (at instanceof HTMLElement) at.focus();
  };
  /** @type {Pages["open"]} */
  const open = async (key, title, build) => {
    const back = button({ icon: "back", label: say("back"), kind: "quiet", act: () => home(key) });
    const heading = make("h3", { tabindex: "-1", dir: "auto" }, title);
    const head = make("header", { class: "page-head" }, back, heading);
    const shown = show([head], build);
    back.focus();
    await shown;
  };
  /** @type {Pages} */
  const pages = { home, open };
  return { ...pages, ready: home() };
}
