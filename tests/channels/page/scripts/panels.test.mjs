import assert from "node:assert/strict";
import test from "node:test";

const drawer = "../../../../rumi/channels/page/static/drawer";
const { ceiling } = await import(`${drawer}/charts.js`);
const { findings, guides, paths, together } = await import(`${drawer}/house.js`);
const { count, moment, money, percent } = await import(`${drawer}/times.js`);

const NOW = new Date(2026, 10, 23, 12, 0).getTime();

test("a moment names the day as people do", () => {
  const of = (day, hour) => moment(new Date(2026, 10, day, hour, 5).getTime(), "en", NOW);
  assert.equal(of(23, 0), "today, 00:05");
  assert.equal(of(24, 9), "tomorrow, 09:05");
  assert.equal(of(22, 23), "yesterday, 23:05");
  assert.equal(of(26, 18), "Thursday, 18:05");
  assert.match(of(30, 18), /30.*2026, 18:05|Nov 30, 2026, 18:05/);
  assert.equal(moment(null, "en", NOW), "");
  assert.match(moment(NOW, "es", NOW), /^hoy, 12:00$/);
});

test("amounts have as many digits as say something", () => {
  assert.equal(money(0, "en"), "$0.00");
  assert.equal(money(0.0042, "en"), "$0.0042");
  assert.equal(money(12.345, "en"), "$12.35");
  assert.deepEqual([count(8212, "en"), count(81_000, "en")], ["8,212", "81K"]);
  assert.equal(percent(0.8, "en"), "80%");
});

const WELL = { trouble: "", workers: [], chats: [], actors: [{ id: "rumi", state: "running" }], spending: {}, degraded: [] };

test("the headline finds what is not in order, the worst first", () => {
  assert.deepEqual(findings(WELL), []);
  const names = findings({
    ...WELL,
    trouble: "full",
    workers: [{ name: "w2", state: "ended" }, { name: "w1", state: "running" }],
    chats: [{ id: "cli", failed: "KeyError" }, { id: "fine", failed: "" }],
    actors: [{ id: "clock", state: "suspended" }, { id: "more", state: "" }],
    spending: { budgets: [{ share: 1.2, of: "total" }, { share: 0.9, of: "cli" }] },
    degraded: ["no seccomp"],
  }).map(({ name, bad }) => `${name}${bad ? "!" : ""}`);
  assert.deepEqual(names, ["trouble_full!", "trouble_worker!", "trouble_chat!", "trouble_parts!", "trouble_budget", "trouble_sandbox"]);
});

test("the tree's lines join each row to its parent", () => {
  const rows = [["a", 0], ["b", 1], ["c", 2], ["d", 1]].map(([id, depth]) => ({ id, depth }));
  assert.deepEqual(guides(rows), ["", "├ ", "│ └ ", "└ "]);
  assert.deepEqual(paths(rows), ["a", "a/b", "a/b/c", "a/d"]);
});

test("repeated restarts are one entry, and a scale has round halves", () => {
  const at = (path, time) => ({ path, time, kind: "restarted" });
  assert.deepEqual(together([at("x", 1), at("y", 2), at("y", 3)]).map(({ path, times }) => [path, times]), [["y", 2], ["x", 1]]);
  assert.deepEqual([ceiling(0, true), ceiling(3, true), ceiling(0.3, false), ceiling(41, false)], [1, 4, 0.4, 60]);
});
