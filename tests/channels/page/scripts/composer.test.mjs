import assert from "node:assert/strict";
import test from "node:test";

const STATIC = "../../../../rumi/channels/page/static";
/** @type {Map<string, string>} */
const stored = new Map();
let room = Infinity;
globalThis.localStorage = new Proxy(
  {
    getItem: (key) => stored.get(key) ?? null,
    removeItem: (key) => stored.delete(key),
    setItem: (key, value) => {
      const others = [...stored].filter(([each]) => each !== key);
      if (others.reduce((sum, [, each]) => sum + each.length, value.length) > room) throw new Error("full");
      stored.set(key, value);
    },
  },
  { ownKeys: () => [...stored.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) },
);
const { commandOffers, escapes, mentions, pastedName, sends } = await import(`${STATIC}/composer/keys.js`);
const drafts = await import(`${STATIC}/composer/drafts.js`);
const outbox = await import(`${STATIC}/composer/outbox.js`);

const key = (more = {}) => ({ key: "Enter", shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, isComposing: false, keyCode: 13, timeStamp: 1000, ...more });
const still = { touch: false, composedAt: -Infinity };

test("Enter sends, but never while an input method composes, and on touch it begins a line", () => {
  assert.equal(sends(key(), still), true);
  for (const more of [{ shiftKey: true }, { isComposing: true }, { keyCode: 229 }, { key: "a" }]) assert.equal(sends(key(more), still), false);
  assert.equal(sends(key(), { touch: false, composedAt: 990 }), false); // Safari: the composition ended by this key
  assert.equal(sends(key(), { touch: true, composedAt: -Infinity }), false);
  assert.equal(sends(key({ ctrlKey: true }), { touch: true, composedAt: -Infinity }), true);
});

test("Escape closes the list, then stops the turn, then twice edits the last message", () => {
  assert.equal(escapes({ offering: true, working: true, empty: true, sinceLast: 1 }), "close");
  assert.equal(escapes({ offering: false, working: true, empty: false, sinceLast: 1 }), "stop");
  assert.equal(escapes({ offering: false, working: false, empty: true, sinceLast: 9000 }), "");
  assert.equal(escapes({ offering: false, working: false, empty: true, sinceLast: 100 }), "edit");
  assert.equal(escapes({ offering: false, working: false, empty: false, sinceLast: 100 }), "");
});

test("commands are completed at the beginning of one line, and a whole one is sent", () => {
  const commands = [["/reset", "a"], ["/reset files", "b"], ["/stop", "c"]];
  const skills = [{ name: "resume", description: "d", text: "Use it" }];
  const names = (before, text = before) => commandOffers(before, text, commands, skills).offers.map(({ label }) => label);
  assert.deepEqual(names("/RES"), ["/reset", "/reset files", "resume"]);
  assert.deepEqual(names("/s"), ["/stop"]);
  assert.deepEqual(names("see /s"), []);
  assert.deepEqual(names("/s", "/s\nx"), []);
  assert.equal(commandOffers("/reset", "/reset", commands, []).whole, true);
  assert.equal(commandOffers("/reset ", "/reset ", commands, []).whole, true);
  assert.equal(commandOffers("/rese", "/rese", commands, []).whole, false);
});

test("a mention begins at the beginning of a word", () => {
  for (const text of ["@", "see @no", "(@x", '@"a b', "one\n@f", "@a\\ b"]) assert.equal(mentions(text), true, text);
  for (const text of ["", "a@b.c", "@no and", "x"]) assert.equal(mentions(text), false, text);
});

test("pasted texts have names of their own", () => {
  assert.equal(pastedName([]), "pasted-1.txt");
  assert.equal(pastedName(["pasted-1.txt", "pasted-2.txt"]), "pasted-3.txt");
});

test("drafts are kept for each chat, and the oldest make room", () => {
  drafts.write("one", "text", [{ path: "a.txt", name: "a.txt", size: 1 }]);
  assert.equal(drafts.read("one").text, "text");
  assert.equal(drafts.read("one").files[0].path, "a.txt");
  drafts.write("one", "", []);
  assert.deepEqual(drafts.read("one"), { text: "", files: [], at: 0 });
  stored.set("rumi.draft.bad", "nonsense");
  assert.equal(drafts.read("bad").text, "");
  for (let number = 0; number < 70; number++) drafts.write(`c${number}`, "x", []);
  assert.equal([...stored.keys()].length, 60);
  assert.equal(drafts.read("c69").text, "x");
  room = 1000;
  drafts.write("long", "y".repeat(900), []);
  assert.equal(drafts.read("long").text.length, 900);
  drafts.write("longer", "y".repeat(2000), []); // more than there is room for: it stays in the window
  drafts.forgetAll();
  assert.equal(stored.size, 0);
  room = Infinity;
});

test("unsent messages are kept until they are confirmed", () => {
  const message = { chat: "cli", text: "hi", files: [], nonce: 7, began: 2, asItIs: false };
  outbox.keep({ ...message, element: "not stored" });
  outbox.keep({ ...message, nonce: 8, began: 1 });
  stored.set("rumi.unsent.9", "nonsense");
  assert.deepEqual(outbox.kept().map(({ nonce }) => nonce), [8, 7]);
  assert.equal(stored.has("rumi.unsent.9"), false);
  outbox.forget(7);
  outbox.forget(8);
  assert.deepEqual(outbox.kept(), []);
});
