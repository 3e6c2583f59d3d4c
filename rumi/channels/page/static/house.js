// The house: chats, the tree of actors, turns and restarts.

import { age, clock, make, rows, say, took } from "./dom.js";
import { bars } from "./charts.js";

const body = (id) => document.querySelector(`#${id} tbody`);
let now = null;
let late = null;

/** The tree and the chats, now. */
export function board(shown) {
  now = shown;
  about();
  const trouble = now.trouble ? [say(`storage_${now.trouble}`)] : [];
  document.getElementById("degraded").textContent = [...trouble, ...now.degraded].join(" · ");
  document.getElementById("workers").textContent = now.workers
    .map((each) => say(`worker_${each.state}`, each))
    .join(" · ");
  document.getElementById("chats-line").textContent = say("chats_line", {
    work: now.chats_at_work,
    memory: now.chats_in_memory,
  });
  document.getElementById("no-chats").hidden = now.chats.length > 0;
  document.getElementById("chats").hidden = now.chats.length === 0;
  rows(body("chats"), now.chats.map(chat));
  rows(body("spending"), spending(now.spending));
  rows(body("tree"), tree(now.actors));
  document.getElementById("bots-panel").hidden = now.bots.length === 0;
  rows(body("bots"), now.bots.map(bot));
  document.getElementById("schedules-panel").hidden = now.schedules.length === 0;
  document.getElementById("schedules-line").textContent = say("schedules_line", {
    active: now.schedules_active,
    paused: now.schedules_paused,
  });
  rows(body("schedules"), now.schedules.map(schedule));
}

/** A bot at work: where it is, and what it has used. */
function bot(row) {
  return {
    key: row.name,
    kind: row.state === "running" ? "busy" : "idle",
    cells: [
      { text: row.name },
      { text: say(`bot_${row.state}`) },
      { text: row.iterations, class: "number" },
      { text: `${say("model_calls", { count: row.calls })} · ${money(row.usd)}` },
      { text: row.step, class: "clip", title: row.step },
    ],
  };
}

