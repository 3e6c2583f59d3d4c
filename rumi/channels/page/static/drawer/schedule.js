// @ts-check
// One schedule: its times, what it may do without asking, what waits for a yes; and a new one.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { ask, confirm, field, form, notice, toast } from "../ui.js";
import { actions, attempt, facts, failures, inWords } from "./acts.js";
import { waitingCall } from "./approval.js";
import { section } from "./drawer.js";
import { refreshed } from "./live.js";
import { rendered } from "./markdown.js";
import { deleted } from "./schedules.js";
import { language, moment } from "./times.js";

const PAUSE_MS = 350;

/** @returns {string} */
const zoneHere = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * Return what builds the page of a schedule.
 * @param {number} id
 * @param {import("./pages.js").Pages} pages
 * @returns {import("./pages.js").Build}
 */
export function oneSchedule(id, pages) {
  return async (root, signal) => {
    const below = failures();
    const room = make("div", { class: "stack" });
    root.append(below.element, room);
    let was = "";
    const update = refreshed(signal, async () => {
      const [schedule, waiting] = await Promise.all([call("schedules", "show", { id }), call("approvals", "list")]);
      const own = waiting.filter((/** @type {any} */ each) => each.schedule === id);
      const is = JSON.stringify([schedule, own]);
      if (signal.aborted || is === was) return; // a press that is under way keeps its button
      was = is;
      const allowed = schedule.allowed ? await rendered(schedule.allowed) : null;
      if (signal.aborted) return;
      const again = () => void update.now();
      room.replaceChildren(...parts(schedule, own, again, pages), ...(schedule.approval ? [approval(schedule, allowed, again)] : []));
    }, (error) => below.tell(inWords(error)));
    await update.first;
  };
}

/**
 * @param {any} schedule
 * @param {any[]} waiting
 * @param {() => void} changed
 * @param {import("./pages.js").Pages} pages
 */
function parts(schedule, waiting, changed, pages) {
  const { id, state } = schedule;
  const run = (/** @type {string} */ work, said = "") => async () => {
    await call("schedules", work, { id });
    if (said) toast(said);
    changed();
  };
  const edit = () => ask({
    title: say("schedule_edit"), label: say("schedule_text_label"), type: "textarea", value: schedule.text, required: true, action: say("save"),
    hint: schedule.approval ? say("schedule_edit_ends") : "",
    submit: (text) => attempt(() => call("schedules", "edit", { id, text })),
  }).then((text) => text !== null && changed());
  const remove = async () => (await deleted(schedule)) && pages.home("");
  const elsewhere = schedule.zone && schedule.zone !== zoneHere() ? schedule.zone : "";
  /** @type {Node[]} */
  const shown = [
    ...waiting.map((each) => waitingCall(each, changed)),
    make("p", { class: "said", dir: "auto" }, schedule.text),
    facts([
      [say("kind"), say(`schedule_${schedule.kind}`)],
      [say("state"), say(`schedule_${state}`) + (schedule.reason ? `: ${schedule.reason}` : "")],
      [say("when"), schedule.recurs || (state === "active" ? say("schedule_once") : schedule.when)],
      [say("next_run"), state === "active" ? moment(schedule.next_at, language()) : ""],
      [say("schedule_zone"), elsewhere],
      [say("last_run"), schedule.last || moment(schedule.fired, language())],
      [say("missed_runs"), schedule.missed || ""],
      [say("watches"), schedule.watched.map((/** @type {any} */ one) => one.title || one.what).join(", ")],
      [say("chat"), make("a", { href: `?chat=${encodeURIComponent(schedule.chat)}` }, schedule.chat)],
      [say("created"), moment(schedule.created, language())],
    ]),
    actions([
      { text: say("run_now"), icon: "retry", act: run("run", say("schedule_began")) },
      ...(state === "active" ? [{ text: say("pause"), icon: /** @type {const} */ ("pause"), act: run("pause") }] : []),
      ...(state === "paused" ? [{ text: say("resume"), icon: /** @type {const} */ ("play"), kind: "primary", act: run("resume") }] : []),
      { text: say("edit"), icon: "edit", act: edit },
      { text: say("delete"), icon: "trash", kind: "danger", act: remove },
    ]),
  ];
  if (!schedule.runs) shown.unshift(notice(say("schedules_not_running"), "warn"));
  return shown;
}

/**
 * What a schedule may do in all its runs without a question.
 * @param {any} schedule
 * @param {HTMLElement | null} allowed null if the approval has ended
 * @param {() => void} changed
 */
function approval(schedule, allowed, changed) {
  const revoke = async () => {
    const act = () => attempt(() => call("schedules", "revoke", { id: schedule.id }));
    const text = allowed?.cloneNode(true) ?? "";
    if (await confirm({ title: say("standing_revoke_sure"), text, action: say("standing_revoke"), danger: true, act })) changed();
  };
  return section(
    say("standing"),
    allowed ?? make("p", {}, say("standing_ended")),
    make("p", { class: "hint" }, say("standing_until", { time: moment(schedule.approval.until, language()) })),
    ...(allowed ? [actions([{ text: say("standing_revoke"), kind: "danger", act: revoke }])] : []),
  );
}

/** Ask for a new schedule and store it; true if there is one. The understood time is shown before it is stored. */
export async function newSchedule() {
  const when = field({ name: "when", label: say("schedule_when"), required: true, placeholder: say("schedule_when_example"), hint: say("schedule_when_hint") });
  const understood = make("p", { class: "understood", role: "status" });
  let known = "";
  let timer = 0;
  const understand = async () => {
    clearTimeout(timer);
    const said = when.value().trim();
    if (!said || said === known) return said === known;
    try {
      const time = await call("schedules", "understand", { when: said, zone: zoneHere() });
      if (said !== when.value().trim()) return false;
      const next = moment(time.next_at, language());
      understood.textContent = time.recurs ? say("schedule_understood_often", { recurs: time.recurs, next }) : say("schedule_understood", { next });
      when.error("");
      known = said;
      return true;
    } catch (error) {
      understood.textContent = "";
      known = "";
      when.error(inWords(error));
      return false;
    }
  };
  when.input.addEventListener("input", () => {
    clearTimeout(timer);
    if (when.value().trim() !== known) [known, understood.textContent] = ["", ""];
    timer = window.setTimeout(understand, PAUSE_MS);
  });
  const kinds = ["turn", "text", "research", "run"].map((kind) => ({ value: kind, text: say(`schedule_kind_${kind}`) }));
  const made = await form({
    title: say("schedule_new"),
    fields: [
      { name: "kind", label: say("schedule_kind"), type: "select", options: kinds, value: "turn" },
      { name: "text", label: say("schedule_text_label"), type: "textarea", rows: 3, required: true, placeholder: say("schedule_text_example") },
      when.row,
      understood,
      { name: "chat", label: say("schedule_chat"), value: currentChat(), hint: say("schedule_chat_hint") },
    ],
    action: say("schedule_store"),
    submit: async ({ kind, text, chat }) => {
      if (!when.valid()) return say("schedule_when_missing");
      if (known !== when.value().trim()) return (await understand()) ? say("schedule_look_at_time") : say("schedule_not_understood");
      return attempt(() => call("schedules", "add", { kind, text, when: known, chat, zone: zoneHere() }));
    },
  });
  if (made) toast(say("schedule_stored"));
  return Boolean(made);
}
