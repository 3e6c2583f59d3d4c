// @ts-check
// The chats as the server last listed them: pages of the list, marks that come live, and what changes them.

import { call, currentChat, currentState, on, onState } from "../connection.js";
import { titleOf } from "./naming.js";

/** @typedef {import("./grouping.js").Chat} Chat */

const PAGE = 60;
/** Several changes at once, such as a question and its answer, are one reading of the list. */
const PAUSE_MS = 150;
/** After a first answer a model may make a better title. */
const TITLE_MS = 6000;

/** @type {Chat[]} */
let chats = [];
let more = false;
let wanted = PAGE;
let read = false;
/** @type {Record<string, string>} */
let marks = {};
let replies = -1;
let timer = 0;
let titles = 0;
/** @type {((before: Map<string, Chat> | null) => void)[]} */
const listeners = [];
const others = "BroadcastChannel" in window ? new BroadcastChannel("rumi-chats") : null;

/**
 * Call `listener` when the chats have changed, with those of before; null at the first reading.
 * @param {(before: Map<string, Chat> | null) => void} listener
 */
export function onChats(listener) {
  listeners.push(listener);
}

/** The chats that are listed, latest first. */
export function listed() {
  return chats;
}

/** Whether there are older ones, which are not listed yet. */
export function hasMore() {
  return more;
}

/** @param {string} chat */
export function chatOf(chat) {
  return chats.find((one) => one.chat === chat);
}

/**
 * Return what a chat is called where a person reads it.
 * @param {string} chat
 */
export function nameOf(chat) {
  return titleOf(chatOf(chat) ?? { chat });
}

/**
 * Return whether a person looks at this chat in this window.
 * @param {string} chat
 */
export function isSeen(chat) {
  return chat === currentChat() && document.visibilityState === "visible" && currentState() === "live";
}

/** Read the list again soon. */
export function refresh() {
  clearTimeout(timer);
  timer = window.setTimeout(load, PAUSE_MS);
}

/** List older chats too. */
export async function loadMore() {
  wanted += PAGE;
  await load();
}

/**
 * Return the archived chats.
 * @returns {Promise<Chat[]>}
 */
export function archived() {
  return call("chats", "list", { archived: true, limit: 500 });
}

async function load() {
  clearTimeout(timer);
  const limit = wanted;
  const found = await call("chats", "list", { archived: false, limit }).catch(() => null);
  if (!Array.isArray(found) || limit !== wanted) return;
  const before = read ? new Map(chats.map((one) => [one.chat, one])) : null;
  read = true;
  chats = found;
  more = chats.filter((one) => !one.pinned).length >= wanted;
  for (const listener of listeners) listener(before);
}

/**
 * Change what is known of a chat at once, before the server's list says so.
 * @param {string} chat
 * @param {Partial<Chat>} change
 */
export function changed(chat, change) {
  const before = new Map(chats.map((one) => [one.chat, one]));
  chats = chats.map((one) => (one.chat === chat ? { ...one, ...change } : one));
  if (change.archived) chats = chats.filter((one) => one.chat !== chat);
  for (const listener of listeners) listener(before);
}

/** Read the list again here and in the other windows of this browser: a person has changed it. */
export function tellOthers() {
  others?.postMessage("changed");
  refresh();
}

/** @param {{chats: Record<string, string>, replies: number}} message */
function marked(message) {
  const known = Object.keys(message.chats).every((chat) => chatOf(chat));
  const ended = Object.keys(marks).some((chat) => !(chat in message.chats));
  marks = message.chats;
  for (const one of chats) {
    const state = marks[one.chat] ?? "idle";
    if (one.state !== state) changed(one.chat, { state });
  }
  if (!known || ended || message.replies !== replies) refresh();
  if (replies !== -1 && message.replies !== replies) {
    clearTimeout(titles);
    titles = window.setTimeout(load, TITLE_MS);
  }
  replies = message.replies;
}

/** Listen to what changes the chats. */
export function begin() {
  on("marks", marked);
  onState((state) => state === "live" && refresh());
  if (others) others.onmessage = refresh;
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
}
