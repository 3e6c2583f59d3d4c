// @ts-check
// The page: wires the connection, the conversation, the composer, the chats and the drawer.

import * as composer from "./composer/composer.js";
import * as connection from "./connection.js";
import { byId, say } from "./dom.js";
import * as drawer from "./drawer/drawer.js";
import * as notify from "./notify.js";
import * as side from "./side/side.js";
import * as asks from "./talk/asks.js";
import * as entries from "./talk/entries.js";
import * as head from "./talk/head.js";
import * as sending from "./talk/sending.js";
import * as speaking from "./talk/speaking.js";
import { toastRegion } from "./ui.js";

/** @typedef {{show: (chat: string, entry?: string) => void, tell: (text: string) => void, openPanel: typeof drawer.openPanel}} Page */

/** The chat and the entry that the address names. */
function wanted() {
  const fields = new URLSearchParams(location.search);
  return { chat: fields.get("chat") || "cli", entry: fields.get("entry") || "" };
}

/** @param {string} text */
function tell(text) {
  const banner = byId("banner");
  banner.textContent = text;
  banner.hidden = !text;
}

/**
 * Show a chat, and an entry of it.
 * @param {string} chat
 * @param {string} [entry]
 * @param {boolean} [push] Whether the back button leads to what is shown now.
 */
export function show(chat, entry = "", push = true) {
  if (push && chat !== connection.currentChat()) history.pushState(null, "", `?chat=${encodeURIComponent(chat)}`);
  if (chat !== connection.currentChat()) {
    composer.leave();
    entries.clear();
    connection.enter(chat);
    sending.enter();
    for (const part of [side, head, composer, asks, speaking, notify]) part.enter();
  }
  if (entry) connection.currentState() === "live" ? entries.find(entry) : (sought = entry);
}

let sought = "";

connection.onState((state) => {
  document.body.dataset.state = state; // what is shown may be old: the style sheet says so
  tell(state === "lost" ? say("lost") : state === "over" ? say("over_text") : "");
});
connection.on("mark", () => {
  if (sought) entries.find(sought);
  sought = "";
});
entries.listen();
sending.listen();
speaking.begin();
/** What the modules may ask of the page. */
const page = { show, tell, openPanel: drawer.openPanel };
toastRegion();
for (const part of [drawer, side, head, composer, asks, notify]) part.begin(page);
show(wanted().chat, wanted().entry, false);
addEventListener("popstate", () => show(wanted().chat, wanted().entry, false));
