// The shelf: the chats, what was said in them, their titles.

import { get, make, say } from "./dom.js";
import { post } from "./talk.js";

const shelf = document.getElementById("shelf");
const opener = document.getElementById("open-shelf");
const words = document.getElementById("words");
const list = document.getElementById("shelf-chats");
const found = document.getElementById("shelf-found");
const none = document.getElementById("shelf-none");
const title = document.getElementById("new-title");
const heading = document.getElementById("talk-title");

const PAUSE_MS = 250;
let chats = [];
let current = "";
let go = () => {};
let asked = 0;

/** This chat is shown from now on. */
export function at(chat) {
  current = chat;
  name();
  refresh();
}

function name() {
  const known = chats.find((each) => each.chat === current);
  heading.textContent = (known && known.title) || current;
  heading.title = current;
  if (document.activeElement !== title) title.value = (known && known.title) || "";
  document.title = `${heading.textContent} · ${say("title")}`;
}

/** Ask for the list of chats, and show it. */
async function refresh() {
  const answer = await get("/chats", {});
  if (!answer) return;
  chats = answer.chats;
  name();
  show();
}

function show() {
  const wanted = words.value.trim().toLowerCase();
  const fits = (each) => [each.chat, each.title, each.text].some((text) => text.toLowerCase().includes(wanted));
  list.replaceChildren(...chats.filter(fits).map((each) => {
    const about = each.title ? `${each.chat} · ${each.text}` : each.text;
    return entry(each.title || each.chat, about, each.chat === current, () => open(each.chat));
  }));
  none.hidden = !wanted || list.childElementCount + found.childElementCount > 0;
}

function entry(title, about, is, act) {
  const button = make("button", { type: "button" }, make("strong", {}, title), make("span", { class: "faint" }, about));
  if (is) button.setAttribute("aria-current", "true");
  button.addEventListener("click", act);
  return make("li", {}, button);
}

async function search() {
  const number = ++asked;
  const wanted = words.value.trim();
  const answer = wanted ? await get("/chats/found", { words: wanted }) : { found: [] };
  if (number !== asked || !answer) return; // a later one is on its way
  found.replaceChildren(...answer.found.map((each) => {
    const known = chats.find((chat) => chat.chat === each.chat);
    const when = new Date(each.at * 1000).toLocaleDateString(document.documentElement.lang);
    const about = `${when} · ${say(each.by)}: ${each.text}`;
    return entry((known && known.title) || each.chat, about, false, () => open(each.chat, each.id));
  }));
  show();
}

function open(chat, id = 0) {
  fold(false);
  words.value = "";
  found.replaceChildren();
  go(chat, id);
}

function fold(shown) {
  shelf.hidden = !shown;
  opener.setAttribute("aria-expanded", String(shown));
  if (shown) {
    refresh();
    words.focus();
  }
}

/** Listen to keys and buttons. `act` opens a chat, at an entry of it. */
export function begin(act) {
  go = act;
  opener.addEventListener("click", () => fold(shelf.hidden));
  shelf.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // it is no stop
    fold(false);
    opener.focus();
  });
  let pause = 0;
  words.addEventListener("input", () => {
    show();
    clearTimeout(pause);
    pause = setTimeout(search, PAUSE_MS);
  });
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  document.getElementById("rename").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await post("/chats/title", { title: title.value })) refresh();
  });
  document.getElementById("begin-chat").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = document.getElementById("new-chat");
    open(field.value);
    field.value = "";
  });
}
