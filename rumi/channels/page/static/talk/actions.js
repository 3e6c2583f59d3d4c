// @ts-check
// What can be done with an entry, and how it has ended.

import { call, currentChat } from "../connection.js";
import { putClip } from "../copy.js";
import { age, clock, make, say, took } from "../dom.js";
import { confirm, dialog } from "../dialog.js";
import { icon } from "../icons.js";
import { menu } from "../menu.js";
import { toast } from "../states.js";
import { edit } from "./editor.js";
import { ending } from "./endings.js";
import { send } from "./sending.js";
import { wordsOf } from "./speaking.js";
import { doing } from "./tool.js";

/** @typedef {import("./entries.js").Known} Known */
/** @typedef {{name: string, icon: import("../icons.js").IconName, act: () => void, often?: boolean}} Action */

/** Tools whose calls change nothing. */
const READS = new Set(["read", "read_file", "ls", "grep", "find", "web_fetch", "web_search", "recall", "todo", "bash_output", "list_schedules", "find_tools"]);

/**
 * Return the nodes below an entry: dots while it works, how it has ended, and what can be done with it. They are
 * made again only if something about them has changed.
 * @param {Known} known
 * @param {Known[]} all
 * @returns {Node[]}
 */
export function foot(known, all) {
  const { head } = known;
  const parts = [...known.parts.values()].map(({ part, text }) => (text ? { ...part, raw: text.raw } : part));
  const quiet = head.state === "running" && !parts.some((part) => part.kind === "text" && part.raw) && !parts.some((part) => part.state === "running" || part.kind === "waiting");
  const last = isLast(known, all);
  const said = parts.some((part) => part.kind === "text");
  const key = JSON.stringify([head.kind, head.state, head.reason, head.undone, head.replaced, head.ended, quiet, last, said, head.about?.model, head.buttons, parts.some((part) => part.ending)]);
  if (key === known.footKey) return [...known.foot.childNodes];
  known.footKey = key;
  if (quiet) return [make("p", { class: "dots" }, make("span", { class: "dot work" }), make("span", {}, say("working")))];
  if (head.state !== "done" && head.state !== "sent") return [];
  return [...endingOf(known, parts, last), ...buttonsOf(head), bar(known, actionsOf(known, last))];
}

/**
 * @param {Known} known
 * @param {Known[]} all
 */
function isLast(known, all) {
  const turns = all.filter(({ head }) => head.kind === known.head.kind && !head.undone && !head.replaced && (head.kind !== "answer" || head.state === "done"));
  return turns[turns.length - 1] === known && !all.some(({ head }) => head.state === "running" || head.state === "queued");
}

/**
 * Return the buttons of a reply, such as those that put a reminder off. A turn that can continue has its own.
 * @param {import("../types.js").Head} head
 * @returns {Node[]}
 */
function buttonsOf(head) {
  const offered = (head.buttons ?? []).filter(([, words]) => words !== "/continue");
  if (!offered.length) return [];
  return [make("div", { class: "row wrap offered" }, ...offered.map(([label, words]) => {
    const button = make("button", { type: "button", class: "small" }, label);
    button.addEventListener("click", () => send(words));
    return button;
  }))];
}

/**
 * @param {Known} known
 * @param {import("../types.js").Part[]} parts
 * @param {boolean} last
 * @returns {Node[]}
 */
function endingOf(known, parts, last) {
  const { head } = known;
  if (head.kind !== "answer") return [];
  const { text, next } = ending(head.reason);
  if (!text) return [];
  const nodes = parts.some((part) => part.ending) ? [] : [icon("info"), make("span", {}, say(text))];
  if (last && next) {
    const button = make("button", { type: "button", class: "small" }, say(next === "continue" ? "continue" : "answer_again"));
    button.addEventListener("click", () => send(next === "continue" ? "/continue" : "/retry"));
    nodes.push(button);
  }
  return nodes.length ? [make("p", { class: "ended" }, ...nodes)] : [];
}

/**
 * Return what can be done with an entry.
 * @param {Known} known
 * @param {boolean} last
 * @returns {Action[]}
 */
