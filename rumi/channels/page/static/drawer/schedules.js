// @ts-check
// Schedules: what Rumi does at set times. The list, and what one can do with each.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { nameOf } from "../side/store.js";
import { button, confirm, empty, list, toast } from "../ui.js";
import { attempt, failures, inWords } from "./acts.js";
import { refreshed } from "./live.js";
import { openPages } from "./pages.js";
import { newSchedule, oneSchedule } from "./schedule.js";
import { language, moment } from "./times.js";

/** @typedef {Record<string, any>} Schedule */

/** Order of the list: what waits for a person, what runs next, what is paused, what is over. */
const RANK = /** @type {Record<string, number>} */ ({ asks: 0, active: 1, paused: 2, done: 3 });

/**
 * Return a schedule's state: as it is stored, or `asks` if one of its calls waits for a yes.
 * @param {Schedule} schedule
 * @param {Record<string, any>[]} waiting
 */
export function stateOf(schedule, waiting) {
  return waiting.some((each) => each.schedule === schedule.id) ? "asks" : schedule.state;
}

/**
 * Return schedules in the order in which they are listed.
 * @param {Schedule[]} schedules
 * @param {Record<string, any>[]} waiting
 */
export function inOrder(schedules, waiting) {
  const key = (/** @type {Schedule} */ each) => [RANK[stateOf(each, waiting)] ?? 4, each.next_at ? Date.parse(each.next_at) : Infinity, -each.id];
  return [...schedules].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    const place = a.findIndex((value, index) => value !== b[index]);
    return place < 0 ? 0 : a[place] - b[place];
  });
}

/** What a state shows beside the title. */
const MARKS = /** @type {Record<string, {dot: any, tone: any}>} */ ({
  asks: { dot: "ask", tone: "accent" },
  active: { dot: "ok", tone: "" },
  paused: { dot: "warn", tone: "warn" },
  done: { dot: "off", tone: "" },
});

/**
 * @param {Schedule} schedule
 * @param {string} state
 */
function lineOf(schedule, state) {
  const next = schedule.state === "active" ? say("schedule_next", { time: moment(schedule.next_at, language()) }) : "";
  const chat = schedule.chat === currentChat() ? "" : say("in_chat", { chat: nameOf(schedule.chat) });
  return [say(`schedule_${schedule.kind}`), schedule.recurs, next, state === "done" ? schedule.when : "", schedule.last, chat]
    .filter(Boolean).join(" · ");
}

/**
 * Ask whether to delete a schedule, and delete it.
 * @param {Schedule} schedule
 */
export async function deleted(schedule) {
  const done = await confirm({
    title: say("schedule_delete_sure"),
    text: schedule.text.slice(0, 400),
    action: say("delete"),
    danger: true,
    act: () => attempt(() => call("schedules", "delete", { id: schedule.id })),
  });
  if (done) toast(say("schedule_deleted"));
  return done;
}

/** @type {import("./drawer.js").Panel} */
export const panel = {
  title: () => say("schedules"),
  open: async (body, signal, about) => {
    const pages = openPages(body, signal, async (pages, root, own) => {
      const below = failures();
      const begin = async () => (await newSchedule()) && update.now();
      const shown = list({ label: say("schedules"), empty: empty(say("schedules_empty"), { text: say("schedule_new"), act: begin }, "clock") });
      const add = button({ text: say("schedule_new"), icon: "plus", kind: "primary", act: begin });
      const head = make("div", { class: "panel-head" }, make("p", { class: "hint" }, say("schedules_about")), add);
      root.append(head, below.element, shown.element);
      const act = (/** @type {() => Promise<unknown>} */ work) => async () => {
        await below.during(work);
        await update.now();
      };
      const update = refreshed(own, async () => {
        const [schedules, waiting] = await Promise.all([call("schedules", "list"), call("approvals", "list")]);
        if (own.aborted) return;
        head.hidden = !schedules.length;
        shown.update(inOrder(schedules, waiting).map((schedule) => {
          const state = stateOf(schedule, waiting);
          const { id } = schedule;
          return {
            key: String(id),
            title: schedule.text.slice(0, 160),
            meta: lineOf(schedule, state),
            ...MARKS[state],
            ...(state === "active" && schedule.outcome?.how === "failed" ? { dot: /** @type {const} */ ("bad") } : {}),
            state: say(`schedule_${state}`),
            badge: state === "active" ? "" : say(`schedule_${state}`),
            act: () => pages.open(String(id), schedule.text.slice(0, 160), oneSchedule(id, pages)),
            menu: () => [
              ...(schedule.state === "active" ? [{ text: say("pause"), icon: /** @type {const} */ ("pause"), act: act(() => call("schedules", "pause", { id })) }] : []),
              ...(schedule.state === "paused" ? [{ text: say("resume"), icon: /** @type {const} */ ("play"), act: act(() => call("schedules", "resume", { id })) }] : []),
              { text: say("run_now"), icon: /** @type {const} */ ("retry"), act: act(async () => (await call("schedules", "run", { id }), toast(say("schedule_began")))) },
              "line",
              { text: say("delete"), icon: /** @type {const} */ ("trash"), danger: true, act: act(() => deleted(schedule)) },
            ],
          };
        }));
      }, (error) => below.tell(inWords(error)));
      await update.first;
    });
    if (about.id) pages.open(String(about.id), say("schedule_number", { number: about.id }), oneSchedule(about.id, pages));
    await pages.ready;
  },
};
