// The talk: what was said, what grows, what is asked; and what is typed.

import { block, copies } from "./copy.js";
import { arrange, get, make, say, set, took } from "./dom.js";
import * as files from "./files.js";

const log = document.getElementById("log");
const empty = document.getElementById("empty");
const composer = document.getElementById("composer");
const message = document.getElementById("message");
const send = document.getElementById("send");
const stop = document.getElementById("stop");
const stopAll = document.getElementById("stop-all");
const question = document.getElementById("question");
const queued = document.getElementById("queued");

const MOST_ENTRIES = 200;
const SURE_MS = 5000;
const entries = new Map();
const acknowledged = new Set();
const earlier = document.getElementById("earlier");
let live = false;
let chat = "";
let sought = 0;
let asked = "";
let sure = 0;
let notice = () => {};

/** The chat that is shown. */
export function at() {
  return chat;
}

/** Show another chat, and in it this entry of its history. */
export function enter(id, entry) {
  chat = id;
  sought = entry;
  files.at(id);
  acknowledged.clear();
  queued.hidden = true;
  open(false);
  forget();
}

/** Send something about this chat to Rumi; show what went wrong. */
export async function post(path, fields) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ chat, ...fields }),
    });
    if (answer.ok) return answer.status === 204 ? {} : await answer.json();
    const said = answer.status === 403 ? { error: say("over") } : await answer.json();
    notice(path === "/chat/send" ? say("not_sent", { why: said.error }) : said.error);
  } catch {
    notice(say("lost"));
  }
  return null;
}

/** Show how many messages of this chat wait for its turn. */
export function board(shown) {
  const row = shown.chats.find((each) => each.id === chat);
  queued.hidden = !(row && row.queued);
  queued.textContent = row && row.queued ? say("queued", { count: row.queued }) : "";
}

/** Take messages, or none more: where the session is over, what is typed would go nowhere. */
export function open(may) {
  live = may;
  send.disabled = !may || files.busy();
  document.getElementById("attach").disabled = !may;
  if (!may) stop.disabled = true;
}

/** Forget what was told: everything will be told again. */
export function forget() {
  entries.clear();
  log.replaceChildren(earlier, empty);
  earlier.hidden = true;
  empty.hidden = false;
}

/** All that is in the talk is there now; `earlier` says whether the journal has more. */
export function begun(about) {
  earlier.hidden = !about.earlier;
  if (sought) find(sought);
  sought = 0;
}

/** Put what was said before in front; whether there was any. */
async function back() {
  const first = [...entries.keys()].find((id) => id.startsWith("h"));
  const shown = chat;
  const answer = first && (await get("/chats/earlier", { chat, before: first.slice(1) }));
  if (!answer || shown !== chat) return false;
  const height = log.scrollHeight;
  const later = [...entries];
  entries.clear();
  for (const shape of answer.entries) entry(shape, earlier);
  for (const [id, known] of later) entries.set(id, known);
  earlier.after(...[...entries.values()].map((known) => known.element));
  earlier.hidden = !answer.earlier;
  log.scrollTop += log.scrollHeight - height;
  return answer.entries.length > 0;
}

/** Show an entry of the history, however far back it is. */
export async function find(id) {
  for (let pages = 0; pages < 50 && !entries.has(`h${id}`); pages++) {
    const first = [...entries.keys()].find((each) => each.startsWith("h"));
    if (!first || Number(first.slice(1)) < id || !(await back())) break;
  }
  const known = entries.get(`h${id}`);
  if (!known) return;
  known.element.scrollIntoView({ block: "center" });
  known.element.tabIndex = -1;
  known.element.focus();
}