function actionsOf(known, last) {
  const { head } = known;
  const markdown = () => [...known.parts.values()].map(({ part, text }) => text?.raw ?? (part.kind === "text" ? part.raw ?? "" : "")).filter(Boolean).join("\n\n");
  const copied = (/** @type {string} */ text) => putClip(text).then(() => toast(say("copied")), () => toast(say("not_copied"), { bad: true }));
  /** @type {Action[]} */
  const found = [{ name: "copy_markdown", icon: "copy", act: () => copied(markdown()), often: true }];
  if (head.kind !== "you") found.push({ name: "copy_text", icon: "file", act: () => copied(wordsOf(known.element)) });
  if (head.kind === "you" && head.state === "sent" && !markdown().startsWith("/")) {
    found.push({ name: "edit_message", icon: "edit", act: () => edit(known, markdown()), often: true });
  }
  if (head.kind === "answer" && !head.undone && !head.replaced) {
    found.push({ name: "answer_again", icon: "retry", act: () => again(known, last), often: true });
    if (last) found.push({ name: "undo_turn", icon: "undo", act: () => undo(known), often: true });
  }
  found.push({ name: "details", icon: "info", act: () => details(known) });
  return found;
}

/**
 * @param {Known} known
 * @param {Action[]} found
 */
function bar(known, found) {
  const often = found.filter((action) => action.often).map((action) => {
    const button = make("button", { type: "button", class: "quiet small icon-only often", "aria-label": say(action.name), title: say(action.name) }, icon(action.icon));
    button.addEventListener("click", action.act);
    return button;
  });
  const more = make("button", { type: "button", class: "quiet small icon-only", "aria-label": say("more_actions"), title: say("more_actions") }, icon("more"));
  menu(more, found.map((action) => ({ text: say(action.name), icon: action.icon, act: action.act })));
  const at = known.head.ended || known.head.began;
  const time = at ? [make("time", { datetime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toLocaleString(document.documentElement.lang) }, clock(at).slice(0, 5))] : [];
  return make("div", { class: "actions" }, ...often, more, ...time);
}

/**
 * Have a message answered again: the last by `/retry`, an earlier one in a branch that begins with it.
 * @param {Known} known
 * @param {boolean} last
 */
async function again(known, last) {
  if (last) {
    send("/retry");
    return;
  }
  try {
    const { note } = await call("chats", "branch", { chat: currentChat(), message: known.head.number });
    toast(note);
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), { bad: true });
  }
}

/**
 * Ask whether to take back the last turn, with what it did.
 * @param {Known} known
 */
async function undo(known) {
  const done = [...known.parts.values()].map(({ part }) => part).filter((part) => part.kind === "tool" && !READS.has(part.name) && part.state !== "running");
  const items = done.slice(0, 12).map((part) => {
    const [verb, on] = doing(part.name, part.title);
    return make("li", {}, verb ? `${say(verb)} ` : "", make("code", {}, on));
  });
  if (done.length > items.length) items.push(make("li", {}, say("and_more", { count: done.length - items.length })));
  const body = [make("p", {}, say(items.length ? "undo_takes_back" : "undo_takes_words")), ...(items.length ? [make("ul", { class: "effects" }, ...items), make("p", { class: "faint" }, say("undo_says_rest"))] : [])];
  if (await confirm({ title: say("undo_sure"), text: body, action: say("undo_turn") })) send("/undo");
}

/** @param {Known} known */
function details(known) {
  const { head } = known;
  const about = head.about ?? {};
  const number = (/** @type {number} */ count) => count.toLocaleString(document.documentElement.lang);
  const when = (/** @type {number} */ seconds) => new Date(seconds * 1000).toLocaleString(document.documentElement.lang);
  /** @type {[string, string][]} */
  const facts = [];
  const add = (/** @type {string} */ name, /** @type {unknown} */ value) => value && facts.push([say(name), String(value)]);
  add("about_began", head.began && when(head.began));
  add("about_ended", head.ended && when(head.ended));
  if (head.kind === "answer" && head.ended > head.began) add("took", head.ended - head.began < 60 ? took(head.ended - head.began) : age(head.ended - head.began));
  add("about_model", about.model);
  add("about_calls", about.calls && number(about.calls));
  add("about_prompt", about.prompt && number(about.prompt));
  add("about_cached", about.cached && number(about.cached));
  add("about_completion", about.completion && number(about.completion));
  add("about_cost", about.nano && `${(about.nano / 1e9).toFixed(about.nano < 1e7 ? 5 : 3)} $`);
  add("about_session", head.session && number(head.session));
  add("about_message", head.number && number(head.number));
  const list = make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  dialog({ title: say("details"), body: list });
}
