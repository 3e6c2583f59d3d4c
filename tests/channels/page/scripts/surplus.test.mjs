import assert from "node:assert/strict";
import test from "node:test";

import { MOST_CHARS, MOST_ENTRIES, STEP, surplus } from "../../../../rumi/channels/page/static/talk/surplus.js";

/** A message and its answer, for each number. */
function heads(count) {
  return Array.from({ length: count }, (_, place) => {
    const number = Math.floor(place / 2) + 1;
    return place % 2 ? { id: `t${number}`, number, state: "done" } : { id: `m${number}`, number, state: "sent" };
  });
}

const ids = (found) => found.map(({ id }) => id);

test("a long conversation loses its oldest entries, a message with its answer", () => {
  assert.deepEqual(surplus(heads(MOST_ENTRIES + STEP)), []);
  const gone = ids(surplus(heads(MOST_ENTRIES + STEP + 1)));
  assert.equal(gone.length, STEP);
  assert.deepEqual([gone[0], gone.at(-1)], ["m1", `t${STEP / 2}`]);
});

test("long texts leave earlier than short ones", () => {
  const all = heads(40);
  const sizes = all.map((_, place) => (place % 2 ? MOST_CHARS / 10 : 0));
  const gone = ids(surplus(all, sizes));
  assert.deepEqual([gone[0], gone.at(-1)], ["m1", "t10"]);
  assert.deepEqual(surplus(heads(4), [0, MOST_CHARS, 0, MOST_CHARS]).length, 2);
});

test("what works stays, and so does a message whose turn stays", () => {
  const all = heads(MOST_ENTRIES + STEP + 2);
  all[5].state = "running"; // t3
  assert.deepEqual(ids(surplus(all)), ["m1", "t1", "m2", "t2"]);
  const together = heads(MOST_ENTRIES + STEP + 2);
  together.splice(3, 1); // t2 is answered with t1: m1, m2, then both their turn
  together.splice(1, 1);
  together.splice(2, 0, { id: "t1", number: 1, state: "running" });
  assert.deepEqual(surplus(together), []);
});
