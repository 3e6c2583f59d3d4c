// Small things that the other modules share: elements, words, ages, and lists that change as little as they must.

const words = JSON.parse(document.body.dataset.words || "{}");

/** The word of that name, with what stands in braces filled in. */
export function say(name, values = {}) {
  return words[name].replace(/\{(\w+)\}/g, (_, key) => String(values[key]));
}

/** An element with attributes (a `class`, an `aria-label`, …) and children, which are text unless they are nodes. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Make these nodes the children, in that order. Those that are there already are not moved: focus stays. */
export function arrange(parent, nodes) {
  for (const child of [...parent.childNodes]) if (!nodes.includes(child)) child.remove();
  nodes.forEach((node, place) => {
    if (parent.childNodes[place] !== node) parent.insertBefore(node, parent.childNodes[place] || null);
  });
}

/** Get something from Rumi as JSON; null where that fails. */
export async function get(path, values) {
  const answer = await fetch(`${path}?${new URLSearchParams(values)}`).catch(() => null);
  return answer && answer.ok ? answer.json() : null;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for what stands in a drawing. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** `812 B`, `4.1 MB`. */
export function size(bytes) {
  let count = bytes;
  for (const unit of ["B", "KB", "MB"]) {
    if (count < 1000) return unit === "B" ? `${count} B` : `${count.toFixed(1)} ${unit}`;
    count /= 1000;
  }
  return `${count.toFixed(1)} GB`;
}

/** `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d 1 h`. */
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, name, smaller, unit] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / smaller);
      return rest ? `${Math.floor(whole / size)} ${name} ${rest} ${unit}` : `${Math.floor(whole / size)} ${name}`;
    }
  }
  return `${whole} s`;
}

/** `20 ms`, `4.2 s`, and from a minute on as `age` has it. */
export function took(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : age(seconds);
}

/** `12:03:44`, as this browser's clock has it. */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString(document.documentElement.lang, { hour12: false });
}

/**
 * Show rows in a table's body. A row is `{key, cells}`; a cell is `{text, class, title}`. What has not changed
 * is not touched: what a person has selected, or hears read, stays.
 */
export function rows(body, wanted) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  let place = body.firstElementChild;
  for (const { key, cells, kind } of wanted) {
    let row = known.get(key);
    if (row === undefined) {
      row = make("tr", { "data-key": key });
      cells.forEach((_, index) => row.append(index ? make("td") : make("th", { scope: "row" })));
    }
    known.delete(key);
    set(row, "className", kind || "");
    cells.forEach((cell, index) => {
      const element = row.children[index];
      set(element, "textContent", cell.text);
      set(element, "className", cell.class || "");
      set(element, "title", cell.title || "");
    });
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
  for (const row of known.values()) row.remove();
}

/** Set a property of an element, unless it has that value already: nothing is read aloud again. */
export function set(element, property, value) {
  const text = String(value);
  if (element[property] !== text) element[property] = text;
}
