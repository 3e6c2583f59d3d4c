// @ts-check
// The composer: what is typed, its files, and the button that sends the message or stops the turn.

import { currentChat, on, post } from "../connection.js";
import { byId, make, say } from "../dom.js";
import { all, onEntry, working } from "../talk/entries.js";
import { onEdit, send } from "../talk/sending.js";
import { button, icon, toast } from "../ui.js";
import * as completion from "./completion.js";
import * as drafts from "./drafts.js";
import * as drop from "./drop.js";
import { LONG_PASTE, escapes, sends } from "./keys.js";
import * as queue from "./queue.js";
import * as uploads from "./uploads.js";

/** @typedef {{path: string, name: string}} Named */

const DRAFT_MS = 300;

const field = make("textarea", { id: "message", rows: 1, placeholder: say("message_to"), "aria-label": say("message"), "aria-describedby": "message-hint" });
const main = make("button", { id: "send", type: "submit", class: "primary" });
const count = make("span", { id: "length", role: "status" });
const makeFile = button({ text: say("make_file"), kind: "quiet small", act: asFile });
const picker = make("input", { type: "file", id: "attached", multiple: true, hidden: true, "aria-label": say("attach") });

let touch = false;
let composedAt = -Infinity;
let escapedAt = -Infinity;
let draftTimer = 0;
/** What this window and the stored draft had in common last: another window may have changed it since. */
let common = "";

/** This chat is left for another one: its draft stays. */
export function leave() {
  keep();
  completion.close();
}

/** Another chat is shown, with its draft. */
export function enter() {
  const draft = drafts.read(currentChat());
  put(draft.text);
  uploads.restore(currentChat(), draft.files);
  uploads.enter();
  common = own();
  queue.refresh();
  refresh();
  if (!touch) field.focus({ preventScroll: true });
}

/** What this window has of the draft. */
function own() {
  return JSON.stringify([field.value, uploads.stored(currentChat())]);
}

/** Keep the draft, if this window has changed it: another window's newer draft stays. */
function keep() {
  clearTimeout(draftTimer);
  if (!currentChat() || own() === common) return;
  common = own();
  drafts.write(currentChat(), field.value, uploads.stored(currentChat()));
}

/**
 * Another window has changed the draft: show it, unless this one has changes of its own.
 * @param {string} chat
 */
function changedElsewhere(chat) {
  const typing = document.hasFocus() && document.activeElement === field && field.value;
  if (chat !== currentChat() || own() !== common || typing) return;
  const draft = drafts.read(chat);
  uploads.restore(chat, draft.files);
  if (draft.text !== field.value) put(draft.text);
  common = own();
  refresh();
}

/** @param {string} text */
function put(text) {
  field.value = text;
  field.setSelectionRange(text.length, text.length);
  grow();
}

/**
 * Put a text before what is typed already, which is not lost.
 * @param {string} text
 * @param {Named[]} [files]
 */
function edit(text, files = []) {
  put([text, field.value].filter((each) => each.trim()).join("\n\n"));
  for (const { path, name } of files) uploads.attach({ path, name, size: 0 });
  field.focus();
  keep();
  refresh();
}

/** The field grows with its text where the style sheet cannot do that. */
function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function refresh() {
  const some = Boolean(field.value.trim()) || uploads.stored(currentChat()).length > 0 || uploads.unfinished();
  const does = working() && !some ? "stop" : "send";
  if (main.dataset.does !== does) {
    main.dataset.does = does;
    main.replaceChildren(icon(does), make("span", {}, say(does)));
  }
  const most = uploads.limits().text;
  const over = field.value.length > most;
  const near = over || field.value.length > most * 0.9;
  const format = (/** @type {number} */ number) => number.toLocaleString(document.documentElement.lang);
  count.textContent = near ? say(over ? "over_length" : "length_of", { count: format(field.value.length), most: format(most) }) : "";
  count.classList.toggle("bad", over);
  makeFile.hidden = !over;
  main.disabled = does === "send" && (over || uploads.unfinished());
  main.title = main.disabled ? say(over ? "make_file" : "uploads_first") : "";
  main.classList.toggle("queues", does === "send" && working());
}

/** The text is too long for a message: it becomes a file of it. */
function asFile() {
  if (!uploads.addText(field.value)) return;
  put("");
  field.focus();
  keep();
  refresh();
}

