// @ts-check
// One bot: start, wake, stop, its question, its sessions, what it knows, and what it has changed.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { ask, confirm, empty, field, form, skeleton, tabs, toast } from "../ui.js";
import { actions, attempt, facts, failures, inWords } from "./acts.js";
import { waitingCall } from "./approval.js";
import { knowledge, project } from "./bot_parts.js";
import { stateOf, stateWords } from "./bots.js";
import { refreshed } from "./live.js";
import { rendered } from "./markdown.js";
import { isOpen, usedWords } from "./task_states.js";
import { language, moment } from "./times.js";

/**
 * Ask for a goal and limits, and start a session; true if it runs.
 * @param {string} name
 * @param {string} [goal]
 */
export async function botStart(name, goal = "") {
  const made = await form({
    title: say("bot_start_of", { name }),
    fields: [
      { name: "goal", label: say("bot_goal"), type: "textarea", rows: 3, value: goal, required: true, placeholder: say("bot_goal_example") },
      { name: "iterations", label: say("bot_iterations"), type: "number", least: 1, hint: say("bot_iterations_hint") },
      { name: "budget", label: say("bot_budget"), placeholder: "2 usd", hint: say("bot_budget_hint") },
      { name: "plan", label: say("bot_plan"), type: "switch", hint: say("bot_plan_hint") },
    ],
    action: say("bot_start"),
    submit: ({ goal: wanted, iterations, budget, plan }) =>
      attempt(() => call("bots", "begin", { name, goal: wanted, iterations, budget: budget.trim(), plan, chat: currentChat() })),
  });
  if (made) toast(say("bot_started"));
  return Boolean(made);
}

/**
 * A question of a bot in words, with a field for the answer.
 * @param {any} waiting
 * @param {() => void} changed
 */
function question(waiting, changed) {
  const answer = field({ name: "answer", label: say("bot_answer"), required: true });
  const send = async (/** @type {string} */ text) => {
    await call("bots", "wake", { name: waiting.bot, text });
    toast(say("bot_answered"));
    changed();
  };
  return make(
    "div",
    { class: "asks", role: "group", "aria-label": say("bot_asks") },
    make("p", { class: "title" }, say("bot_asks")),
    make("p", { class: "whole", dir: "auto" }, waiting.whole),
    answer.row,
    actions([
      ...waiting.options.map((/** @type {string} */ text) => ({ text, act: () => send(text) })),
      { text: say("bot_send_answer"), kind: "primary", act: () => (answer.valid() ? send(answer.value()) : answer.input.focus()) },
    ]),
  );
}

/**
 * Return what builds the page of a bot.
 * @param {string} name
 * @param {import("./pages.js").Pages} pages
 * @returns {import("./pages.js").Build}
 */
export function oneBot(name, pages) {
  return async (root, signal) => {
    const [below, head, asked] = [failures(), make("div", { class: "stack" }), make("div", { class: "stack" })];
    root.append(below.element, asked, head);
    const failed = (/** @type {unknown} */ error) => below.tell(inWords(error));
    const sessions = make("div", { class: "stack" });
    const showSessions = async () => {
      const found = await call("bots", "history", { name });
      const nodes = await Promise.all(found.map(session));
      if (!signal.aborted) sessions.replaceChildren(...(nodes.length ? nodes : [empty(say("bot_no_sessions"))]));
    };
    let was = "";
    const update = refreshed(signal, async () => {
      const [bot, waiting] = await Promise.all([call("bots", "show", { name }), call("approvals", "list")]);
      const own = waiting.filter((/** @type {any} */ each) => each.bot === name);
      const is = JSON.stringify([bot, own]);
      if (signal.aborted || is === was) return;
      const ended = was !== "" && !isOpen(bot.state);
      was = is;
      const again = () => void update.now();
      asked.replaceChildren(...own.map((/** @type {any} */ each) => (each.kind === "bot" ? question(each, again) : waitingCall(each, again))));
      asked.hidden = !own.length;
      head.replaceChildren(...overview(bot, own, again, pages));
      if (ended) void showSessions();
    }, failed);
    await update.first;
    /** @param {(panel: HTMLElement) => Promise<void>} fill */
    const lazily = (fill) => async (/** @type {HTMLElement} */ panel) => {
      panel.append(skeleton(3));
      const why = await attempt(() => fill(panel));
      if (why) panel.replaceChildren(make("p", { class: "hint" }, why));
    };
    const all = [
      { name: "sessions", text: say("bot_sessions"), show: lazily(async (panel) => (await showSessions(), panel.replaceChildren(sessions))) },
      { name: "knows", text: say("bot_knows"), show: lazily((panel) => knowledge(name, panel)) },
      { name: "project", text: say("bot_project"), show: lazily((panel) => project(name, panel)) },
    ];
    root.append(tabs({ label: name, tabs: all }).element);
  };
}

