// The page: one stream of events from Rumi, and what each of them is for.

import { say } from "./dom.js";
import * as house from "./house.js";
import * as shelf from "./shelf.js";
import * as talk from "./talk.js";

const connection = document.getElementById("connection");
const notice = document.getElementById("notice");

function tell(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

function connected(state, text) {
  document.body.dataset.state = state; // what is shown may be old: the style sheet says so
  if (connection.textContent !== text) connection.textContent = text;
}

let events = null;

function listen() {
  events = new EventSource(`/events?chat=${encodeURIComponent(talk.at())}`);
  const own = events;
  const on = (name, what) => own.addEventListener(name, (event) => own === events && what(JSON.parse(event.data)));
  own.addEventListener("open", () => {
    connected("live", say("connected"));
    tell("");
    talk.open(true);
    talk.forget();
  });
  own.addEventListener("error", () => {
    if (own !== events) return;
    if (own.readyState === EventSource.CLOSED) look();
    else connected("lost", say("lost"));
  });
  on("begin", talk.begun);
  on("board", (shown) => {
    house.board(shown);
    talk.board(shown);
  });
  on("history", house.history);
  on("entry", talk.entry);
  on("more", talk.more);
  on("steps", talk.steps);
  on("over", () => {
    own.close();
    over();
  });
}

/** The stream was refused: because the session is over, or because Rumi cannot serve it now. */
async function look() {
  connected("lost", say("lost"));
  const refused = events;
  const answer = await fetch("/", { method: "HEAD" }).catch(() => null);
  if (answer && answer.status === 403) over();
  else setTimeout(() => events === refused && listen(), 2000);
}

/** Show a chat, and an entry of its history. */
function show(chat, id = 0, push = true) {
  if (push && chat !== talk.at()) history.pushState(null, "", `?chat=${encodeURIComponent(chat)}`);
  if (chat === talk.at() && events && events.readyState === EventSource.OPEN) {
    if (id) talk.find(id);
    return;
  }
  if (events) events.close();
  connected("connecting", say("connecting"));
  talk.enter(chat, id);
  shelf.at(chat);
  listen();
}

const wanted = () => new URLSearchParams(location.search).get("chat") || "cli";

function over() {
  connected("over", say("over"));
  talk.open(false);
  tell(say("over_text"));
}

document.getElementById("logout").addEventListener("click", async () => {
  await talk.post("/logout", {});
  location.assign("/");
});
addEventListener("popstate", () => show(wanted(), 0, false));
talk.begin(tell);
house.begin();
shelf.begin(show);
show(wanted(), 0, false);
