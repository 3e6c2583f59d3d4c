// @ts-check
// The parts that all rooms of the page use; this module is the one to import.

import { make } from "./dom.js";
import { icon } from "./icons.js";
import { moved } from "./menu.js";

export { ask, confirm, dialog, form } from "./dialog.js";
export { field } from "./forms.js";
export { icon } from "./icons.js";
export { list, table } from "./lists.js";
export { menu } from "./menu.js";
export { busy, empty, notice, skeleton, toast, toastRegion } from "./states.js";

/**
 * Return a button. With an icon and no text it needs a label.
 * @param {object} about
 * @param {string} [about.text]
 * @param {import("./icons.js").IconName} [about.icon]
 * @param {string} [about.label]
 * @param {string} [about.kind] classes: primary, danger, quiet, small, chip
 * @param {(event: MouseEvent) => void} [about.act]
 */
export function button({ text, icon: image, label, kind = "", act }) {
  const names = `${kind} ${image && !text ? "icon-only" : ""}`.trim();
  const about = { type: "button", class: names || null, "aria-label": label, title: text ? null : label };
  const element = make("button", about, ...(image ? [icon(image)] : []), ...(text ? [text] : []));
  if (act) element.addEventListener("click", act);
  return element;
}

/** @typedef {{name: string, text: string, show: (panel: HTMLElement) => void}} Tab */

let count = 0;

/**
 * Return tabs, by the pattern of the ARIA practices: arrows move and choose. `show` fills a tab's panel when the
 * tab is chosen for the first time.
 * @param {object} about
 * @param {string} about.label
 * @param {Tab[]} about.tabs
 * @param {string} [about.chosen]
 * @param {(name: string) => void} [about.changed]
 */
export function tabs({ label, tabs: all, chosen = all[0].name, changed }) {
  const id = `tabs-${++count}`;
  const bar = make("div", { role: "tablist", "aria-label": label });
  const element = make("div", { class: "tabs" }, bar);
  const shown = new Set();
  const parts = all.map((tab) => {
    const about = { type: "button", role: "tab", id: `${id}-${tab.name}`, "aria-controls": `${id}-${tab.name}-panel` };
    const head = make("button", about, tab.text);
    const panel = make("div", { role: "tabpanel", id: `${id}-${tab.name}-panel`, "aria-labelledby": head.id });
    head.addEventListener("click", () => choose(tab.name));
    bar.append(head);
    element.append(panel);
    return { tab, head, panel };
  });
  const choose = (/** @type {string} */ name) => {
    for (const { tab, head, panel } of parts) {
      const on = tab.name === name;
      head.setAttribute("aria-selected", String(on));
      head.tabIndex = on ? 0 : -1;
      panel.hidden = !on;
      if (on && !shown.has(name)) tab.show(panel);
    }
    if (shown.size) changed?.(name);
    shown.add(name);
  };
  const ways = /** @type {Record<string, string>} */ ({ ArrowRight: "ArrowDown", ArrowLeft: "ArrowUp" });
  bar.addEventListener("keydown", (event) => {
    const at = parts.findIndex(({ head }) => head === document.activeElement);
    const to = event.key in ways || ["Home", "End"].includes(event.key) ? moved(ways[event.key] ?? event.key, at, parts.length) : null;
    if (to === null) return;
    event.preventDefault();
    parts[to].head.focus();
    choose(parts[to].tab.name);
  });
  choose(chosen);
  return { element, choose };
}
