// @ts-check
// What a person can do with a chat in the list: rename, pin, archive, export, delete.

import { call, currentChat } from "../connection.js";
import { say } from "../dom.js";
import { confirm, toast } from "../ui.js";
import { titleOf } from "./naming.js";
import * as store from "./store.js";

/** @typedef {import("./grouping.js").Chat} Chat */

/**
 * Return the menu of a chat.
 * @param {Chat} chat
 * @param {() => void} rename
 * @param {(gone: string) => void} left what happens when a chat is not listed any more
 * @returns {import("../menu.js").Entry[]}
 */
export function menuOf(chat, rename, left) {
  const { pinned, archived } = chat;
  return [
    ...(archived ? [] : [
      { text: say("rename"), icon: /** @type {const} */ ("edit"), act: rename },
      { text: say(pinned ? "unpin" : "pin"), icon: /** @type {"pin" | "unpin"} */ (pinned ? "unpin" : "pin"), act: () => pin(chat) },
    ]),
    { text: say(archived ? "unarchive" : "archive"), icon: "archive", act: () => archive(chat, left) },
    "line",
    { text: say("export_markdown"), icon: "download", act: () => download(chat, "markdown") },
    { text: say("export_json"), icon: "download", act: () => download(chat, "json") },
    "line",
    { text: say("delete"), icon: "trash", danger: true, act: () => remove(chat, left) },
  ];
}

/**
 * Do something on the server, and say what went wrong if it fails. Returns whether it was done.
 * @param {() => Promise<unknown>} work
 */
async function tried(work) {
  try {
    await work();
    store.tellOthers();
    return true;
  } catch (error) {
    const { message, advice } = /** @type {import("../connection.js").RequestError} */ (error);
    toast([message, advice].filter(Boolean).join(" "), { bad: true });
    store.refresh();
    return false;
  }
}

/**
 * @param {string} chat
 * @param {string} title
 */
export function rename(chat, title) {
  return tried(async () => {
    const answer = await call("chats", "rename", { chat, title });
    store.changed(chat, { title: answer.title, automatic: false });
  });
}

/** @param {Chat} chat */
function pin({ chat, pinned }) {
  store.changed(chat, { pinned: !pinned });
  return tried(() => call("chats", "pin", { chat, pinned: !pinned }));
}

/**
 * @param {Chat} chat
 * @param {(gone: string) => void} left
 */
async function archive(chat, left) {
  const { archived } = chat;
  const name = titleOf(chat);
  if (!archived) store.changed(chat.chat, { archived: true });
  if (!(await tried(() => call("chats", "archive", { chat: chat.chat, archived: !archived })))) return;
  const undo = () => tried(() => call("chats", "archive", { chat: chat.chat, archived }));
  toast(say(archived ? "unarchived" : "archived_one", { name }), { action: { text: say("undo"), act: undo } });
  if (!archived) left("");
}

/**
 * @param {Chat} chat
 * @param {(gone: string) => void} left
 */
async function remove(chat, left) {
  const name = titleOf(chat);
  const act = async () => {
    try {
      await call("chats", "delete", { chat: chat.chat });
      return "";
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  const sure = await confirm({ title: say("delete_chat", { name }), text: say("delete_chat_text"), action: say("delete"), danger: true, act });
  if (!sure) return;
  toast(say("deleted_one", { name }));
  store.tellOthers();
  left(chat.chat === currentChat() ? chat.chat : "");
}

/**
 * Save what was said in a chat as a file.
 * @param {Chat} chat
 * @param {"markdown" | "json"} form
 */
async function download(chat, form) {
  await tried(async () => {
    const pages = [];
    for (let after = 0, first = true; first || after; first = false) {
      const page = await call("chats", "export", { chat: chat.chat, form, after });
      pages.push(page);
      after = page.next;
    }
    const name = titleOf(chat);
    const text = form === "markdown"
      ? pages.map((page) => page.text).join("")
      : JSON.stringify({ chat: chat.chat, title: chat.title, entries: pages.flatMap((page) => page.entries), lists: pages.flatMap((page) => page.lists) }, null, 2);
    save(text, fileName(name, form === "markdown" ? "md" : "json"), form === "markdown" ? "text/markdown" : "application/json");
  });
}

/**
 * Return a file name that every system takes.
 * @param {string} name
 * @param {string} suffix
 */
export function fileName(name, suffix) {
  const plain = name.replace(/[\u0000-\u001f\u007f<>:"/\\|?*]+/g, " ").replace(/\s+/g, " ").trim().replace(/^\.+|\.+$/g, "");
  return `${[...plain].slice(0, 80).join("").trim() || "chat"}.${suffix}`;
}

/**
 * @param {string} text
 * @param {string} name
 * @param {string} type
 */
function save(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
