import assert from "node:assert/strict";
import test from "node:test";

import { beside, grouped, markOf, pieces } from "../../../../rumi/channels/page/static/side/grouping.js";
import { meaning } from "../../../../rumi/channels/page/static/side/keys.js";
import { newsOf, wanting, windowTitle } from "../../../../rumi/channels/page/static/side/news.js";

const NOW = new Date(2026, 9, 26, 0, 30); // the clocks went back the day before in Europe
const chat = (name, at, more = {}) => ({
  chat: name, title: "", pinned: false, archived: false, at: at.toISOString(), number: 1, text: "hi", unread: 0, waiting: 0, state: "idle", ...more,
});

test("chats are in groups by the days of the calendar, pinned ones first", () => {
  const groups = grouped([
    chat("now", NOW),
    chat("late", new Date(2026, 9, 25, 23, 59)),
    chat("week", new Date(2026, 9, 19, 0, 1)),
    chat("month", new Date(2026, 9, 18, 23, 59)),
    chat("old", new Date(2025, 9, 18)),
    chat("kept", new Date(2025, 1, 1), { pinned: true }),
  ], NOW);
  assert.deepEqual(groups.map(({ key, chats }) => [key, chats.map((one) => one.chat).join()]), [
    ["pinned", "kept"], ["today", "now"], ["yesterday", "late"], ["week", "week"], ["2026-10", "month"], ["2025-10", "old"],
  ]);
  assert.equal(groups[4].month.getMonth(), 9);
  assert.deepEqual(grouped([], NOW), []);
});

test("a question is marked before work, and work before what is unread, which a look removes", () => {
  const marks = (more) => [false, true].map((seen) => markOf(chat("a", NOW, more), seen));
  assert.deepEqual(marks({ state: "asks", unread: 2 }), ["ask", "ask"]);
  assert.deepEqual(marks({ waiting: 1 }), ["ask", "ask"]);
  assert.deepEqual(marks({ state: "works", unread: 1 }), ["work", "work"]);
  assert.deepEqual(marks({ unread: 1 }), ["unread", ""]);
});

test("found words are cut out of a text by their places in UTF-16", () => {
  const text = "🪜 Ladder and ladders";
  assert.deepEqual(pieces(text, [[3, 9], [14, 20]]), [
    { text: "🪜 ", found: false }, { text: "Ladder", found: true }, { text: " and ", found: false },
    { text: "ladder", found: true }, { text: "s", found: false },
  ]);
  assert.deepEqual(pieces("none", []), [{ text: "none", found: false }]);
});

test("keys move to the chat beside the current one, and stop at the ends", () => {
  assert.equal(beside(["a", "b", "c"], "b", 1), "c");
  assert.equal(beside(["a", "b", "c"], "a", -1), null);
  assert.equal(beside(["a", "b"], "elsewhere", 1), "a");
  assert.equal(beside([], "a", 1), null);
});

test("news are new questions and new unread answers; a window that opens has none", () => {
  const before = new Map([["a", chat("a", NOW)], ["b", chat("b", NOW, { state: "asks" })], ["c", chat("c", NOW, { unread: 1 })]]);
  const now = [chat("a", NOW, { unread: 1 }), chat("b", NOW, { state: "asks" }), chat("c", NOW, { unread: 1, state: "asks" }), chat("d", NOW, { unread: 1 })];
  assert.deepEqual(newsOf(before, now).map(({ chat, kind }) => [chat, kind]), [["a", "answer"], ["c", "question"], ["d", "answer"]]);
  assert.deepEqual(newsOf(null, now), []);
  assert.equal(wanting(now, ""), 4);
  assert.equal(wanting(now, "a"), 3);
});

test("the title of the window counts the chats that want a look", () => {
  assert.equal(windowTitle("Invoices", 2, "Rumi"), "(2) Invoices · Rumi");
  assert.equal(windowTitle("", 0, "Rumi"), "Rumi");
});

test("keys mean something only where they take nothing from who types", () => {
  const press = (key, more = {}) => ({ key, code: "", ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...more });
  const free = { typing: false, text: "" };
  const field = { typing: true, text: "words" };
  const create = press("O", { code: "KeyO", ctrlKey: true, shiftKey: true });
  assert.deepEqual([meaning(create, field, false), meaning(create, free, true)], ["create", ""]);
  assert.equal(meaning(press("k", { metaKey: true }), field, true), "search");
  assert.deepEqual(["/", "?", "x"].map((key) => meaning(press(key), free, false)), ["search", "keys", ""]);
  assert.deepEqual(["/", "?"].map((key) => meaning(press(key), field, false)), ["", ""]);
  const down = press("ArrowDown", { altKey: true });
  assert.deepEqual([meaning(down, field, false), meaning(down, field, true), meaning(down, free, true)], ["next", "", "next"]);
});
