import assert from "node:assert/strict";
import test from "node:test";

import { fault } from "../../../../rumi/channels/page/static/forms.js";
import { lettered, moved, placed } from "../../../../rumi/channels/page/static/menu.js";

const VIEW = { width: 400, height: 300 };
const box = (left, top) => ({ left, top, right: left + 40, bottom: top + 20 });

test("a menu lies below its button, above where only there is room, and within the window", () => {
  const size = { width: 120, height: 100 };
  assert.deepEqual(placed(box(50, 50), size, VIEW), { left: 50, top: 74, height: 100 });
  assert.deepEqual(placed(box(50, 270), size, VIEW), { left: 50, top: 166, height: 100 });
  assert.equal(placed(box(350, 50), size, VIEW).left, 272);
  assert.equal(placed(box(350, 50), size, VIEW, true).left, 270);
  assert.equal(placed(box(10, 50), size, VIEW, true).left, 8);
  const high = placed(box(50, 180), { width: 120, height: 900 }, VIEW);
  assert.deepEqual(high, { left: 50, top: 8, height: 168 });
});

test("keys move through a menu and around its ends", () => {
  assert.equal(moved("ArrowDown", 2, 3), 0);
  assert.equal(moved("ArrowUp", 0, 3), 2);
  assert.equal(moved("ArrowUp", -1, 3), 2);
  assert.equal(moved("End", 0, 3), 2);
  assert.equal(moved("Home", 2, 3), 0);
  assert.equal(moved("x", 0, 3), null);
  assert.equal(moved("ArrowDown", 0, 0), null);
});

test("a letter finds the next text that begins with it", () => {
  const texts = ["Copy", "Delete", "Ändern", "Cut"];
  assert.equal(lettered("c", 0, texts), 3);
  assert.equal(lettered("C", 3, texts), 0);
  assert.equal(lettered("ä", 0, texts), 2);
  assert.equal(lettered("x", 0, texts), null);
});

test("a field names what is wrong with its value", () => {
  const of = (about, value) => fault({ name: "x", label: "x", ...about }, value)?.[0] ?? "";
  assert.equal(of({ required: true }, "  "), "field_missing");
  assert.equal(of({}, ""), "");
  assert.deepEqual(fault({ name: "x", label: "x", most: 2 }, "𝒜𝒜𝒜"), ["field_long", { most: 2, count: 3 }]);
  assert.equal(of({ most: 2 }, "𝒜𝒜"), "");
  assert.equal(of({ type: "number" }, "1.5"), "field_whole");
  assert.equal(of({ type: "number", step: "any" }, "1.5"), "");
  assert.equal(of({ type: "number", least: 1 }, "0"), "field_least");
  assert.equal(of({ type: "number", limit: 9 }, "10"), "field_limit");
  assert.equal(of({ type: "number" }, "ten"), "field_number");
  assert.equal(of({ type: "url" }, "example.org"), "field_url");
  assert.equal(of({ type: "url" }, "https://example.org"), "");
});
