import assert from "node:assert/strict";
import test from "node:test";

// What the connection asks of a window when it is imported.
globalThis.addEventListener ??= () => {};
globalThis.document ??= { addEventListener() {}, body: { dataset: {} }, documentElement: { lang: "en" } };

const talk = "../../../../rumi/channels/page/static/talk";
const { answerOf, letterOf, read } = await import(`${talk}/question.js`);
const { ending } = await import(`${talk}/endings.js`);
const { found } = await import(`${talk}/selection.js`);
const { linesOf } = await import(`${talk}/lines.js`);
const { sourceOf } = await import(`${talk}/labels.js`);
const { stillFollows } = await import(`${talk}/scrolling.js`);
const { opened } = await import(`${talk}/text.js`);
const { runsOf: colourRuns } = await import(`${talk}/code.js`);
const { runsOf } = await import(`${talk}/groups.js`);
const { doing, printed } = await import(`${talk}/tool.js`);

test("a question is what is asked, where it comes from, and a row for each value", () => {
  const text = "This chat contains content from files or the web. May I call this tool?\n  tool: mail_send\n  arguments:\n    to[0]: a@b.c\n    text: one: two\n  server: x.org";
  assert.deepEqual(read(text), {
    from: "This chat contains content from files or the web.",
    asks: "May I call this tool?",
    rows: [
      { name: "tool", path: "", value: "mail_send" },
      { name: "arguments", path: "to[0]", value: "a@b.c" },
      { name: "arguments", path: "text", value: "one: two" },
      { name: "server", path: "", value: "x.org" },
    ],
  });
  assert.deepEqual(read("May I forget this?\n  key: tea"), { from: "", asks: "May I forget this?", rows: [{ name: "key", path: "", value: "tea" }] });
  assert.equal(read("Este chat contiene contenido de archivos. ¿Puedo abrir esto?").asks, "¿Puedo abrir esto?");
});

test("a text behind bars is one value, and makes no row of its own", () => {
  const text = "May I send this mail?\n  to:\n    1: a@b.c\n  text:\n    │ Hello:\n    │ \n    │ to: x@y.z\n    │   cc: all\n  attachments:\n    a.txt: 1 KB";
  assert.deepEqual(read(text).rows, [
    { name: "to", path: "1", value: "a@b.c" },
    { name: "text", path: "", value: "Hello:\n\nto: x@y.z\n  cc: all", lines: true },
    { name: "attachments", path: "a.txt", value: "1 KB" },
  ]);
});

test("a key answers only where nobody types, and not at once", () => {
  const y = { key: "y", ctrlKey: false, metaKey: false, altKey: false, repeat: false };
  const card = { inCard: true, typing: false, free: false, age: 9000 };
  assert.equal(answerOf(y, card), true);
  assert.equal(answerOf({ ...y, key: "s" }, card, letterOf("Sí")), true);
  assert.equal(answerOf({ ...y, key: "N" }, { ...card, inCard: false, free: true }), false);
  for (const where of [{ typing: true }, { age: 100 }, { inCard: false }]) assert.equal(answerOf(y, { ...card, ...where }), null);
  for (const how of [{ ctrlKey: true }, { repeat: true }, { key: "x" }]) assert.equal(answerOf({ ...y, ...how }, card), null);
});

test("each ending has words, and what to do next", () => {
  assert.deepEqual(ending("complete"), { text: "", next: "" });
  assert.deepEqual(ending("model_error"), { text: "ended_model_error", next: "retry" });
  assert.deepEqual(ending("max_turns"), { text: "ended_max_turns", next: "continue" });
  assert.deepEqual(ending("what nobody knows"), { text: "ended_otherwise", next: "" });
});

test("a selection goes to the same words, the nearest of them", () => {
  assert.deepEqual(found("one two", "two", 4), [4, 7]);
  assert.deepEqual(found("a bold word", "bold", 4), [2, 6]);
  assert.deepEqual(found("x x", "x", 3), [2, 3]);
  assert.deepEqual(found("short", "gone away", 3), [3, 5]);
});

test("days, sessions and earlier versions have their lines", () => {
  const day = 86_400;
  const head = (id, began, session, replaced = false) => ({ id, began, session, replaced });
  const lines = linesOf([head("m1", day, 1), head("t1", day, 1), head("m2", day, 2, true), head("t2", day, 2, true), head("m3", 3 * day, 3)]);
  assert.deepEqual(lines.map(({ day: one }) => one), [true, false, false, false, true]);
  assert.deepEqual(lines.map(({ session }) => session), [false, false, false, false, true]);
  assert.deepEqual(lines.map(({ fold }) => fold), ["", "", "m2", "m2", ""]);
});

test("an entry says where it comes from", () => {
  assert.deepEqual(sourceOf("schedule 3"), ["from_schedule", { number: "3" }, "clock"]);
  assert.deepEqual(sourceOf("task 12"), ["from_task", { number: "12" }, "task"]);
  assert.deepEqual(sourceOf("mail"), ["from_trigger", { name: "mail" }, "bell"]);
});

test("who scrolls up leaves the end, and growth does not make one leave", () => {
  assert.equal(stillFollows(true, { top: 100, was: 100, left: 300 }), true);
  assert.equal(stillFollows(true, { top: 60, was: 100, left: 340 }), false);
  assert.equal(stillFollows(false, { top: 90, was: 60, left: 310 }), false);
  assert.equal(stillFollows(false, { top: 400, was: 60, left: 0 }), true);
});

test("an open block is what it will become, without its marks", () => {
  assert.deepEqual(opened("\n```py\nx = 1\n"), { kind: "code", text: "x = 1\n", lang: "py", settled: true });
  assert.equal(opened("``").kind, "");
  assert.equal(opened("```py").kind, "");
  assert.deepEqual(opened("## A title"), { kind: "heading", text: "A title", lang: "", settled: true });
  assert.equal(opened("| a | b |").kind, "rows");
  assert.equal(opened("Words").text, "Words");
});

test("colours are runs with gaps in base 36", () => {
  assert.deepEqual(colourRuns("3K1,4F"), [[0, 3, "k"], [4, 8, "f"]]);
  assert.deepEqual(colourRuns("a,zS"), [[10, 45, "s"]]);
});

test("many calls that went well are one fold; failed and running ones and files stay visible", () => {
  const call = (n, state = "ok", shows = []) => ({ n, kind: "tool", state, shows });
  const shape = (parts, done) => runsOf(parts, done).map(({ kind, parts: own }) => [kind, own.map(({ n }) => n)]);
  assert.deepEqual(shape([call(1), call(2), call(3), call(4, "failed"), { n: 5, kind: "text" }], true),
    [["fold", [1, 2, 3]], ["calls", [4]], ["part", [5]]]);
  assert.deepEqual(shape([call(1), call(2), call(3, "running")], false), [["calls", [1, 2, 3]]]);
  assert.deepEqual(shape([call(1), call(2)], true), [["calls", [1, 2]]]);
  assert.deepEqual(shape([call(1, "ok", ["a.png"])], true), [["calls", [1]]]);
});

test("a call is a verb and on what, and a carriage return overwrites its line", () => {
  assert.deepEqual(doing("bash", "$ ls -la"), ["do_run", "ls -la"]);
  assert.deepEqual(doing("read_file", "read_file a.txt"), ["do_read", "a.txt"]);
  assert.deepEqual(doing("their_tool", "their_tool {}"), ["", "their_tool {}"]);
  assert.equal(printed("one\n10 %\r90 %"), "one\n90 %");
});
