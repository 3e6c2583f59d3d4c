// The house: chats, the tree of actors, turns and restarts.

import { age, clock, make, rows, say } from "./dom.js";
import { bars } from "./charts.js";

const body = (id) => document.querySelector(`#${id} tbody`);
let started = 0;

/** The tree and the chats, now. */
export function board(now) {
  started = now.started;
  about(now);
  document.getElementById("chats-line").textContent = say("chats_line", {
    work: now.chats_at_work,
    memory: now.chats_in_memory,
  });
  document.getElementById("no-chats").hidden = now.chats.length > 0;
  document.getElementById("chats").hidden = now.chats.length === 0;
  rows(body("chats"), now.chats.map(chat));
  rows(body("tree"), tree(now.actors));
}

function about(now) {
  const parts = [now.program, now.model, now.engine, say("up", { age: age(Date.now() / 1000 - started) })];
  const element = document.getElementById("about");
  const text = [...parts, ...now.degraded].filter(Boolean).join(" · ");
  if (element.textContent !== text) element.textContent = text;
}

function chat(row) {
  let phase = row.phase;
  if (row.failed) phase = say("limit");
  else if (row.asks) phase = say("asks");
  const since = row.working && row.age ? `, ${age(row.age)}` : "";
  return {
    key: row.id,
    kind: row.failed ? "bad" : row.working ? "busy" : "",
    cells: [
      { text: row.id, title: row.container },
      { text: phase ? phase + since : "–", title: row.failed },
      { text: row.tool ? `${row.tool}${row.tool_age ? `, ${age(row.tool_age)}` : ""}` : "", class: "clip", title: row.tool },
      { text: row.history, class: "number" },
    ],
  };
}

function tree(actors) {
  const path = [];
  return actors.map((actor, place) => {
    path.length = actor.depth;
    path.push(actor.id);
    const next = actors.slice(place + 1).find((other) => other.depth <= actor.depth);
    const last = !next || next.depth < actor.depth;
    const lead = actor.depth ? "\u2007\u2007".repeat(actor.depth - 1) + (last ? "└ " : "├ ") : "";
    const bad = !["running", "new", ""].includes(actor.state);
    return {
      key: path.join("/"),
      kind: bad ? "bad" : actor.doing ? "busy" : "",
      cells: [
        { text: lead + actor.id, class: "actor" },
        { text: actor.state, class: bad ? "state bad" : "state" },
        { text: actor.restarts || "", class: "number" },
        { text: actor.mail || "", class: "number" },
        { text: actor.doing || actor.error, class: actor.doing ? "clip" : "clip faint", title: actor.doing || actor.error },
      ],
    };
  });
}

/** Turns and restarts of late. */
export function history({ turns, restarts, minutes }) {
  document.getElementById("no-turns").hidden = turns.length > 0;
  document.getElementById("turns").hidden = turns.length === 0;
  rows(
    body("turns"),
    [...turns].reverse().slice(0, 20).map((turn) => ({
      key: `${turn.chat}/${turn.turn}`,
      kind: turn.reason === "complete" ? "" : "bad",
      cells: [
        { text: turn.chat },
        { text: clock(turn.began) },
        { text: turn.seconds.toFixed(1), class: "number" },
        { text: turn.tools || "", class: "number" },
        { text: turn.reason },
      ],
    })),
  );
  times(turns);
  const count = minutes.reduce((sum, each) => sum + each, 0);
  bars(document.getElementById("restarts"), {
    label: count ? say("restarts_in_all", { count }) : say("no_restarts"),
    values: minutes.map((value, place) => ({ value, bad: true, title: `−${minutes.length - 1 - place} min: ${value}` })),
    ends: [`−${minutes.length} min`, "0"],
    whole: true,
  });
  const list = [...restarts].reverse().slice(0, 5);
  document.getElementById("restarted").replaceChildren(
    ...list.map((each) =>
      make("li", {}, make("time", {}, clock(each.time)), " ", make("code", {}, each.path), " ",
        say(each.kind === "restarted" ? "restarted" : "limit")),
    ),
  );
}

function times(turns) {
  const seconds = turns.map((turn) => turn.seconds).sort((a, b) => a - b);
  const median = seconds[Math.floor(seconds.length / 2)];
  bars(document.getElementById("times"), {
    label: seconds.length
      ? say("turns_in_all", { count: seconds.length, median: median.toFixed(1), most: seconds[seconds.length - 1].toFixed(1) })
      : say("no_turns"),
    values: turns.map((turn) => ({
      value: turn.seconds,
      bad: turn.reason !== "complete",
      title: `${turn.chat} ${clock(turn.began)}: ${turn.seconds.toFixed(1)} s, ${turn.reason}`,
    })),
    ends: turns.length ? [clock(turns[0].began), clock(turns[turns.length - 1].began)] : ["", ""],
    places: 60,
  });
}