/**
 * @param {any} bot
 * @param {any[]} waiting
 * @param {() => void} changed
 * @param {import("./pages.js").Pages} pages
 */
function overview(bot, waiting, changed, pages) {
  const { name } = bot;
  const state = stateOf(bot, waiting);
  const open = isOpen(bot.state);
  const start = async () => (await botStart(name, "")) && changed();
  const go = async () => (await call("bots", "resume", { name }), toast(say("bot_started")), changed());
  const wake = () => ask({
    title: say("bot_wake_of", { name }), label: say("bot_wake_text"), type: "textarea", rows: 3, required: true, action: say("bot_wake"), hint: say("bot_wake_hint"),
    submit: (text) => attempt(() => call("bots", "wake", { name, text })),
  }).then((text) => text !== null && changed());
  const stop = async () => (await call("bots", "stop", { name }), changed());
  const remove = async () => {
    const act = () => attempt(() => call("bots", "delete", { name }));
    const sure = { title: say("bot_delete_sure", { name }), text: say("bot_delete_text"), action: say("delete"), danger: true, act };
    if (await confirm(sure)) pages.home("");
  };
  return [
    ...(bot.description ? [make("p", { dir: "auto" }, bot.description)] : []),
    facts([
      [say("state"), bot.problem || stateWords(bot, state)],
      [say("bot_goal"), bot.goal],
      [say("bot_limit"), bot.max_iterations ? say("bot_limit_of", { count: bot.max_iterations }) : ""],
      [say("task_model"), bot.model],
      [say("bot_reports_to"), bot.chat],
      [say("folder"), bot.folder],
    ]),
    actions([
      ...(open ? [] : [{ text: say("bot_start"), icon: /** @type {const} */ ("play"), kind: "primary", act: start }]),
      ...(!open && ["stopped", "interrupted", "out_of_budget", "failed"].includes(bot.state) ? [{ text: say("bot_continue"), icon: /** @type {const} */ ("next"), act: go }] : []),
      ...(open ? [{ text: say("bot_wake"), icon: /** @type {const} */ ("send"), kind: "primary", act: wake }] : []),
      ...(open ? [{ text: say("stop"), icon: /** @type {const} */ ("stop"), kind: "danger", act: stop }] : []),
      ...(open ? [] : [{ text: say("delete"), icon: /** @type {const} */ ("trash"), kind: "danger", act: remove }]),
    ]),
  ];
}

/** A session with its report and its iterations.
 * @param {any} task
 */
async function session(task) {
  const line = [say(`bot_state_${task.state}`), moment(task.ended ?? task.started ?? task.created, language()), usedWords(task.spent)];
  const report = make("div");
  const steps = task.iterations.map((/** @type {any} */ each) => make(
    "li",
    {},
    make("span", { class: "meta" }, [say("bot_iteration", { number: each.number }), moment(each.ended, language()), usedWords(each.spent)].filter(Boolean).join(" · ")),
    make("p", { class: "whole", dir: "auto" }, each.summary),
  ));
  const whole = make("details", {}, make("summary", {}, make("span", {}, task.question)), report, make("ol", { class: "steps plain-list" }, ...steps));
  whole.addEventListener("toggle", async () => {
    if (whole.open && !report.childElementCount && task.answer) report.append(await rendered(task.answer));
  });
  return make("div", { class: "session" }, whole, make("p", { class: "meta" }, line.filter(Boolean).join(" · ")));
}
