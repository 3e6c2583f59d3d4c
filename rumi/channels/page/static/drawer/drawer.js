// @ts-check
// The drawer: one panel of the house at a time, loaded when it is opened.

import { byId, make, say } from "../dom.js";
import * as shell from "../shell.js";
import { button, notice, skeleton } from "../ui.js";

/**
 * A panel of the drawer. `open` fills the body; `signal` is aborted when the panel is left.
 * @typedef {{
 *   title: () => string,
 *   open: (body: HTMLElement, signal: AbortSignal, about: Record<string, any>) => void | Promise<void>
 * }} Panel
 */

/** The panels by name, in the order in which the side lists them. */
export const PANELS = /** @type {const} */ ([
  "schedules", "bots", "tasks", "memory", "skills", "servers", "models", "budgets", "people", "logins", "settings", "status", "files",
]);

/** @typedef {typeof PANELS[number]} PanelName */

/** @type {shell.Sheet | undefined} */
let sheet;
/** @type {AbortController | undefined} */
let shown;
let current = "";
/** @type {((name: string) => void)[]} */
const listeners = [];

/**
 * Call `listener` with the name of the panel that is shown; empty when the drawer closes.
 * @param {(name: string) => void} listener
 */
export function onPanel(listener) {
  listeners.push(listener);
}

/** The panel that is shown; empty if the drawer is closed. */
export function currentPanel() {
  return current;
}

/**
 * Open a panel, or close the drawer if it shows that panel already.
 * @param {PanelName} name
 * @param {Record<string, any>} [about] What to show in it, such as `{id: 3}`.
 */
export async function openPanel(name, about) {
  if (name === current && !about) return close();
  shown?.abort();
  shown = new AbortController();
  const { signal } = shown;
  const body = byId("drawer-body");
  body.replaceChildren(skeleton());
  become(name);
  sheet?.show(true);
  try {
    const { panel } = /** @type {{panel: Panel}} */ (await import(`./${name}.js`));
    if (signal.aborted) return;
    byId("drawer-title").textContent = panel.title();
    body.replaceChildren();
    await panel.open(body, signal, about ?? {});
  } catch (error) {
    if (!signal.aborted) body.replaceChildren(notice(error instanceof Error ? error.message : String(error), "bad"));
  }
}

/** Close the drawer. */
export function close() {
  sheet?.show(false);
}

/** @param {string} name */
function become(name) {
  current = name;
  for (const listener of listeners) listener(name);
}

/** Set up the drawer, which is closed. */
export function begin() {
  sheet = shell.drawer(byId("drawer"), (open) => {
    if (open) return;
    shown?.abort();
    become("");
  });
  byId("drawer-head").append(button({ icon: "cross", label: say("close"), kind: "quiet", act: close }));
}

/** A section of a panel with a heading.
 * @param {string} title
 * @param {...Node} children
 */
export function section(title, ...children) {
  return make("section", { class: "panel-section" }, make("h3", {}, title), ...children);
}
