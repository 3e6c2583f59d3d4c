// @ts-check
// Charts: bars in a drawing of our own, with a scale, and their content in words for screen readers.

import { draw, make } from "../dom.js";

const HEIGHT = 140;
const TOP = 12;
const BOTTOM = 112;
const CHARACTER = 7;

/** @typedef {{value: number, bad: boolean, title: string}} Bar */

/**
 * Draw bars, the last one at the right. `places` is how many there is room for; `ends` are the words below both
 * ends; `whole` says that values are counts; `legend` names those that are bad.
 * @param {HTMLElement} element
 * @param {{label: string, values: Bar[], ends: string[], places: number, unit?: string, whole?: boolean, legend?: string}} about
 */
export function bars(element, { label, values, ends, places, unit = "", whole = false, legend = "" }) {
  const width = Math.max(220, Math.floor(element.clientWidth));
  const top = ceiling(Math.max(0, ...values.map((each) => each.value)), whole);
  const marks = (whole && top < 2 ? [0, 1] : [0, 0.5, 1]).map((share) => ({ share, text: number(top * share) + unit }));
  const left = Math.max(...marks.map(({ text }) => text.length)) * CHARACTER + 8;
  const step = (width - left) / places;
  const drawing = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": label });
  for (const { share, text } of marks) {
    const y = BOTTOM - share * (BOTTOM - TOP);
    drawing.append(
      draw("line", { x1: left, x2: width, y1: y, y2: y, class: "rule" }),
      draw("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, text),
    );
  }
  values.forEach(({ value, bad, title }, place) => {
    if (value <= 0) return;
    const height = Math.max(2, (value / top) * (BOTTOM - TOP));
    const bar = draw("rect", {
      x: left + (places - values.length + place) * step + step * 0.12,
      y: BOTTOM - height,
      width: step * 0.76,
      height,
      rx: Math.min(2, step / 4),
      class: bad ? "mark bad" : "mark",
    });
    bar.append(draw("title", {}, title));
    drawing.append(bar);
  });
  drawing.append(
    draw("text", { x: left, y: HEIGHT - 8 }, ends[0]),
    draw("text", { x: width, y: HEIGHT - 8, "text-anchor": "end" }, ends[1]),
  );
  const caption = make("figcaption", { class: "hint" }, label);
  if (legend && values.some((each) => each.bad)) caption.append(" · ", make("span", { class: "key" }, legend));
  element.replaceChildren(drawing, caption);
}

/**
 * Return a bar that shows a share of all.
 * @param {number} share 0 to 1; more is shown as 1
 * @param {string} [kind] warn or bad
 */
export function shareBar(share, kind = "") {
  const width = Math.max(0, Math.min(1, share)) * 100;
  const ground = draw("rect", { width: 100, height: 6, class: "ground" });
  const filled = draw("rect", { width, height: 6, class: `mark ${kind}`.trim() });
  return draw("svg", { class: "share", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, ground, filled);
}

/**
 * Return a round number that nothing is above, and whose half is one too.
 * @param {number} most
 * @param {boolean} whole
 */
export function ceiling(most, whole) {
  if (most <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  const round = [1, 2, 4, 6, 8, 10].map((step) => step * size).find((step) => step >= most) ?? most;
  return whole ? Math.max(round, 1) : round;
}

/** @param {number} value */
function number(value) {
  return String(Math.round(value * 100) / 100);
}
