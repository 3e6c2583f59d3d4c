// @ts-check
// Budgets and usage: what was spent, by model, chat and person, and what may be spent.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { nameOf as chatName } from "../side/store.js";
import { button, confirm, empty, field, form, table, tabs, toast } from "../ui.js";
import { attempt, failures, inWords } from "./acts.js";
import { shareBar } from "./charts.js";
import { openPanel, section } from "./drawer.js";
import { refreshed } from "./live.js";
import { count, language, moment, money, percent } from "./times.js";

const WAYS = /** @type {const} */ (["model", "chat", "person"]);
/** From this share on, a budget is nearly used up. */
const NEARLY = 0.8;

/**
 * Split the name of a budget, such as `chat_usd_per_day`.
 * @param {string} name
 */
export function partsOf(name) {
  const found = /^(\w+?)_(usd|tokens|calls)_per_(\w+)$/.exec(name);
  return found ? { scope: found[1], unit: found[2], period: found[3] } : null;
}

/** The class of a budget's share: nothing, warn or bad.
 * @param {number} share
 */
export function kindOf(share) {
  return share >= 1 ? "bad" : share >= NEARLY ? "warn" : "";
}

/** @param {any} row */
const tokensOf = (row) => row.prompt_tokens + row.completion_tokens;

/** A budget in words, such as "All chats together, per day".
 * @param {any} budget
 */
function nameOf(budget) {
  const parts = partsOf(budget.budget);
  if (!parts) return budget.budget;
  const name = `${say(`budget_${parts.scope}`)}, ${say(`budget_per_${parts.period}`)}`;
  return parts.scope === "total" || !budget.of ? name : `${name}: ${budget.of}`;
}

/** @param {any} budget */
function budgetCard(budget) {
  const unit = partsOf(budget.budget)?.unit ?? "usd";
  const amount = (/** @type {number} */ value) =>
    unit === "usd" ? money(value, language()) : say(`count_${unit}`, { count: count(value, language()) });
  const most = amount(budget.limit + budget.granted);
  const line = [
    say("budget_used_of", { used: amount(budget.used), most }),
    percent(budget.share, language()),
    budget.granted ? say("budget_granted", { amount: amount(budget.granted) }) : "",
    budget.renews ? say("budget_renews", { time: moment(budget.renews, language()) }) : "",
  ];
  return make(
    "li",
    { "data-key": `${budget.budget}/${budget.of}` },
    make("div", { class: "what" }, make("span", { class: "title" }, make("span", { dir: "auto" }, nameOf(budget))), shareBar(budget.share, kindOf(budget.share)), make("span", { class: "meta" }, line.filter(Boolean).join(" · "))),
  );
}

/** Ask how much more a chat may use today; true if it was allowed. */
async function allowMore() {
  const chat = field({ name: "chat", label: say("chat"), value: currentChat(), required: true });
  const made = await form({
    title: say("budget_allow"),
    text: say("budget_allow_text"),
    fields: [
      { name: "amount", label: say("budget_amount"), type: "number", step: "any", least: 0.01, required: true, value: 1 },
      { name: "unit", label: say("budget_unit"), type: "select", options: [{ value: "usd", text: "USD" }, { value: "tokens", text: say("tokens") }], value: "usd" },
      chat.row,
    ],
    action: say("budget_allow"),
    submit: async ({ amount, unit }) => {
      if (!chat.valid()) return say("field_missing");
      const said = `${amount} ${unit}`;
      const act = () => attempt(() => call("budgets", "allow", { amount: said, chat: chat.value().trim() }));
      const sure = { title: say("budget_allow_sure", { amount: said, chat: chat.value().trim() }), text: say("budget_allow_until"), action: say("budget_allow"), act };
      return (await confirm(sure)) ? "" : say("budget_not_allowed");
    },
  });
  if (made) toast(say("budget_allowed"));
  return Boolean(made);
}

/**
 * @param {any} total
 */