/** An entry as it is now. Parts that have not changed stay: what is folded open, selected, or read aloud. */
export function entry(shape, place = null) {
  const stay = !place && atEnd();
  const known = entries.get(shape.id) || { element: make("article", {}), shown: [] };
  const element = known.element;
  element.className = `entry ${shape.kind} ${shape.state}`;
  element.setAttribute("aria-label", say(shape.kind === "you" ? "you" : "assistant"));
  element.setAttribute("aria-busy", String(shape.state === "running"));
  const shown = shape.parts.map((part, place) => {
    const is = JSON.stringify(part);
    const was = known.shown[place];
    if (was && was.is === is) return was;
    if (was && part.kind === "tool" && was.part.id === part.id) { // who stands on it, or has folded it open, stays there
      fill(was.node, part);
      return { is, part, node: was.node };
    }
    const now = show(part, shape);
    if (was && was.node.open) now.open = true;
    return { is, part, node: now };
  });
  arrange(element, [...shown.map((each) => each.node), ...remarks(shape)]);
  if (!element.isConnected) log.append(element);
  entries.set(shape.id, { shape, element, shown });
  if (!place) forgetOldest();
  empty.hidden = true;
  if (shape.delivery && !acknowledged.has(shape.delivery)) {
    acknowledged.add(shape.delivery);
    post("/chat/seen", { delivery: shape.delivery });
  }
  state();
  if (stay) log.scrollTop = log.scrollHeight;
}

function remarks(shape) {
  return [...endings(shape), ...(shape.kind !== "you" && shape.state === "done" ? [copiesAll(shape)] : [])];
}

function copiesAll(shape) {
  const texts = () => [...entries.get(shape.id).element.querySelectorAll(":scope > .text")];
  const words = (node) => {
    const copy = node.cloneNode(true);
    for (const button of copy.querySelectorAll("button")) button.remove();
    log.append(copy); // what is not in the page has no lines
    const said = copy.innerText;
    copy.remove();
    return said.trim();
  };
  return copies(say("copy_answer"), () => texts().map(words).join("\n\n"));
}

function endings(shape) {
  if (shape.state === "running" && !shape.parts.some((part) => part.kind === "text" && (part.html || part.tail))) {
    return [make("p", { class: "dots", role: "status", "aria-label": say("working") }, "···")];
  }
  if (shape.kind === "answer" && shape.state === "done" && !["", "complete"].includes(shape.reason)) {
    const ended = make("p", { class: "faint" }, say("stopped_at", { reason: shape.reason }));
    return ["max_turns", "timeout"].includes(shape.reason) ? [ended, goesOn()] : [ended];
  }
  return [];
}

/** A button that goes on with a turn which a limit has ended; only the last entry shows it. */
function goesOn() {
  const button = make("button", { type: "button", class: "continue" }, say("continue"));
  button.addEventListener("click", () => {
    button.disabled = true;
    post("/chat/send", { text: "/continue" }).then((sent) => (button.disabled = sent !== null));
  });
  return button;
}

function forgetOldest() {
  while (entries.size > MOST_ENTRIES && atEnd()) { // not while earlier ones are read
    const [id, { element }] = entries.entries().next().value;
    element.remove();
    entries.delete(id);
  }
}

/** The text that an entry ends with has become longer. */
export function more({ id, html, tail }) {
  const known = entries.get(id);
  if (!known) return;
  const stay = atEnd();
  known.element.querySelector(".dots")?.remove();
  const last = known.shown[known.shown.length - 1];
  last.is = ""; // whatever is told next differs from this
  last.node.lastElementChild.before(...nodes(html));
  last.node.lastElementChild.replaceChildren(...nodes(tail));
  if (stay) log.scrollTop = log.scrollHeight;
}

/** Calls of an entry that run have reported steps or output. */
export function steps({ id, calls }) {
  const known = entries.get(id);
  if (!known) return;
  const stay = atEnd();
  for (const each of known.shown) {
    if (!calls[each.part.id] || each.part.state !== "running") continue;
    each.part = { ...each.part, ...calls[each.part.id] };
    each.is = JSON.stringify(each.part);
    fill(each.node, each.part);
  }
  if (stay) log.scrollTop = log.scrollHeight;
}

