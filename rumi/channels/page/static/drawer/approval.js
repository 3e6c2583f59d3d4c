// @ts-check
// What waits for a yes in a panel: a parked call, a plan or a question, with every value in full.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { toast } from "../ui.js";
import { actions } from "./acts.js";

/**
 * Return a card with the whole question and its answers.
 * @param {any} waiting an entry of `approvals.list` with a number
 * @param {() => void} changed
 */
export function waitingCall(waiting, changed) {
  const { chat, number, bot, always } = waiting;
  const answer = (/** @type {boolean} */ yes, /** @type {boolean} */ forAll) => async () => {
    await call("approvals", "answer", { chat, number, bot: bot ?? "", yes, always: forAll });
    toast(say(yes ? "answered_yes" : "answered_no"));
    changed();
  };
  const scope = always ? [always.tool, always.host, ...always.addresses, ...always.to.map((/** @type {string[]} */ pair) => pair.join(" "))] : [];
  const covers = [...scope.filter(Boolean), ...(always ? [say("always_bounds", { per_run: always.per_run, days: always.days })] : [])];
  return make(
    "div",
    { class: "asks", role: "group", "aria-label": say("waits_for_yes") },
    make("p", { class: "title" }, say("waits_for_yes")),
    make("p", { class: "whole", dir: "auto", tabindex: "0" }, waiting.whole),
    ...(always ? [make("details", {}, make("summary", {}, say("always_covers")), make("p", { class: "whole" }, covers.join("\n")))] : []),
    actions([
      { text: say("allow_once"), kind: "primary", act: answer(true, false) },
      ...(always ? [{ text: say("allow_always"), act: answer(true, true) }] : []),
      { text: say("deny"), act: answer(false, false) },
    ]),
  );
}
