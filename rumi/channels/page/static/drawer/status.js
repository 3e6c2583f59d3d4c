// @ts-check
// The state of the house: in words first, with everything an engineer asks for behind "details".

import { call } from "../connection.js";
import { age, arrange, clock, make, say, set, took } from "../dom.js";
import { nameOf } from "../side/store.js";
import { confirm, notice, skeleton, table, toast } from "../ui.js";
import { actions, attempt, facts } from "./acts.js";
import { bars } from "./charts.js";
import { section } from "./drawer.js";
import { findings, guides, isBad, paths, together } from "./house.js";
import { live } from "./live.js";

const MOST_TURNS = 20;

/** How a turn ended, in words.
 * @param {string} reason
 */
const ending = (reason) => say(`turn_${reason}`);

/** What a chat does now.
 * @param {any} chat
 */
function doing(chat) {
  if (chat.failed) return say("gave_up");
  if (chat.asks) return say("asks");
  const what = chat.tool || (chat.working ? say("working") : say("idle"));
  const since = chat.working ? age(chat.tool ? chat.tool_age : chat.age) : "";
  return [what, since, chat.queued ? say("queued", { count: chat.queued }) : ""].filter(Boolean).join(" · ");
}

/** How a calendar, a mailbox or the browser does.
 * @param {any} each
 */
function service(each) {
  const words = { ...each, time: each.used ? clock(Date.parse(each.used) / 1000) : "" };
  if (each.error) return say("service_failed", words);
  if (each.kind === "browser") return say(each.pages === 1 ? "browser_page" : "browser_pages", words);
  if (each.kind === "channel") return say("mail_channel_row", words);
  if (each.kind === "matrix") return say("matrix_row", words);
  return say(each.used ? `${each.kind}_used_at` : `${each.kind}_unused`, words);
}

/** The headline: "All well", or what is not in order and what to do. */
function headline() {
  const title = make("p", { class: "headline" });
  const about = make("p", { class: "hint" });
  const list = make("div", { class: "stack" });
  const element = make("div", { class: "stack", role: "status" }, title, about, list);
  let was = "";
  const update = (/** @type {any} */ board) => {
    const found = findings(board);
    set(title, "textContent", found.length ? say(found.length === 1 ? "status_one" : "status_many", { count: found.length }) : say("status_well"));
    set(title, "className", `headline ${found.some((each) => each.bad) ? "bad" : found.length ? "warn" : "ok"}`);
    const work = board.chats_at_work;
    set(about, "textContent", work ? say(work === 1 ? "status_works_one" : "status_works", { count: work }) : say("status_idle"));
    const is = JSON.stringify(found);
    if (is === was) return;
    was = is;
    list.replaceChildren(...found.map(({ name, values, bad }) => notice(
      make("div", {}, make("strong", {}, say(name, values)), make("p", {}, say(`${name}_todo`, values))),
      bad ? "bad" : "warn",
    )));
  };
  return { element, update };
}

/** Ask whether to stop everything, and stop it. */
async function stopAll() {
  let said = "";
  const act = () => attempt(async () => (said = await call("stop", "", { all: true })));
  if (await confirm({ title: say("stop_all_title"), text: say("stop_all_text"), action: say("stop_all"), danger: true, act })) toast(said);
}

