import assert from "node:assert/strict";
import test from "node:test";

import { age, filled, size, took } from "../../../../rumi/channels/page/static/dom.js";

test("placeholders are filled with their values", () => {
  assert.equal(filled("{a} of {b}, {a}", { a: 1, b: "two" }), "1 of two, 1");
});

test("sizes and ages have one unit that fits", () => {
  assert.deepEqual([0, 999, 1000, 4_100_000, 2e12].map(size), ["0 B", "999 B", "1.0 KB", "4.1 MB", "2000.0 GB"]);
  assert.deepEqual([-3, 42, 60, 185, 7800, 90_000].map(age), ["0 s", "42 s", "1 min", "3 min 5 s", "2 h 10 min", "1 d 1 h"]);
  assert.deepEqual([0.02, 4.2, 61].map(took), ["20 ms", "4.2 s", "1 min 1 s"]);
});
