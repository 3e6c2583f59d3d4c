// @ts-check
// The side: a new chat, search, the chats, and the house; on a phone over the talk.

import { call, currentChat, post } from "../connection.js";
import { byId, make, say } from "../dom.js";
import { forgetAll } from "../composer/drafts.js";
import * as shell from "../shell.js";
import { setChatMenu } from "../talk/head.js";
import { button, icon, menu, toast } from "../ui.js";
import * as browser from "./browser.js";
import * as chats from "./chats.js";
import * as first from "./first.js";
import * as house from "./house.js";
import * as keys from "./keys.js";
import { keep, kept } from "./kept.js";
import * as search from "./search.js";
import * as store from "./store.js";

const PHONE = matchMedia("(max-width: 760px)");

/** @type {shell.Sheet} */
let sheet;
/** @type {import("../page.js").Page} */
let page;
const opener = button({ icon: "menu", label: say("chats"), kind: "quiet", act: () => sheet.toggle() });

/** Another chat is shown. */
export function enter() {
  first.enter();
  chats.show();
  store.refresh();
}

/**
 * Show a chat; on a phone the side closes.
 * @param {string} chat
 * @param {string} [entry]
 */
function go(chat, entry = "") {
  if (PHONE.matches) sheet.show(false);
  page.show(chat, entry);
}

/** Begin a new chat: no name is asked for. */
async function create() {
  try {
    const { chat } = await call("chats", "new");
    search.end();
    go(chat);
    byId("message").focus();
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), { bad: true });
  }
}

/** Show the side and put the focus into the search field. */
function find() {
  sheet.show(true);
  search.focus();
}

/**
 * Show the latest of the other chats, or a new one: the current chat was deleted.
 * @param {string} gone
 */
function afterDelete(gone) {
  const next = store.listed().find((one) => one.chat !== gone && !one.pinned) ?? store.listed().find((one) => one.chat !== gone);
  if (next) page.show(next.chat);
  else create();
}

/** End the session of this browser, and show what a stranger sees. */
async function logOut() {
  forgetAll();
  await post("/logout", {}).catch(() => {});
  location.assign("/");
}

function more() {
  return menu(button({ icon: "more", label: say("more_choices"), kind: "quiet" }), () => [
    { text: say("this_browser"), icon: "settings", act: browser.showChoices },
    { text: say("keys"), icon: "info", act: keys.showKeys },
    "line",
    { text: say("logout"), icon: "logout", act: logOut },
  ]);
}

/** @param {import("../page.js").Page} of */
export function begin(of) {
  page = of;
  const side = byId("side");
  if (kept("side") === "folded") side.classList.add("folded");
  const fold = button({ icon: "sidebar", label: say("hide_chats"), kind: "quiet", act: () => (sheet.show(false), opener.focus()) });
  const fresh = make("button", { type: "button", id: "new-chat" }, icon("plus"), make("span", { class: "space" }, say("new_chat")), make("kbd", { class: "wide-only", "aria-hidden": "true" }, "Ctrl ⇧ O"));
  fresh.addEventListener("click", create);
  side.append(
    make("div", { class: "brand" }, make("span", { class: "logo", "aria-hidden": "true" }, "R"), make("b", { class: "space" }, say("title")), more(), fold),
    fresh,
    search.bar,
    search.element,
    chats.element,
    house.element,
  );
  opener.id = "open-side";
  byId("talk-head").prepend(opener);
  sheet = shell.side(side, (open) => {
    opener.setAttribute("aria-expanded", String(open));
    if (!PHONE.matches) keep("side", open ? "" : "folded");
    if (open) house.look();
  });
  opener.setAttribute("aria-expanded", "false");
  browser.begin();
  store.begin();
  chats.begin(go, () => afterDelete(currentChat()));
  setChatMenu(chats.currentMenu);
  search.begin(go, (searching) => (chats.element.hidden = searching));
  house.begin(page);
  first.begin(page);
  keys.begin({ create, search: find, step: chats.step, focusMessage: () => byId("message").focus() });
}