function totals(total) {
  const pair = (/** @type {string} */ name, /** @type {string} */ value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
  return make(
    "dl",
    { class: "figures" },
    pair(say("spent"), money(total.usd, language())),
    pair(say("calls_of_models"), count(total.calls, language())),
    pair(say("tokens"), count(tokensOf(total), language())),
  );
}

/** What a row of usage is called.
 * @param {string} way
 * @param {string} value
 */
function named(way, value) {
  if (!value) return say("usage_unnamed");
  return way === "chat" ? chatName(value) : value;
}

/** A table of usage by a property; its rows are shares of the whole.
 * @param {string} way
 */
function usageTable(way) {
  let whole = { usd: 0, tokens: 0 };
  const share = (/** @type {any} */ row) => (whole.usd ? row.usd / whole.usd : whole.tokens ? tokensOf(row) / whole.tokens : 0);
  const shown = table({
    label: say(`usage_by_${way}`),
    key: (row) => row[way],
    empty: say("usage_none"),
    columns: [
      { text: say(`usage_${way}`), cell: (row) => ({ build: () => [named(way, row[way]), shareBar(share(row))], is: `${row[way]} ${share(row).toFixed(3)}` }) },
      { text: say("calls_of_models"), number: true, cell: (row) => count(row.calls, language()) },
      { text: say("tokens"), number: true, cell: (row) => count(tokensOf(row), language()) },
      { text: say("spent"), number: true, cell: (row) => (row.usd || !row.unpriced_tokens ? money(row.usd, language()) : "–") },
    ],
  });
  const update = (/** @type {any} */ report) => {
    whole = { usd: report.total.usd, tokens: tokensOf(report.total) };
    shown.update([...report.rows].sort((a, b) => b.usd - a.usd || tokensOf(b) - tokensOf(a)));
  };
  return { element: shown.element, update };
}

/** @type {import("./drawer.js").Panel} */
export const panel = {
  title: () => say("budgets"),
  open: async (body, signal) => {
    const below = failures();
    const budgets = make("div", { class: "stack" });
    /** @type {Record<string, () => Promise<void>>} */
    const periods = {};
    let chosen = "day";
    const period = (/** @type {"day" | "month"} */ name) => (/** @type {HTMLElement} */ room) => {
      const sum = make("div");
      const note = make("p", { class: "hint" });
      const tables = WAYS.map((way) => ({ way, ...usageTable(way) }));
      room.className = "stack";
      room.append(sum, note, ...tables.map(({ way, element }) => section(say(`usage_by_${way}`), element)));
      periods[name] = async () => {
        const reports = await Promise.all(WAYS.map((by) => call("usage", "", { by, period: name })));
        if (signal.aborted) return;
        sum.replaceChildren(totals(reports[0].total));
        note.textContent = reports[0].total.unpriced_tokens ? say("usage_unpriced", { count: count(reports[0].total.unpriced_tokens, language()) }) : "";
        note.hidden = !note.textContent;
        tables.forEach((shown, at) => shown.update(reports[at]));
      };
    };
    const settings = () => openPanel("settings", { search: "budget" });
    const load = async () => {
      const states = await call("budgets", "list");
      if (signal.aborted) return;
      const none = empty(say("budgets_none"), { text: say("budget_set"), act: settings }, "money");
      if (!states.length && !budgets.querySelector(".empty")) budgets.replaceChildren(none);
      if (states.length) {
        const rows = states.map(budgetCard);
        const add = button({ text: say("budget_allow"), icon: "plus", act: async () => (await allowMore()) && update.now() });
        const held = budgets.contains(document.activeElement);
        budgets.replaceChildren(make("ul", { class: "list" }, ...rows), make("div", { class: "row" }, add, button({ text: say("budget_change"), kind: "quiet", act: settings })));
        if (held) add.focus();
      }
      await periods[chosen]?.();
    };
    const all = [
      { name: "day", text: say("spent_today"), show: period("day") },
      { name: "month", text: say("spent_month"), show: period("month") },
    ];
    const changed = (/** @type {string} */ name) => {
      chosen = name;
      void below.during(async () => periods[name]?.());
    };
    const spent = tabs({ label: say("usage"), tabs: all, changed });
    body.append(make("div", { class: "panel stack budgets-panel" }, below.element, section(say("budgets_set"), budgets), section(say("usage"), spent.element)));
    const update = refreshed(signal, load, (error) => below.tell(inWords(error)));
    await update.first;
  },
};
