// @ts-check
// Tasks: research in the background. The list with live progress, a result with its sources, and a new one.

import { call, currentChat } from "../connection.js";
import { age, make, say } from "../dom.js";
import { button, confirm, empty, field, form, list, skeleton, toast } from "../ui.js";
import { actions, attempt, facts, failures, inWords } from "./acts.js";
import { section } from "./drawer.js";
import { refreshed } from "./live.js";
import { rendered } from "./markdown.js";
import { openPages } from "./pages.js";
import { isOpen, marksOf, secondsOf, usedWords } from "./task_states.js";
import { language, moment } from "./times.js";

/** @typedef {Record<string, any>} Task */

/** @param {Task} task */
function lineOf(task) {
  const kind = say(`task_${task.kind}`);
  if (isOpen(task.state)) return [kind, task.doing, usedWords(task.spent), task.started ? age(secondsOf(task)) : ""].filter(Boolean).join(" · ");
  return [kind, moment(task.ended, language()), say("took_time", { time: age(secondsOf(task)) }), usedWords(task.spent)].filter(Boolean).join(" · ");
}

/** Ask for a new research, and start it; true if it runs. */
async function newTask() {
  const address = field({ name: "uri", label: say("research_uri"), hint: say("research_uri_hint"), placeholder: "https://…" });
  address.row.hidden = true;
  const kinds = ["web", "repo"].map((kind) => ({ value: kind, text: say(`research_kind_${kind}`) }));
  const kind = field({ name: "kind", label: say("research_kind"), type: "select", options: kinds, value: "web" });
  kind.input.addEventListener("change", () => (address.row.hidden = kind.value() !== "repo"));
  const made = await form({
    title: say("research_new"),
    text: say("research_about"),
    fields: [
      { name: "question", label: say("research_question"), type: "textarea", rows: 3, required: true, placeholder: say("research_example") },
      kind.row,
      address.row,
    ],
    action: say("research_start"),
    submit: ({ question }) => {
      const uri = address.value().trim();
      const repository = kind.value() === "repo";
      if (repository && !uri) return say("research_uri_missing");
      const options = repository ? { uri, local: !uri.includes("://") } : {};
      return attempt(() => call("tasks", "begin", { kind: kind.value(), question, options, chat: currentChat() }));
    },
  });
  if (made) toast(say("research_started"));
  return Boolean(made);
}

/** @param {Task} task */
async function deleted(task) {
  const act = () => attempt(() => call("tasks", "delete", { id: task.id }));
  return confirm({ title: say("task_delete_sure"), text: task.question.slice(0, 400), action: say("delete"), danger: true, act });
}

/**
 * Return the page of a task.
 * @param {number} id
 * @param {import("./pages.js").Pages} pages
 * @returns {import("./pages.js").Build}
 */
export function oneTask(id, pages) {
  return async (root, signal) => {
    const [below, live, result] = [failures(), make("div", { class: "stack" }), make("div", { class: "stack" })];
    root.append(below.element, live, result);
    let was = "";
    const update = refreshed(signal, async () => {
      const task = await call("tasks", "show", { id });
      const is = JSON.stringify(task);
      if (signal.aborted || is === was) return;
      const first = !was || task.ended;
      was = is;
      const stop = async () => (await call("tasks", "stop", { id }), update.now());
      const remove = async () => (await deleted(task)) && pages.home("");
      const state = say(`task_state_${task.state}`);
      const elapsed = make("span", {}, task.started ? age(secondsOf(task)) : "");
      const table = facts([
        [say("state"), isOpen(task.state) && task.doing ? `${state}: ${task.doing}` : state],
        [say("kind"), say(`task_${task.kind}`)],
        [say("began"), moment(task.started ?? task.created, language())],
        [say("took"), elapsed],
        [say("used"), usedWords(task.spent)],
        [say("sources"), task.spent.sources || ""],
        [say("task_model"), task.model],
      ]);
      const buttons = isOpen(task.state)
        ? actions([{ text: say("stop"), icon: "stop", kind: "danger", act: stop }])
        : actions([{ text: say("delete"), icon: "trash", kind: "danger", act: remove }]);
      const held = live.contains(document.activeElement);
      live.replaceChildren(make("p", { class: "said", dir: "auto" }, task.question), table, buttons);
      if (held) live.querySelector("button")?.focus();
      if (isOpen(task.state)) {
        const timer = setInterval(() => (elapsed.isConnected && !signal.aborted ? (elapsed.textContent = age(secondsOf(task))) : clearInterval(timer)), 1000);
        if (first) result.replaceChildren(skeleton(3));
      } else {
        result.replaceChildren(...(await resultOf(task)));
      }
    }, (error) => below.tell(inWords(error)));
    await update.first;
  };
}

