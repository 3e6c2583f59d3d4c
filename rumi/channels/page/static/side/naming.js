// @ts-check
// What a chat is called where a person reads it.

import { say } from "../dom.js";

/** The chat that a terminal uses if no other is named. It gets no title of its own. */
const MAIN = "cli";
/** What `chats.new` makes: it says nothing to a person. */
const GENERATED = /^c-[a-z0-9]{8}$/;

/**
 * Return a chat's title, or a name in words for one that has none.
 * @param {{chat: string, title?: string}} chat
 */
export function titleOf({ chat, title = "" }) {
  if (title) return title;
  if (chat === MAIN) return say("main_chat");
  return GENERATED.test(chat) ? say("new_chat") : chat;
}