function submit() {
  const text = field.value.trim();
  const files = uploads.stored(currentChat());
  if (!text && !files.length && !uploads.unfinished()) {
    if (working()) stop();
    return;
  }
  if (uploads.unfinished()) toast(say("uploads_first"));
  if (main.disabled) return;
  completion.close();
  put("");
  send(text, uploads.take());
  keep();
  refresh();
}

function stop() {
  post("/chat/stop", { chat: currentChat() }).catch((error) => toast(error.message, { bad: true }));
}

/** Bring the last message back into the empty field: the last one that waits, else the last one sent. */
function editLast() {
  const waits = queue.waiting().at(-1);
  if (waits) {
    queue.take(waits, true);
    return;
  }
  const texts = all().filter(({ head }) => head.kind === "you").map(({ parts }) => [...parts.values()].map(({ part }) => part.raw ?? "").join(""));
  const text = texts.filter((each) => each && each !== "/stop").at(-1); // a press on "Stop" says that, too
  if (!text) return;
  edit(text);
  toast(say("edit_last_hint"));
}

/** @param {KeyboardEvent} event */
function keyed(event) {
  if (sends(event, { touch, composedAt })) {
    event.preventDefault();
    submit();
  } else if (event.key === "ArrowUp" && !field.value && !event.shiftKey && !event.altKey && !event.ctrlKey && !event.isComposing) {
    event.preventDefault();
    editLast();
  }
}

/** @param {KeyboardEvent} event */
function escaped(event) {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
  const about = { offering: completion.offering(), working: working(), empty: !field.value, sinceLast: event.timeStamp - escapedAt };
  escapedAt = event.timeStamp;
  const does = escapes(about);
  if (does === "close") completion.close();
  if (does === "stop") stop();
  if (does === "edit") editLast();
}

/** @param {ClipboardEvent} event */
function pasted(event) {
  const data = event.clipboardData;
  if (!data) return;
  if (data.files.length) {
    event.preventDefault();
    uploads.add(data.files);
    return;
  }
  const text = data.getData("text/plain");
  if (text.length > LONG_PASTE && uploads.addText(text)) {
    event.preventDefault();
    toast(say("pasted_as_file", { count: text.length.toLocaleString(document.documentElement.lang) }));
  }
}

/** Set up the composer. */
export function begin() {
  const coarse = matchMedia("(hover: none) and (pointer: coarse)");
  const settle = () => {
    touch = coarse.matches;
    field.setAttribute("enterkeyhint", touch ? "enter" : "send");
  };
  coarse.addEventListener("change", settle);
  settle();

  const attach = button({ icon: "plus", label: say("attach"), kind: "quiet", act: () => picker.click() });
  attach.id = "attach";
  const slash = button({ text: "/", label: say("commands"), kind: "quiet wide-only", act: () => (put(field.value || "/"), field.focus(), completion.look()) });
  const list = uploads.begin(filesChanged, edit);
  const row = make("div", { class: "row" }, attach, slash, count, makeFile, make("span", { class: "gap" }), main);
  const box = make("div", { class: "box" }, ...completion.begin(field), list, field, row, picker);
  const hint = make("p", { id: "message-hint", class: "faint" }, say(touch ? "message_hint_touch" : "message_hint"));
  byId("composer").append(queue.begin(edit), box, hint);
  box.addEventListener("click", (event) => event.target === box && field.focus());

  byId("composer").addEventListener("submit", (event) => (event.preventDefault(), submit()));
  picker.addEventListener("change", () => {
    uploads.add(picker.files ?? []);
    picker.value = "";
    field.focus();
  });
  field.addEventListener("input", () => {
    grow();
    refresh();
    completion.look();
    clearTimeout(draftTimer);
    draftTimer = window.setTimeout(keep, DRAFT_MS);
  });
  field.addEventListener("compositionend", (event) => (composedAt = event.timeStamp));
  field.addEventListener("keydown", keyed);
  field.addEventListener("paste", pasted);
  document.addEventListener("keydown", escaped);
  addEventListener("pagehide", keep);
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && keep());
  drop.begin((files) => (uploads.add(files), field.focus()));
  drafts.onOther(changedElsewhere);
  onEdit(edit);
  onEntry(refresh);
  for (const type of ["begin", "gone"]) on(type, refresh);
}

/** @param {string} chat */
function filesChanged(chat) {
  if (chat === currentChat()) {
    keep();
    refresh();
  } else drafts.write(chat, drafts.read(chat).text, uploads.stored(chat));
}