/** @param {Task} task */
async function resultOf(task) {
  const { report } = task;
  const text = report.answer || task.answer;
  /** @type {Node[]} */
  const nodes = [];
  if (text) nodes.push(section(say("result"), await rendered(text)));
  if (report.sources?.length) nodes.push(section(say("sources"), make("ol", { class: "sources" }, ...report.sources.map(source))));
  const doubts = [...(report.unverified ?? []), ...(report.missing_quotes ?? [])].map(String);
  if (doubts.length) nodes.push(section(say("not_verified"), make("ul", { class: "plain-list" }, ...doubts.map((each) => make("li", {}, each)))));
  return nodes;
}

/**
 * Return where a source is: its host, or the path in the repository.
 * @param {string} address
 */
export function hostOf(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:"].includes(url.protocol) ? url.host : "";
  } catch {
    return "";
  }
}

/** @param {any} each */
function source(each) {
  const host = hostOf(each.address);
  const title = each.title || each.address;
  const about = { href: each.address, target: "_blank", rel: "noreferrer noopener", dir: "auto" };
  const line = [host || each.address, each.cited ? "" : say("not_cited")].filter(Boolean).join(" · ");
  return make("li", { value: each.number }, host ? make("a", about, title) : make("span", {}, title), make("span", { class: "meta" }, line));
}

/** @type {import("./drawer.js").Panel} */
export const panel = {
  title: () => say("tasks"),
  open: async (body, signal, about) => {
    const pages = openPages(body, signal, async (pages, root, own) => {
      const below = failures();
      const begin = async () => (await newTask()) && update.now();
      const shown = list({ label: say("tasks"), empty: empty(say("tasks_empty"), { text: say("research_new"), act: begin }, "search") });
      const add = button({ text: say("research_new"), icon: "plus", kind: "primary", act: begin });
      const head = make("div", { class: "panel-head" }, make("p", { class: "hint" }, say("tasks_about")), add);
      root.append(head, below.element, shown.element);
      const act = (/** @type {() => Promise<unknown>} */ work) => async () => {
        await below.during(work);
        await update.now();
      };
      /** @type {Task[]} */
      let tasks = [];
      const show = () => shown.update(tasks.map((task) => ({
        key: String(task.id),
        title: task.question.slice(0, 160),
        meta: lineOf(task),
        ...marksOf(task.state),
        state: say(`task_state_${task.state}`),
        badge: task.state === "succeeded" ? "" : say(`task_state_${task.state}`),
        act: () => pages.open(String(task.id), say("task_number", { number: task.id }), oneTask(task.id, pages)),
        menu: () => isOpen(task.state)
          ? [{ text: say("stop"), icon: "stop", danger: true, act: act(() => call("tasks", "stop", { id: task.id })) }]
          : [{ text: say("delete"), icon: "trash", danger: true, act: act(() => deleted(task)) }],
      })));
      const update = refreshed(own, async () => {
        tasks = (await call("tasks", "list")).filter((/** @type {Task} */ task) => !task.bot);
        if (own.aborted) return;
        head.hidden = !tasks.length;
        show();
      }, (error) => below.tell(inWords(error)));
      const timer = setInterval(() => tasks.some((task) => isOpen(task.state)) && show(), 1000);
      own.addEventListener("abort", () => clearInterval(timer), { once: true });
      await update.first;
    });
    if (about.id) pages.open(String(about.id), say("task_number", { number: about.id }), oneTask(about.id, pages));
    await pages.ready;
  },
};
