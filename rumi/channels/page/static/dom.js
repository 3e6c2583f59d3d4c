// @ts-check
// What the other modules share: elements, words, sizes and ages, and lists that change as little as they must.

/** @type {Record<string, string> | null} */
let words = null;

/**
 * Return the text of that name in the reader's language, with the placeholders in braces filled in.
 * @param {string} name
 * @param {Record<string, unknown>} [values]
 */
export function say(name, values = {}) {
  words ??= /** @type {Record<string, string>} */ (JSON.parse(document.body.dataset.words || "{}"));
  const text = words[name];
  if (text === undefined) throw new Error(`the page has no text ${name}`);
  return filled(text, values);
}

/**
 * Fill a text's placeholders in braces.
 * @param {string} text
 * @param {Record<string, unknown>} values
 */
export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, key) => String(values[key]));
}

/**
 * Return the element with that id. An element that the page lacks or that has another type is a fault.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [type]
 * @returns {T}
 */
export function byId(id, type) {
  const element = document.getElementById(id);
  if (!element || (type && !(element instanceof type))) throw new Error(`the page has no fitting #${id}`);
  return /** @type {T} */ (element);
}

/** @typedef {Record<string, string | number | boolean | null | undefined>} Attributes */
/** @typedef {Node | string | number} Child */

/**
 * Return an element with attributes and children, which are text unless they are nodes. An attribute that is
 * true is empty; one that is false, null or undefined is left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element of a drawing.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.map(asNode));
}

/**
 * Make these nodes the children, in that order. Children that are in place are not moved: they keep the focus.
 * @param {Element} parent
 * @param {Node[]} nodes
 */
export function arrange(parent, nodes) {
  for (const child of [...parent.childNodes]) if (!nodes.includes(child)) child.remove();
  nodes.forEach((node, place) => {
    if (parent.childNodes[place] !== node) parent.insertBefore(node, parent.childNodes[place] || null);
  });
}

/**
 * Get JSON from the server; null if that fails.
 * @param {string} path
 * @param {Record<string, string>} values
 */
export async function get(path, values) {
  const answer = await fetch(`${path}?${new URLSearchParams(values)}`).catch(() => null);
  return answer && answer.ok ? answer.json() : null;
}

/**
 * Return `812 B`, `4.1 MB`.
 * @param {number} bytes
 */
export function size(bytes) {
  let count = bytes;
  for (const unit of ["B", "KB", "MB"]) {
    if (count < 1000) return unit === "B" ? `${count} B` : `${count.toFixed(1)} ${unit}`;
    count /= 1000;
  }
  return `${count.toFixed(1)} GB`;
}

/** @type {[number, string, number, string][]} */
const SPANS = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "min"],
  [60, "min", 1, "s"],
];

/**
 * Return `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d 1 h`.
 * @param {number} seconds
 */
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [span, name, smaller, unit] of SPANS) {
    if (whole >= span) {
      const rest = Math.floor((whole % span) / smaller);
      return rest ? `${Math.floor(whole / span)} ${name} ${rest} ${unit}` : `${Math.floor(whole / span)} ${name}`;
    }
  }
  return `${whole} s`;
}

/**
 * Return `20 ms`, `4.2 s`, and `age` from a minute on.
 * @param {number} seconds
 */
export function took(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : age(seconds);
}

/**
 * Return `12:03:44`, by this browser's clock.
 * @param {number} seconds
 */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString(document.documentElement.lang, {
    hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
  });
}

/**
 * A cell shows a text, or the nodes that `build` returns. They are built again only if `is` has changed, so
 * that a button in a row keeps the focus.
 * @typedef {{text?: unknown, class?: string, title?: string, build?: () => Child[], is?: string}} Cell
 * @typedef {{key: string, kind?: string, cells: Cell[]}} Row
 */

/**
 * Show rows in a table's body. What has not changed is not touched: a selection and what is read aloud stay.
 * @param {Element} body
 * @param {Row[]} wanted
 */
export function rows(body, wanted) {
  const known = new Map([...body.children].map((row) => [/** @type {HTMLElement} */ (row).dataset.key, row]));
  const stays = new Set(wanted.map((row) => row.key));
  for (const [key, row] of known) if (!stays.has(key ?? "")) row.remove(); // first: the rows below need not move
  let place = body.firstElementChild;
  for (const { key, cells, kind } of wanted) {
    let row = known.get(key);
    if (row === undefined) {
      row = make("tr", { "data-key": key });
      for (const index of cells.keys()) row.append(index ? make("td") : make("th", { scope: "row" }));
    }
    set(row, "className", kind || "");
    cells.forEach((cell, index) => show(/** @type {HTMLElement} */ (row?.children[index]), cell));
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
}

/**
 * @param {HTMLElement} element
 * @param {Cell} cell
 */
function show(element, cell) {
  if (!cell.build) set(element, "textContent", cell.text ?? "");
  else if (element.dataset.is !== (cell.is ?? "")) {
    element.replaceChildren(...cell.build().map(asNode));
    element.dataset.is = cell.is ?? "";
  }
  set(element, "className", cell.class || "");
  set(element, "title", cell.title || "");
}

/** @param {Child} child */
function asNode(child) {
  return typeof child === "number" ? String(child) : child;
}

/**
 * Set a property of an element unless it has that value: nothing is read aloud again.
 * @template {Element} T
 * @param {T} element
 * @param {keyof T & string} property
 * @param {unknown} value
 */
export function set(element, property, value) {
  const text = String(value);
  if (String(element[property]) !== text) /** @type {any} */ (element)[property] = text;
}