function show(part, shape) {
  switch (part.kind) {
    case "tool":
      return tool(part);
    case "todo": // a new list takes the place of the one before
      return make("ul", { class: "todo", "aria-label": say("todo") },
        ...part.items.map((item) => make("li", { class: item.state },
          make("span", { class: "mark", role: "img", "aria-label": say(`todo_${item.state}`) }, item.mark), item.text)));
    case "question": // while it is open it stands above the buttons
      return make("p", part.verdict ? { class: "asked" } : { hidden: "" }, part.text,
        make("em", {}, part.verdict ? ` ${say(`verdict_${part.verdict}`)}` : ""));
    case "note":
      return make("p", { class: "note" }, part.text);
    case "file":
      return files.shown(part.path);
    case "session":
      return make("p", { class: "session faint" }, say("new_session"));
    case "handed": // others' words, or a file
      return make("details", { class: "handed" }, make("summary", {}, part.source), make("pre", { tabindex: "0" }, part.text));
    default:
      if (shape.kind === "you") return make("div", { class: "text" }, part.text);
      return make("div", { class: "text" }, ...nodes(part.html), make("div", { class: "tail" }, ...nodes(part.tail)));
  }
}

/** HTML of the server's own making as nodes. The page's policy runs no script in it, whatever it says. */
function nodes(html) {
  const body = new DOMParser().parseFromString(html, "text/html").body;
  for (const pre of body.querySelectorAll("pre")) {
    const place = document.createComment("");
    pre.replaceWith(place);
    place.replaceWith(block(pre));
  }
  return [...body.childNodes];
}

function tool(part) {
  const mark = make("span", { class: "mark", "aria-hidden": "true" }, "●");
  const call = make("span", { class: "call" }, mark, make("code"), make("span", { class: "faint" }));
  const step = make("span", { class: "step faint", "aria-live": "off" }); // would be read aloud four times a second
  const steps = make("ol", { class: "steps", "aria-label": say("steps"), "aria-live": "off", tabindex: "0" });
  return fill(make("details", {}, make("summary", {}, call, step), steps), part);
}

/** Show a tool call as it is now in the element that was made for it. */
function fill(element, part) {
  const [summary, list] = element.children;
  const [call, step] = summary.children;
  const steps = part.steps ?? [];
  const last = steps[steps.length - 1];
  const running = part.state === "running";
  const remarks = [];
  if (running) remarks.push(say("working"));
  else if (part.count) remarks.push(part.count === 1 ? say("step_in_all") : say("steps_in_all", { count: part.count }));
  if (part.state === "failed" && (part.exit === null || part.exit === undefined)) remarks.push(say("failed"));
  if (part.exit !== null && part.exit !== undefined) remarks.push(say("exit", { code: part.exit }));
  if (part.ms !== null && part.ms !== undefined) remarks.push(took(part.ms / 1000));
  element.className = `tool ${part.state}`;
  set(call.children[1], "textContent", part.title);
  set(call.children[2], "textContent", remarks.join(" · "));
  const output = running ? printed(part.output ?? "") : "";
  set(step, "textContent", running ? output.slice(output.lastIndexOf("\n") + 1) || (last ? last.text : "") : "");
  const known = new Map([...list.children].map((item) => [item.value, item]));
  const follow = list.scrollHeight - list.scrollTop - list.clientHeight < 20;
  arrange(list, steps.map(({ number, text }) => known.get(number) ?? make("li", { value: number }, text)));
  list.hidden = !steps.length;
  if (follow) list.scrollTop = list.scrollHeight;
  const text = output || (part.said ? part.said + (part.cut ? "\n…" : "") : "");
  const known_text = element.querySelector(":scope > .block > pre.live");
  const said = !text ? [] : output && known_text ? [known_text.parentElement] : [block(make("pre", { tabindex: "0", class: output ? "live" : "" }, text))];
  if (output && known_text) set(known_text, "textContent", text);
  const standing = new Map([...element.querySelectorAll(":scope > .file")].map((item) => [item.dataset.path, item]));
  const shows = (part.shows ?? []).map((path) => standing.get(path) ?? shownFile(path));
  if (shows.length && !standing.size) element.open = true; // it is there to be seen
  arrange(element, [summary, list, ...said, ...(part.diff ? [block(diff(part.diff))] : []), ...shows]);
  return element;
}

