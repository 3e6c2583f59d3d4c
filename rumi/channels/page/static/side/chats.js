// @ts-check
// The list of chats: groups by date, older pages as one scrolls, and the archive behind a line.

import { currentChat } from "../connection.js";
import { arrange, make, say, set } from "../dom.js";
import { ask, button } from "../ui.js";
import * as deeds from "./deeds.js";
import { beside, grouped } from "./grouping.js";
import { chatRow } from "./rows.js";
import * as store from "./store.js";

/** @typedef {import("./grouping.js").Chat} Chat */

const BUSY_MS = 500;

/** @type {Map<string, import("./rows.js").Row>} */
const rows = new Map();
/** @type {Map<string, {element: HTMLElement, head: HTMLElement, list: HTMLElement}>} */
const groups = new Map();
/** @type {Map<string, import("./rows.js").Row>} */
const archivedRows = new Map();
const groupsRoom = make("div", {});
const olderButton = button({ text: say("older_chats"), kind: "quiet small", act: () => store.loadMore() });
const archiveList = make("ul", { "aria-label": say("archived") });
const archive = make("details", { id: "archive" }, make("summary", {}, say("archived")), archiveList);

/** The element with the list. */
export const element = make("nav", { id: "chats", "aria-label": say("chats") });

/** @type {(chat: string) => void} */
let go = () => {};
/** @type {() => void} */
let leave = () => {};

let later = 0;

/** Show the list as it is now: later, while a person renames a chat in it or has a menu open. */
export function show() {
  clearTimeout(later);
  if (element.querySelector("input, [role='menu']")) {
    later = window.setTimeout(show, BUSY_MS);
    return;
  }
  const focused = document.activeElement;
  const found = grouped(store.listed(), new Date());
  const order = found.map((group) => {
    const { element, head, list } = groupOf(group.key);
    set(head, "textContent", group.month ? monthName(group.month) : say(`group_${group.key}`));
    arrange(list, group.chats.map((chat) => rowOf(rows, chat)));
    return element;
  });
  arrange(groupsRoom, order);
  for (const key of [...groups.keys()]) if (!found.some((group) => group.key === key)) groups.delete(key);
  const known = new Set(store.listed().map((chat) => chat.chat));
  for (const chat of [...rows.keys()]) if (!known.has(chat)) rows.delete(chat);
  olderButton.hidden = !store.hasMore();
  if (archive.open) showArchive();
  if (focused instanceof HTMLElement && focused !== document.activeElement && element.contains(focused)) {
    focused.focus({ preventScroll: true }); // its row has moved
  }
}

/** @param {string} key */
function groupOf(key) {
  const known = groups.get(key);
  if (known) return known;
  const head = make("h2", { id: `chats-${key}` });
  const list = make("ul", { "aria-labelledby": head.id });
  const made = { element: make("section", {}, head, list), head, list };
  groups.set(key, made);
  return made;
}

/**
 * @param {Map<string, import("./rows.js").Row>} known
 * @param {Chat} chat
 */
function rowOf(known, chat) {
  const row = known.get(chat.chat) ?? chatRow(chat, {
    go,
    rename: deeds.rename,
    menu: (now) => deeds.menuOf(now, () => known.get(now.chat)?.rename(), left),
  });
  known.set(chat.chat, row);
  row.update(chat, chat.chat === currentChat());
  return row.element;
}

/** @param {string} gone */
function left(gone) {
  if (archive.open) showArchive();
  if (gone) leave();
}

async function showArchive() {
  const chats = await store.archived().catch(() => null);
  if (!Array.isArray(chats)) return;
  const none = make("li", { class: "faint" }, say("nothing_here"));
  arrange(archiveList, chats.length ? chats.map((chat) => rowOf(archivedRows, chat)) : [none]);
}

/** @param {Date} month */
function monthName(month) {
  const year = month.getFullYear() === new Date().getFullYear() ? undefined : /** @type {const} */ ("numeric");
  const name = month.toLocaleDateString(document.documentElement.lang, { month: "long", year });
  return name.charAt(0).toLocaleUpperCase() + name.slice(1);
}

/**
 * Go to the chat before or after the current one in the list.
 * @param {1 | -1} by
 */
export function step(by) {
  const order = grouped(store.listed(), new Date()).flatMap((group) => group.chats.map((chat) => chat.chat));
  const to = beside(order, currentChat(), by);
  if (!to) return;
  go(to);
  rows.get(to)?.element.scrollIntoView({ block: "nearest" });
}

/**
 * Return the menu of the current chat; nothing before anything is said in it.
 * @returns {import("../menu.js").Entry[]}
 */
export function currentMenu() {
  const chat = store.chatOf(currentChat());
  if (!chat) return [];
  const rename = () => void ask({
    title: say("rename"), label: say("chat_title"), value: chat.title, most: 100, action: say("save"),
    submit: async (/** @type {string} */ title) => void (await deeds.rename(chat.chat, title)),
  });
  return ["line", ...deeds.menuOf(chat, rename, left)];
}

/** Rename the current chat in the list. */
export function renameCurrent() {
  rows.get(currentChat())?.rename();
}

/**
 * @param {(chat: string) => void} open
 * @param {() => void} leaveDeleted what to show when the current chat is deleted
 */
export function begin(open, leaveDeleted) {
  go = open;
  leave = leaveDeleted;
  element.append(groupsRoom, olderButton, archive);
  olderButton.hidden = true;
  archive.addEventListener("toggle", () => archive.open && showArchive());
  new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting) && store.hasMore()) store.loadMore();
  }, { root: element, rootMargin: "200px" }).observe(olderButton);
  store.onChats(show);
}
