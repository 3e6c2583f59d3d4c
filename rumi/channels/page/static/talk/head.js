// @ts-check
// The head of the conversation: the chat's title, its model, how full its context is, and what can be done.

import { call, currentChat, on } from "../connection.js";
import { byId, make, say, set } from "../dom.js";
import { icon } from "../icons.js";
import { menu } from "../menu.js";
import { nameOf, onChats } from "../side/store.js";
import { all, onEntry } from "./entries.js";
import { send } from "./sending.js";

/**
 * An item of the menu. Items are in the order of `place`.
 * @typedef {{place: number, text: () => string, icon: import("../icons.js").IconName, act: () => void, danger?: boolean, line?: boolean}} HeadAction
 */

const title = make("h1", { id: "talk-title", tabindex: "-1" });
const model = make("button", { type: "button", class: "chip clip", id: "model", hidden: true });
const full = make("span", { class: "chip wide-only", id: "context", hidden: true });
const files = make("button", { type: "button", class: "quiet icon-only", id: "show-files" }, icon("folder"));
const more = make("button", { type: "button", class: "quiet icon-only", id: "talk-menu" }, icon("more"));
/** @type {HeadAction[]} */
const actions = [];
/** @type {() => import("../menu.js").Entry[]} */
let ofChat = () => [];

/**
 * Add an item to the conversation's menu.
 * @param {HeadAction} action
 */
export function addHeadAction(action) {
  actions.push(action);
  actions.sort((one, other) => one.place - other.place);
}

/**
 * Set what the menu offers for the chat as a whole.
 * @param {() => import("../menu.js").Entry[]} items
 */
export function setChatMenu(items) {
  ofChat = items;
}

/**
 * Return how full the context is, in percent; null if unknown.
 * @param {{tokens?: number, window?: number}} figures
 */
export function share({ tokens = 0, window = 0 }) {
  return window > 0 && tokens > 0 ? Math.min(100, Math.max(1, Math.round((100 * tokens) / window))) : null;
}

/** Another chat is shown. */
export function enter() {
  name();
  full.hidden = true;
  model.hidden = true;
  chosen();
}

/** Show what the chat is called. */
function name() {
  const text = nameOf(currentChat());
  set(title, "textContent", text);
  set(title, "title", text);
}

/** Show the model that answers next. */
async function chosen() {
  const chat = currentChat();
  const answer = await call("models", "chosen", { chat }).catch(() => null);
  if (answer?.model && chat === currentChat()) showModel(answer.model);
}

/** @param {string} id */
function showModel(id) {
  model.hidden = false;
  set(model, "textContent", id.split("/").pop() ?? id);
  model.title = id;
  model.setAttribute("aria-label", say("model_is", { model: id }));
}

/** @param {import("../page.js").Page} page */
export function begin(page) {
  const open = /** @type {(name: any) => void} */ (page.openPanel);
  for (const [element, name] of /** @type {const} */ ([[files, "files"], [more, "more_actions"]])) {
    element.setAttribute("aria-label", say(name));
    element.title = say(name);
  }
  byId("talk-head").append(title, make("span", { class: "space" }), model, full, files, more);
  model.addEventListener("click", () => open("models"));
  files.addEventListener("click", () => open("files"));
  addHeadAction({ place: 50, text: () => say("begin_session"), icon: "plus", act: () => send("/new") });
  menu(more, () => [
    ...actions.flatMap(({ text, line, ...action }) => [...(line ? [/** @type {const} */ ("line")] : []), { text: text(), ...action }]),
    ...ofChat(),
  ]);
  on("figures", (figures) => {
    const percent = share(figures);
    full.hidden = percent === null;
    if (percent === null) return;
    set(full, "textContent", say("context_full", { percent }));
    const number = (/** @type {number} */ count) => count.toLocaleString(document.documentElement.lang);
    full.title = say("context_tokens", { tokens: number(figures.tokens), window: number(figures.window) });
    full.classList.toggle("warn", percent >= 80);
  });
  onChats(name);
  onEntry(() => {
    const last = all().filter(({ head }) => head.about?.model).pop()?.head.about.model;
    if (last !== undefined) showModel(String(last));
  });
}
