// Charts: bars in a drawing of our own, with a scale, and what they say in words for whoever cannot see them.

import { draw, make } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 130;
const LEFT = 40;
const TOP = 10;
const BOTTOM = 110;

/**
 * Draw bars. `values` are `{value, bad, title}`; `places` is how many there is room for; `ends` are the words
 * below the first and the last; `whole` says that values are counts.
 */
export function bars(element, { label, values, ends, places = values.length, whole = false }) {
  const top = ceiling(Math.max(0, ...values.map((each) => each.value)), whole);
  const step = (WIDTH - LEFT) / Math.max(1, places);
  const drawing = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const share of whole && top < 2 ? [0, 1] : [0, 0.5, 1]) {
    const y = BOTTOM - share * (BOTTOM - TOP);
    drawing.append(
      draw("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y, class: "rule" }),
      draw("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, number(top * share)),
    );
  }
  values.forEach(({ value, bad, title }, place) => {
    if (value <= 0) return;
    const height = Math.max(2, (value / top) * (BOTTOM - TOP));
    const bar = draw("rect", {
      x: LEFT + place * step + step * 0.12,
      y: BOTTOM - height,
      width: step * 0.76,
      height,
      rx: Math.min(2, step / 4),
      class: bad ? "bar bad" : "bar",
    });
    bar.append(draw("title", {}, title));
    drawing.append(bar);
  });
  drawing.append(
    draw("text", { x: LEFT, y: HEIGHT - 4 }, ends[0]),
    draw("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, ends[1]),
  );
  element.replaceChildren(drawing, make("p", { class: "faint" }, label));
}

/** A round number that nothing is above. */
function ceiling(most, whole) {
  if (most <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  const round = [1, 2, 4, 5, 10].map((step) => step * size).find((step) => step >= most);
  return whole ? Math.max(round, 1) : round;
}

function number(value) {
  return String(Math.round(value * 100) / 100);
}
