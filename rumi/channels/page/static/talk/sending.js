// @ts-check
// Messages that are on their way: shown at once, sent once and in their order, kept until the server has them.

import * as outbox from "../composer/outbox.js";
import { currentChat, onState, post, RequestError } from "../connection.js";
import { byId, make, say } from "../dom.js";
import { button } from "../ui.js";
import { entryOf, follow, onEntry } from "./entries.js";

/** @typedef {import("../composer/outbox.js").Unsent} Unsent */
/** @typedef {Unsent & {element: HTMLElement, state: "waits" | "tried" | "refused"}} Outgoing */

const RETRY_MS = 2000;
/** Answers that say "not now": the same request may succeed later. */
const LATER = [403, 408, 429, 503];

/** @type {Map<number, Outgoing>} By nonce, oldest first. */
const outgoing = new Map();
/** @type {Set<string>} Chats that have a request under way. */
const busy = new Set();
/** @type {(text: string, files: {path: string, name: string}[]) => void} */
let edit = () => {};

/**
 * Call `work` with the text and the files of a message that the person wants to edit.
 * @param {(text: string, files: {path: string, name: string}[]) => void} work
 */
export function onEdit(work) {
  edit = work;
}

/**
 * Send a message, and show it at once. The nonce makes the server take it once, however often it is sent.
 * @param {string} text
 * @param {{path: string, name: string}[]} files
 */
export function send(text, files = []) {
  const nonce = Math.floor(Math.random() * (2 ** 53 - 1)) + 1;
  const message = add({ chat: currentChat(), text, files, nonce, began: Date.now(), asItIs: false });
  outbox.keep(message);
  byId("pending").append(message.element);
  follow();
  return pump(message.chat);
}

/** @param {Unsent} unsent */
function add(unsent) {
  const element = make("article", { class: "entry you sending", "aria-label": say("you") });
  /** @type {Outgoing} */
  const message = { ...unsent, element, state: "waits" };
  outgoing.set(message.nonce, message);
  show(message, say("sending"));
  return message;
}

/** @param {Outgoing} message */
function remove(message) {
  outgoing.delete(message.nonce);
  outbox.forget(message.nonce);
  message.element.remove();
}

/**
 * @param {Outgoing} message
 * @param {string} about
 * @param {...Node} more
 */
function show(message, about, ...more) {
  const files = message.files.map(({ name }) => make("span", { class: "file" }, name));
  message.element.replaceChildren(
    ...files,
    make("div", { class: "text", dir: "auto" }, message.text),
    make("footer", { class: "entry-foot" }, make("span", { class: "faint", role: "status" }, about), ...more),
  );
}

/**
 * Send what waits in a chat, one message after the other.
 * @param {string} chat
 */
async function pump(chat) {
  if (busy.has(chat)) return;
  busy.add(chat);
  try {
    for (;;) {
      const next = [...outgoing.values()].find((message) => message.chat === chat && message.state !== "refused");
      if (!next || !(await attempt(next))) return;
    }
  } finally {
    busy.delete(chat);
  }
}

/**
 * Send a message; return whether the next one may follow.
 * @param {Outgoing} message
 */
async function attempt(message) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? ""; // for reminders, if none is set
  const { chat, text, nonce } = message;
  const files = message.files.map(({ path }) => path);
  if (message.state === "waits") show(message, say("sending"));
  try {
    const answer = await post("/chat/send", { chat, text, nonce, zone, files, as_it_is: message.asItIs });
    outgoing.delete(nonce);
    outbox.forget(nonce);
    if (chat !== currentChat() || entryOf(`m${answer.number}`)) message.element.remove();
    else message.element.dataset.number = String(answer.number);
    return true;
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    if (!outgoing.has(nonce)) return true; // another window has sent it
    if (error.lost || LATER.includes(error.status)) {
      message.state = "tried";
      show(message, error.lost || error.status === 503 ? say("sending_later") : say("not_sent", { why: error.message }));
      setTimeout(() => outgoing.has(nonce) && pump(chat), RETRY_MS);
      return false;
    }
    refused(message, error);
    return true;
  }
}

/**
 * Say why the server did not take a message, and what can be done.
 * @param {Outgoing} message
 * @param {RequestError} error
 */
function refused(message, error) {
  message.state = "refused";
  const act = (/** @type {string} */ text, /** @type {() => void} */ work) => button({ text, kind: "quiet small", act: work });
  const again = () => {
    message.state = "waits";
    message.asItIs = message.asItIs || error.unclear;
    show(message, say("sending"));
    pump(message.chat);
  };
  const change = () => {
    remove(message);
    edit(message.text, message.files);
  };
  show(
    message,
    say("not_sent", { why: error.message }),
    act(say("edit"), change),
    act(say(error.unclear ? "send_as_it_is" : "send_again"), again),
    act(say("discard"), () => remove(message)),
  );
}

/** Take away what the server shows now, and try again when the connection is back. */
export function listen() {
  for (const unsent of outbox.kept()) add(unsent).state = "tried";
  outbox.onGone((nonce) => {
    const message = outgoing.get(nonce);
    if (message) remove(message);
  });
  onEntry(({ head, parts }) => {
    if (head.kind !== "you") return;
    // The server may show a message before its answer to the request is here.
    const text = [...parts.values()].map(({ part }) => part.raw ?? "").join("");
    const same = [...outgoing.values()].find((message) => message.chat === currentChat() && message.text === text);
    if (same && head.began * 1000 > same.began - RETRY_MS) same.element.remove();
    for (const element of byId("pending").querySelectorAll(`[data-number="${head.number}"]`)) element.remove();
  });
  onState((state) => {
    if (state === "live") for (const chat of new Set([...outgoing.values()].map((message) => message.chat))) pump(chat);
  });
}

/** Show the messages of this chat that are on their way, and no others. */
export function enter() {
  const own = [...outgoing.values()].filter(({ chat }) => chat === currentChat());
  byId("pending").replaceChildren(...own.map(({ element }) => element));
}

/** Number of messages that the server does not have yet. */
export function pending() {
  return outgoing.size;
}
