// @ts-check
// The empty chat: what Rumi can do, examples that work with the model in use, and the way to a real model.

import { call, currentChat, on } from "../connection.js";
import { byId, make, say } from "../dom.js";
import { send } from "../talk/sending.js";
import { button, icon } from "../ui.js";

/** @typedef {import("../icons.js").IconName} IconName */
/** @typedef {{icon: IconName, title: string, text: string}} Example */

/**
 * Each needs nothing but what the demo model understands.
 * @type {Example[]}
 */
const DEMO = [
  { icon: "file", title: "demo_file", text: "demo_file_text" },
  { icon: "clock", title: "demo_reminder", text: "demo_reminder_text" },
  { icon: "memory", title: "demo_memory", text: "demo_memory_text" },
  { icon: "question", title: "demo_help", text: "demo_help_text" },
];
/** @type {Example[]} */
const REAL = [
  { icon: "file", title: "real_file", text: "real_file_text" },
  { icon: "web", title: "real_research", text: "real_research_text" },
  { icon: "clock", title: "real_schedule", text: "real_schedule_text" },
  { icon: "code", title: "real_code", text: "real_code_text" },
];
const DEMO_MODEL = "offline";

const element = make("section", { id: "first", "aria-labelledby": "first-title", hidden: true });
let begun = false;
/** @type {import("../page.js").Page | undefined} */
let page;

/** Another chat is shown: nothing is known of it yet. */
export function enter() {
  begun = false;
  refresh();
}

function refresh() {
  const shown = begun && !byId("entries").childElementCount && !byId("pending").childElementCount;
  if (element.hidden !== shown) return;
  element.hidden = !shown;
  if (shown) build();
}

async function build() {
  const chat = currentChat();
  const chosen = await call("models", "chosen", { chat }).catch(() => null);
  if (chat !== currentChat() || element.hidden) return;
  const demo = chosen?.model === DEMO_MODEL;
  const examples = (demo ? DEMO : REAL).map(exampleButton);
  element.replaceChildren(
    make("div", { class: "first-head" }, make("span", { class: "logo", "aria-hidden": "true" }, "R"), make("h2", { id: "first-title" }, say("first_title"))),
    make("p", { class: "first-about" }, say("first_about")),
    make("div", { class: "examples" }, ...examples),
    ...(demo ? [demoNote()] : []),
  );
}

function demoNote() {
  const models = button({ text: say("choose_model"), icon: "chip", act: () => page?.openPanel("models") });
  return make("div", { class: "notice first-demo" }, icon("info"), make("div", { class: "stack" }, make("p", {}, ...coded(say("first_demo"))), make("p", {}, models)));
}

/**
 * Return a text whose parts in backticks are code.
 * @param {string} text
 */
function coded(text) {
  return text.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));
}

/** @param {Example} example */
function exampleButton(example) {
  const text = say(example.text);
  const press = make("button", { type: "button", class: "example" }, icon(example.icon), make("b", {}, say(example.title)), make("span", { dir: "auto" }, text));
  press.addEventListener("click", () => {
    send(text);
    byId(matchMedia("(pointer: coarse)").matches ? "log" : "message").focus(); // a phone's keyboard would hide the answer
  });
  return press;
}

/** @param {import("../page.js").Page} of */
export function begin(of) {
  page = of;
  byId("log").prepend(element);
  on("begin", ({ ids }) => {
    begun = true;
    if (!ids.length) refresh();
  });
  const watcher = new MutationObserver(refresh);
  for (const id of ["entries", "pending"]) watcher.observe(byId(id), { childList: true });
}