/** @type {import("./drawer.js").Panel} */
export const panel = {
  title: () => say("status"),
  open: (body, signal) => {
    const head = headline();
    const about = make("div");
    const chats = table({
      label: say("chats_in_memory"),
      key: (row) => row.id,
      kind: (row) => (row.failed ? "bad" : ""),
      empty: say("no_chats"),
      columns: [
        { text: say("chat"), cell: (row) => nameOf(row.id) },
        { text: say("doing"), cell: (row) => ({ text: doing(row), class: "clip", title: row.failed || row.tool }) },
        { text: say("messages"), number: true, cell: (row) => row.history || "" },
      ],
    });
    const tree = table({
      label: say("tree"),
      key: (row) => row.path,
      kind: (row) => (isBad(row.state) ? "bad" : ""),
      columns: [
        { text: say("actor"), cell: (row) => ({ text: row.line + row.id, class: "actor" }) },
        { text: say("state"), cell: (row) => row.state },
        { text: say("restarts"), number: true, cell: (row) => row.restarts || "" },
        { text: say("mail"), number: true, cell: (row) => row.mail || "" },
        { text: say("doing"), cell: (row) => ({ text: row.doing || row.error, class: "clip", title: row.doing || row.error }) },
      ],
    });
    const turns = table({
      label: say("turns"),
      key: (row) => `${row.chat}/${row.turn}`,
      kind: (row) => (row.reason === "complete" ? "" : "bad"),
      empty: say("no_turns"),
      columns: [
        { text: say("chat"), cell: (row) => nameOf(row.chat) },
        { text: say("began"), cell: (row) => clock(row.began) },
        { text: say("took"), number: true, cell: (row) => took(row.seconds) },
        { text: say("tools"), number: true, cell: (row) => row.tools || "" },
        { text: say("tokens"), number: true, cell: (row) => row.tokens || "" },
        { text: say("reason"), cell: (row) => ending(row.reason) },
      ],
    });
    const times = make("figure", { class: "chart" });
    const restarts = make("figure", { class: "chart" });
    const restarted = make("ul", { class: "plain-list hint restarted" });
    const workers = make("ul", { class: "plain-list" });
    const workerSection = section(say("workers"), workers);
    const services = make("ul", { class: "plain-list" });
    const serviceSection = section(say("services"), services);
    const details = make(
      "details",
      { class: "engineer" },
      make("summary", {}, say("details")),
      make("div", { class: "stack" }, about, serviceSection, workerSection, section(say("turn_times"), times), section(say("restarts"), restarts, restarted), section(say("tree"), tree.element)),
    );
    const stop = actions([{ text: say("stop_all"), icon: "stop", kind: "danger", act: stopAll }]);
    const room = make("div", { class: "panel stack status-panel" }, head.element, stop, section(say("chats_in_memory"), chats.element), section(say("turns"), turns.element), details);
    const wait = skeleton();
    body.append(wait);

    /** @type {any} */
    let board = null;
    /** @type {any} */
    let history = null;
    const showAbout = () => {
      if (!board || !details.open) return;
      about.replaceChildren(facts([[say("program"), board.program], [say("model"), board.model], [say("sandbox"), board.engine], [say("running_since"), age(Date.now() / 1000 - board.started)]]));
    };
    const showCharts = () => history && details.open && charts(times, restarts, history);
    details.addEventListener("toggle", () => (showAbout(), showCharts()));
    const timer = setInterval(showAbout, 1000);
    addEventListener("resize", showCharts, { signal });
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    live(signal, {
      board: (now) => {
        board = now;
        if (!room.isConnected) arrange(body, [room]);
        head.update(now);
        chats.update(now.chats);
        const lines = guides(now.actors);
        const keys = paths(now.actors);
        tree.update(now.actors.map((/** @type {any} */ actor, /** @type {number} */ at) => ({ ...actor, line: lines[at], path: keys[at] })));
        serviceSection.hidden = !now.services.length;
        arrange(services, now.services.map((/** @type {any} */ each) => make("li", {}, service(each))));
        workerSection.hidden = !now.workers.length;
        arrange(workers, now.workers.map((/** @type {any} */ each) => make("li", {}, say(`worker_${each.state}`, each))));
        showAbout();
      },
      history: (shown) => {
        history = shown;
        turns.update([...shown.turns].reverse().slice(0, MOST_TURNS));
        restarted.replaceChildren(...together(shown.restarts).map(({ time, path, kind, times: count }) => make(
          "li", {}, make("time", {}, clock(time)), " ", make("code", {}, path.split("/").slice(1).join("/")), " ",
          say(kind === "restarted" ? "restarted" : "gave_up"), count > 1 ? ` ×${count}` : "",
        )));
        showCharts();
      },
    });
  },
};

/**
 * Draw both charts, as wide as there is room.
 * @param {HTMLElement} times
 * @param {HTMLElement} restarts
 * @param {any} history
 */
function charts(times, restarts, { turns, minutes }) {
  const seconds = turns.map((/** @type {any} */ turn) => turn.seconds).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
  const median = seconds[Math.floor(seconds.length / 2)];
  const words = { count: seconds.length, median: took(median), most: took(seconds[seconds.length - 1]) };
  bars(times, {
    label: seconds.length ? say(seconds.length === 1 ? "turn_in_all" : "turns_in_all", words) : say("no_turns"),
    values: turns.map((/** @type {any} */ turn) => ({
      value: turn.seconds,
      bad: turn.reason !== "complete",
      title: `${turn.chat} ${clock(turn.began)}: ${took(turn.seconds)}, ${ending(turn.reason)}`,
    })),
    ends: [say("older"), say("latest")],
    places: 60,
    unit: " s",
    legend: say("not_complete"),
  });
  const count = minutes.reduce((/** @type {number} */ sum, /** @type {number} */ each) => sum + each, 0);
  bars(restarts, {
    label: count ? say(count === 1 ? "restart_in_all" : "restarts_in_all", { count }) : say("no_restarts"),
    values: minutes.map((/** @type {number} */ value, /** @type {number} */ place) => ({ value, bad: true, title: `−${minutes.length - 1 - place} min: ${value}` })),
    ends: [`−${minutes.length} min`, say("now")],
    places: minutes.length,
    whole: true,
  });
}