/** A reminder or a schedule; its next time in the visitor's local time. */
function schedule(row) {
  const what = [row.text, (row.watched || []).join(", "), row.last].filter(Boolean);
  const next = row.next ? new Date(row.next * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "";
  return {
    key: String(row.id),
    kind: row.state === "paused" ? "bad" : "idle",
    cells: [
      { text: row.id, class: "number" },
      { text: say(`schedule_${row.kind}`) },
      { text: say(`schedule_${row.state}`) },
      { text: [row.when, next].filter(Boolean).join(" → "), class: "when", title: row.zone },
      { text: what.join(" · "), class: "clip", title: what.join("\n") },
    ],
  };
}

/** What model calls have used today and this month, and each budget. */
function spending({ today, month, budgets = [] }) {
  const sums = Object.entries({ today, month }).filter(([, sum]) => sum);
  return [
    ...sums.map(([name, sum]) => ({
      key: name,
      kind: "",
      cells: [
        { text: say(`spent_${name}`) },
        { text: `${say("model_calls", { count: sum.calls })} · ${sum.tokens.toLocaleString()} tokens · ${money(sum.usd)}` },
        { text: "" },
        { text: "" },
      ],
    })),
    ...budgets.map((each) => {
      const shown = each.budget.includes("_usd_") ? money : (value) => `${value.toLocaleString()} tokens`;
      const name = each.of === "total" ? each.budget : `${each.budget} · ${each.of}`;
      return {
        key: name,
        kind: each.share >= 1 ? "bad" : each.share >= 0.8 ? "busy" : "",
        cells: [
          { text: name },
          { text: `${shown(each.used)} / ${shown(each.limit + each.granted)}` },
          { text: Math.round(each.share * 100), class: "number" },
          { text: each.renews ? new Date(each.renews).toLocaleString() : "" },
        ],
      };
    }),
  ];
}

function money(usd) {
  return `${usd.toFixed(usd >= 1 ? 2 : 4)} USD`;
}

function about() {
  if (!now || document.body.dataset.state !== "live") return;
  const up = say("up", { age: age(Date.now() / 1000 - now.started) });
  document.getElementById("about").textContent = [now.program, now.model, now.engine, up].filter(Boolean).join(" · ");
}

function chat(row) {
  let doing = row.tool || row.phase || say("idle");
  if (row.failed) doing = say("gave_up");
  else if (row.asks) doing = say("asks");
  const inTool = row.tool && !row.asks && row.tool_age;
  return {
    key: row.id,
    kind: row.failed ? "bad" : row.working ? "busy" : "idle",
    cells: [
      { text: row.id, title: row.container },
      { text: (inTool ? `${doing} · ${age(row.tool_age)}` : doing) + (row.queued ? ` · ${say("queued", { count: row.queued })}` : ""), class: "clip", title: row.failed || row.tool },
      { text: row.working ? age(row.age) : "", class: "number" },
      { text: row.history || "", class: "number" },
    ],
  };
}

function tree(actors) {
  const path = [];
  const lines = guides(actors);
  return actors.map((actor, place) => {
    path.length = actor.depth;
    path.push(actor.id);
    const bad = !["running", "new", ""].includes(actor.state);
    const said = actor.doing || actor.error;
    return {
      key: path.join("/"),
      kind: bad ? "bad" : "",
      cells: [
        { text: lines[place] + actor.id, class: "actor" },
        { text: actor.state, class: actor.state ? "state" : "" },
        { text: actor.restarts || "", class: actor.restarts ? "number warm" : "number" },
        { text: actor.mail || "", class: "number" },
        { text: said, class: actor.doing ? "clip" : "clip faint", title: said },
      ],
    };
  });
}

/** The lines that join each row to its parent, made from below: a level goes on if somebody below is on it. */
function guides(actors) {
  const open = [];
  const lines = [];
  for (const { depth } of [...actors].reverse()) {
    let line = "";
    for (let level = 1; level < depth; level += 1) line += open[level] ? "│ " : "\u2007 ";
    if (depth) line += open[depth] ? "├ " : "└ ";
    open.length = depth + 1;
    open[depth] = true;
    lines.unshift(line);
  }
  return lines;
}

/** Turns and restarts of late. */
export function history(shown) {
  late = shown;
  const { turns, restarts, minutes } = shown;
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
        { text: took(turn.seconds), class: "number" },
        { text: turn.tools || "", class: "number" },
        { text: turn.tokens || "", class: "number" },
        { text: turn.reason },
      ],
    })),
  );
  charts();
  document.getElementById("restarted").replaceChildren(
    ...together(restarts).map(({ time, path, kind, times }) =>
      make("li", {}, make("time", {}, clock(time)), " ", make("code", {}, path.split("/").slice(1).join("/")), " ",
        say(kind === "restarted" ? "restarted" : "gave_up"), times > 1 ? ` ×${times}` : ""),
    ),
  );
}

/** The last few, newest first; what happened to the same actor again and again is one. */
function together(restarts) {
  const groups = [];
  for (const each of [...restarts].reverse()) {
    const last = groups[groups.length - 1];
    if (last && last.path === each.path && last.kind === each.kind) last.times += 1;
    else groups.push({ ...each, times: 1 });
  }
  return groups.slice(0, 3);
}

/** Both charts, as wide as there is room. */
function charts() {
  if (!late) return;
  const { turns, minutes } = late;
  const seconds = turns.map((turn) => turn.seconds).sort((a, b) => a - b);
  const median = seconds[Math.floor(seconds.length / 2)];
  bars(document.getElementById("times"), {
    label: seconds.length
      ? say(seconds.length === 1 ? "turn_in_all" : "turns_in_all", { count: seconds.length, median: took(median), most: took(seconds[seconds.length - 1]) })
      : say("no_turns"),
    values: turns.map((turn) => ({
      value: turn.seconds,
      bad: turn.reason !== "complete",
      title: `${turn.chat} ${clock(turn.began)}: ${took(turn.seconds)}, ${turn.reason}`,
    })),
    ends: [say("older"), say("latest")],
    places: 60,
    unit: " s",
    legend: say("not_complete"),
  });
  const count = minutes.reduce((sum, each) => sum + each, 0);
  bars(document.getElementById("restarts"), {
    label: count ? say(count === 1 ? "restart_in_all" : "restarts_in_all", { count }) : say("no_restarts"),
    values: minutes.map((value, place) => ({ value, bad: true, title: `−${minutes.length - 1 - place} min: ${value}` })),
    ends: [`−${minutes.length} min`, say("now")],
    places: minutes.length,
    whole: true,
  });
}

/** Keep what changes by itself as it is. */
export function begin() {
  setInterval(about, 1000);
  addEventListener("resize", charts);
}
