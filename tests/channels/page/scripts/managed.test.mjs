import assert from "node:assert/strict";
import test from "node:test";

import * as managed from "../../../../rumi/channels/page/static/drawer/managed.js";

test("facts of a key stand together, whatever its case", () => {
  const facts = [{ key: "Colour", value: "green" }, { key: "dentist", value: "Mondays" }, { key: "colour", value: "blue" }];
  assert.deepEqual(managed.byKey(facts).map((group) => group.map((fact) => fact.value)), [["green", "blue"], ["Mondays"]]);
  assert.deepEqual(managed.valuesIn(" blue \n\ngreen\nblue"), ["blue", "green"]);
  assert.equal(managed.origin({ source: "explicit", tainted: true })[0], "fact_tainted");
});

test("a model's key is described and never shown", () => {
  assert.deepEqual(managed.keyState({ key: "GROQ_API_KEY missing" }), ["off", ["key_missing", { variable: "GROQ_API_KEY" }]]);
  assert.deepEqual(["set", "not needed", "command", "cannot be read"].map((key) => managed.keyState({ key })[1][0]), ["key_set", "key_not_needed", "key_command", "key_unreadable"]);
  assert.deepEqual([2, 0.15, 12.5, 0.0795].map(managed.price), ["2", "0.15", "12.50", "0.08"]);
  const models = [{ model: "a", used_as: [] }, { model: "b", used_as: ["default"] }, { model: "c", used_as: [] }];
  assert.deepEqual(managed.usable(models, "c").map((each) => each.map(({ model }) => model)), [["b", "c"], ["a"]]);
});

test("a server that failed or waits for a reader says so before anything else", () => {
  const state = (state, withheld = [], tools = []) => managed.serverState({ state, withheld, tools })[1][0];
  assert.deepEqual(
    [state("failed", ["x"]), state("ready", ["x"]), state("ready", ["x", "y"]), state("ready"), state("stopped", [], ["x"]), state("stopped")],
    ["server_failed", "server_waits_one", "server_waits", "server_ready", "server_rests", "server_stopped"],
  );
  assert.deepEqual([managed.effect("destroys"), managed.effect(undefined)], ["tool_destroys", "tool_changes"]);
});

test("a role's rights are sentences", () => {
  const rights = { admin: false, tools: ["web_search"], models: [], schedules: 0, bots: 2, changes_files: false, limits: [{ unit: "usd", period: "day", most: 5e8 }] };
  assert.deepEqual(managed.mayDo(rights).map(([word]) => word), [
    "may_talk", "may_tools", "may_not_change", "may_default_model", "may_schedules_none", "may_bots_most", "may_spend_usd_day",
  ]);
  assert.deepEqual(managed.mayDo({ ...rights, admin: true }), [["may_all", {}]]);
  assert.deepEqual(managed.idsIn("7, 8"), [7, 8]);
  assert.deepEqual([managed.idsIn(""), managed.idsIn("me")], [null, null]);
});

test("settings are grouped by their first part, and an emptied one has no value", () => {
  const [[first], [second, names]] = managed.groups([{ name: "language" }, { name: "chat.a" }, { name: "chat.b" }]);
  assert.deepEqual([first, second, names.length], ["general", "chat", 2]);
  assert.deepEqual([managed.wanted({ optional: true }, ""), managed.wanted({}, ""), managed.wanted({}, null)], [undefined, "", undefined]);
  assert.deepEqual(managed.ownFirst([{ id: "a" }, { id: "b" }], "b").map(({ id }) => id), ["b", "a"]);
});
