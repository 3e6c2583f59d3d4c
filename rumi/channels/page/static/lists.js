// @ts-check
// Tables and lists whose rows are kept: an update changes what has changed, and the focus stays.

import { arrange, make, rows, say, set } from "./dom.js";
import { icon } from "./icons.js";
import { menu } from "./menu.js";
import { empty } from "./states.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} text the heading
 * @property {(row: T) => unknown | import("./dom.js").Cell} cell
 * @property {boolean} [number] aligns the column at its end
 */

/**
 * Return a table with `update(rows)`. In a narrow place it scrolls by itself.
 * @template T
 * @param {object} about
 * @param {string} about.label
 * @param {Column<T>[]} about.columns
 * @param {(row: T) => string} about.key
 * @param {(row: T) => string} [about.kind] a class of the row
 * @param {string} [about.empty] shown if there is no row
 */
export function table({ label, columns, key, kind, empty: nothing }) {
  const heads = columns.map((column) => make("th", { scope: "col", class: column.number ? "number" : null }, column.text));
  const body = make("tbody");
  const whole = make("table", { "aria-label": label }, make("thead", {}, make("tr", {}, ...heads)), body);
  const none = empty(nothing ?? say("nothing_here"));
  const element = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, whole);
  const update = (/** @type {T[]} */ wanted) => {
    arrange(element, wanted.length ? [whole] : [none]);
    const shown = wanted.map((row) => ({
      key: key(row),
      kind: kind?.(row) ?? "",
      cells: columns.map((column) => cellOf(column, row)),
    }));
    rows(body, shown);
  };
  return { element, update };
}

/**
 * @template T
 * @param {Column<T>} column
 * @param {T} row
 * @returns {import("./dom.js").Cell}
 */
function cellOf(column, row) {
  const found = column.cell(row);
  const cell = found !== null && typeof found === "object" ? { ...found } : { text: found };
  return column.number ? { ...cell, class: `number ${/** @type {any} */ (cell).class ?? ""}`.trim() } : cell;
}

/**
 * A row of a list: a title with a dot and a badge, a faint line, a press, and a menu of what one can do.
 * @typedef {object} ListRow
 * @property {string} key
 * @property {string} title
 * @property {string} [meta]
 * @property {"" | "ok" | "warn" | "bad" | "work" | "ask" | "unread" | "off"} [dot]
 * @property {string} [state] the dot's meaning in words, for those who do not see it
 * @property {string} [badge]
 * @property {"" | "ok" | "warn" | "bad" | "accent"} [tone] of the badge
 * @property {() => void} [act] makes the row a button
 * @property {() => import("./menu.js").Entry[]} [menu]
 * @property {() => Node[]} [actions] made once for each row, before the menu
 */

/**
 * Return a list with `update(rows)`.
 * @param {object} about
 * @param {string} about.label
 * @param {Node} [about.empty] shown if there is no row
 */
export function list({ label, empty: nothing }) {
  const body = make("ul", { class: "list", "aria-label": label });
  const none = nothing ?? empty(say("nothing_here"));
  const element = make("div", {}, body);
  /** @type {Map<string, {item: HTMLElement, fill: (row: ListRow) => void}>} */
  const known = new Map();
  const update = (/** @type {ListRow[]} */ wanted) => {
    const keys = new Set(wanted.map((row) => row.key));
    for (const each of known.keys()) if (!keys.has(each)) known.delete(each);
    for (const row of wanted) {
      const entry = known.get(row.key) ?? listItem(row);
      known.set(row.key, entry);
      entry.fill(row);
    }
    arrange(body, wanted.map((row) => /** @type {{item: Node}} */ (known.get(row.key)).item));
    arrange(element, wanted.length ? [body] : [none]);
  };
  return { element, update };
}

/** @param {ListRow} first */
function listItem(first) {
  let row = first;
  const dot = make("i", { class: "dot" });
  const state = make("span", { class: "unseen" });
  const text = make("span", { dir: "auto" });
  const badge = make("span", { class: "badge" });
  const title = make("span", { class: "title" });
  const meta = make("span", { class: "meta", dir: "auto" });
  const what = first.act ? make("button", { type: "button", class: "what" }) : make("div", { class: "what" });
  what.addEventListener("click", () => row.act?.());
  const item = make("li", { "data-key": first.key }, what, ...(first.actions?.() ?? []));
  if (first.menu) {
    const more = make("button", { type: "button", class: "quiet icon-only" }, icon("more"));
    item.append(menu(more, () => row.menu?.() ?? []));
  }
  const fill = (/** @type {ListRow} */ now) => {
    row = now;
    set(dot, "className", `dot ${now.dot ?? ""}`);
    set(state, "textContent", now.state ?? "");
    set(text, "textContent", now.title);
    set(badge, "className", `badge ${now.tone ?? ""}`);
    set(badge, "textContent", now.badge ?? "");
    set(meta, "textContent", now.meta ?? "");
    arrange(title, [...(now.dot ? [dot] : []), text, ...(now.state ? [state] : []), ...(now.badge ? [badge] : [])]);
    arrange(what, now.meta ? [title, meta] : [title]);
    const more = item.querySelector(":scope > [aria-haspopup]");
    if (more) more.setAttribute("aria-label", say("actions_of", { name: now.title }));
  };
  return { item, fill };
}