/** Output of a command as a terminal would show it: a carriage return overwrites its line. */
function printed(text) {
  return text.replace(/\r\n/g, "\n").replace(/[^\n]*\r/g, "").trimEnd();
}

/** A file that a call shows. */
function shownFile(path) {
  const element = files.shown(path, path, true);
  element.dataset.path = path;
  return element;
}

/** What a call changed in a file, line by line in colours; without the lines that name the file. */
function diff(text) {
  const kinds = { "+": "added", "-": "removed", "@": "faint" };
  const lines = text.split("\n").slice(2);
  return make("pre", { tabindex: "0" }, ...lines.map((line) => make("span", { class: kinds[line[0]] ?? "" }, `${line}\n`)));
}

function state() {
  const all = [...entries.values()].map((known) => known.shape);
  stop.disabled = !all.some((shape) => shape.state === "running");
  const open = all.flatMap((shape) => (shape.state === "running" ? shape.parts : []));
  const asks = open.find((part) => part.kind === "question" && !part.verdict);
  question.hidden = !asks;
  if (asks && asks.id !== asked) {
    document.getElementById("question-text").textContent = asks.text;
    const whole = document.getElementById("question-whole");
    whole.hidden = !asks.whole;
    whole.open = false;
    whole.lastElementChild.textContent = asks.whole;
    post("/chat/seen", { question: asks.id });
  } else if (!asks && question.contains(document.activeElement)) {
    message.focus();
  }
  asked = asks ? asks.id : "";
}

function atEnd() {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
}

function fit() {
  message.rows = Math.min(8, message.value.split("\n").length);
}

async function submit() {
  const text = message.value.trim();
  if (send.disabled) return;
  const taken = files.take();
  if (!text && !taken.length) return;
  message.value = "";
  fit();
  notice("");
  log.scrollTop = log.scrollHeight;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? ""; // for reminders, if none is set
  const fields = { text, zone, files: taken.map((each) => each.path) };
  if ((await post("/chat/send", fields)) === null) {
    if (!message.value) message.value = text; // nothing typed is lost
    files.back(taken);
    fit();
  }
}

async function answer(yes) {
  const id = asked;
  message.focus();
  const told = await post("/chat/answer", { id, yes });
  if (told && !told.counts) notice(say("answer_failed"));
}

/** The next press of the button for everything asks again whether it is meant. */
function calm() {
  clearTimeout(sure);
  sure = 0;
  stopAll.textContent = say("stop_all");
}

/** Listen to keys and buttons. `tell` shows what went wrong, or nothing. */
export function begin(tell) {
  notice = tell;
  files.begin(tell, () => open(live));
  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  message.addEventListener("input", fit);
  message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !stop.disabled) post("/chat/stop", {});
  });
  stop.addEventListener("click", () => {
    post("/chat/stop", {});
    message.focus();
  });
  stopAll.addEventListener("click", () => {
    if (sure) {
      calm();
      post("/chat/send", { text: "/stop all" });
    } else {
      stopAll.textContent = say("stop_all_sure");
      sure = setTimeout(calm, SURE_MS);
    }
  });
  earlier.addEventListener("click", back);
  document.getElementById("yes").addEventListener("click", () => answer(true));
  document.getElementById("no").addEventListener("click", () => answer(false));
  if (matchMedia("(min-width: 64rem)").matches) message.focus(); // a phone would cover half the page with keys
}
