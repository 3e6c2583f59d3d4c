// @ts-check
// What one can do in a panel, and its failures, which appear where the action was.

import { RequestError } from "../connection.js";
import { make } from "../dom.js";
import { busy, button, notice } from "../ui.js";

/**
 * Return an error in words, with the advice on what to do.
 * @param {unknown} error
 */
export function inWords(error) {
  const message = error instanceof Error ? error.message : String(error);
  const advice = error instanceof RequestError ? error.advice : "";
  return [message, advice].filter(Boolean).join(" ");
}

/**
 * Do something; return why it failed, or an empty text. A dialog shows that text.
 * @param {() => Promise<unknown>} work
 */
export async function attempt(work) {
  try {
    await work();
    return "";
  } catch (error) {
    return inWords(error);
  }
}

/** Return a place for one failure: `tell` shows it, an empty text removes it. */
export function failures() {
  const element = make("div", { class: "failures", role: "alert" });
  const tell = (/** @type {string} */ text) => {
    element.replaceChildren(...(text ? [notice(text, "bad")] : []));
    if (text) element.scrollIntoView({ block: "nearest" });
  };
  /** @param {() => Promise<unknown>} work */
  const during = async (work) => {
    tell("");
    const why = await attempt(work);
    tell(why);
    return !why;
  };
  return { element, tell, during };
}

/**
 * @typedef {{
 *   text: string, icon?: import("../icons.js").IconName, kind?: string, act: () => Promise<unknown> | unknown
 * }} Act
 */

/**
 * Return buttons in a row. What fails is told below them.
 * @param {Act[]} acts
 */
export function actions(acts) {
  const below = failures();
  const buttons = acts.map(({ text, icon, kind, act }) => {
    const element = button({ text, icon, kind });
    element.addEventListener("click", () => busy(element, below.during(async () => act())));
    return element;
  });
  return make("div", { class: "acts" }, make("div", { class: "row" }, ...buttons), below.element);
}

/**
 * Return names and values; what has no value is left out.
 * @param {[string, string | number | Node | null | undefined][]} pairs
 */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("dl", { class: "facts" }, ...shown.flatMap(([name, value]) => [
    make("dt", {}, name),
    make("dd", { dir: "auto" }, /** @type {string | number | Node} */ (value)),
  ]));
}
