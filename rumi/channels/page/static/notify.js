// @ts-check
// What calls a person back to the page: the window's title, the mark on its icon, and notifications.

import { currentChat, currentState, onState } from "./connection.js";
import { byId, make, say } from "./dom.js";
import { keep, kept } from "./side/kept.js";
import { titleOf } from "./side/naming.js";
import { newsOf, wanting, windowTitle } from "./side/news.js";
import { isSeen, listed, onChats } from "./side/store.js";
import { onEntry } from "./talk/entries.js";
import { button, toast } from "./ui.js";

/** An answer that takes longer than this may be worth a notification. */
const LONG_S = 30;
/** The window that holds this lock shows notifications, so that each is shown once. */
const LEADER = "rumi-notifies";
const SHOWS = "rumi-shows:";
const MOST_TEXT = 160;

let leads = false;
/** @type {(() => void) | null} */
let release = null;
let held = "";
/** @type {(chat: string) => void} */
let go = () => {};

/** Whether this browser can show notifications of this page: `unsupported`, `denied`, `off` or `on`. */
export function notifying() {
  if (!("Notification" in window) || !navigator.locks || !isSecureContext) return "unsupported";
  if (Notification.permission === "denied") return "denied";
  return kept("notify") === "on" && Notification.permission === "granted" ? "on" : "off";
}

/** Whether notifications show what was said. */
export function showsText() {
  return kept("notify-text") !== "off";
}

/**
 * Turn notifications on or off. A press must lead here: the browser asks the person. Returns what is now.
 * @param {boolean} on
 */
export async function turn(on) {
  const granted = on && notifying() !== "unsupported" && (await Notification.requestPermission()) === "granted";
  keep("notify", granted ? "on" : "off");
  return notifying();
}

/** @param {boolean} shows */
export function setShowsText(shows) {
  keep("notify-text", shows ? "" : "off");
}

/** Show the title of the current chat, and how many others want to be looked at. */
export function retitle() {
  const chat = listed().find((one) => one.chat === currentChat()) ?? { chat: currentChat() };
  const seen = currentChat() && isSeen(currentChat()) ? currentChat() : "";
  const count = wanting(listed(), seen);
  const title = windowTitle(titleOf(chat), count, say("title"));
  if (document.title !== title) document.title = title;
  const icon = document.querySelector('link[rel="icon"]');
  const address = count ? "/static/icon-mark.svg" : "/static/icon.svg";
  if (icon instanceof HTMLLinkElement && icon.getAttribute("href") !== address) icon.setAttribute("href", address);
}

/** Hold a lock that tells the other windows which chat a person looks at here. */
function hold() {
  const chat = isSeen(currentChat()) ? currentChat() : "";
  if (chat === held || !navigator.locks) return;
  held = chat;
  release?.();
  release = null;
  if (!chat) return;
  const until = new Promise((resolve) => (release = () => resolve(undefined)));
  navigator.locks.request(`${SHOWS}${chat}`, { mode: "shared" }, () => until).catch(() => {});
}

/** @param {Map<string, import("./side/store.js").Chat> | null} before */
async function inform(before) {
  const news = newsOf(before, listed());
  if (!leads || !news.length || notifying() !== "on") return;
  const { held: locks = [] } = await navigator.locks.query();
  const shown = new Set(locks.map((lock) => lock.name));
  for (const one of news) if (!shown.has(`${SHOWS}${one.chat}`)) notify(one);
}

/** @param {import("./side/news.js").News} news */
function notify({ chat, kind, number, title, text }) {
  const name = titleOf({ chat, title });
  const body = showsText() && kind === "answer" && text ? text.slice(0, MOST_TEXT) : say(kind === "question" ? "notify_question" : "notify_answer");
  try {
    const shown = new Notification(name, { body, tag: `rumi-${chat}-${kind}-${number}`, icon: "/static/icon.svg", lang: document.documentElement.lang });
    shown.addEventListener("click", () => {
      window.focus();
      shown.close();
      go(chat);
    });
  } catch {
    keep("notify", "off"); // some phones show notifications of installed pages only
  }
}

/** Offer notifications in a quiet line, once. */
function offer() {
  if (kept("notify") || kept("notify-offered") || notifying() !== "off") return;
  keep("notify-offered", "yes");
  const end = () => {
    const inside = line.contains(document.activeElement);
    line.remove();
    if (inside) byId("message").focus();
  };
  const on = async () => {
    const now = await turn(true);
    end();
    toast(say(now === "on" ? "notify_on" : "notify_refused"), { bad: now !== "on" });
  };
  const line = make("div", { id: "offer", class: "column faint", role: "status" },
    make("span", {}, say("notify_offer")),
    button({ text: say("turn_on"), kind: "small", act: on }),
    button({ text: say("no_thanks"), kind: "quiet small", act: end }));
  byId("composer").before(line);
}

/** Another chat is shown. */
export function enter() {
  hold();
  retitle();
}

/** @param {import("./page.js").Page} page */
export function begin(page) {
  go = page.show;
  const opened = Date.now() / 1000;
  if (navigator.locks) {
    const forever = new Promise(() => {});
    navigator.locks.request(LEADER, () => ((leads = true), forever)).catch(() => {});
  }
  const looked = () => {
    hold();
    retitle();
  };
  document.addEventListener("visibilitychange", looked);
  onState(looked);
  onChats((before) => {
    retitle();
    inform(before);
  });
  onEntry(({ head }) => {
    const long = head.kind === "answer" && head.state === "done" && head.ended - head.began > LONG_S;
    if (long && head.ended > opened && currentState() === "live") offer();
  });
}
