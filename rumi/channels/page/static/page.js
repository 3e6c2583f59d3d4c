// The page: one stream of events from Rumi, and what each of them is for.

import { say } from "./dom.js";
import * as house from "./house.js";
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

function listen() {
  const events = new EventSource("/events");
  const on = (name, what) => events.addEventListener(name, (event) => what(JSON.parse(event.data)));
  events.addEventListener("open", () => {
    connected("live", say("connected"));
    tell("");
    talk.open(true);
    talk.forget();
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) look();
    else connected("lost", say("lost"));
  });
  on("board", house.board);
  on("history", house.history);
  on("entry", talk.entry);
  on("more", talk.more);
  on("over", () => {
    events.close();
    over();
  });
}

/** The stream was refused: because the session is over, or because Rumi cannot serve it now. */
async function look() {
  connected("lost", say("lost"));
  const answer = await fetch("/", { method: "HEAD" }).catch(() => null);
  if (answer && answer.status === 403) over();
  else setTimeout(listen, 2000);
}

function over() {
  connected("over", say("over"));
  talk.open(false);
  tell(say("over_text"));
}

document.getElementById("logout").addEventListener("click", async () => {
  await talk.post("/logout", {});
  location.assign("/");
});
talk.begin(tell);
house.begin();
listen();
