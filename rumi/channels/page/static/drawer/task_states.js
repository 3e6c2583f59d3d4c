// @ts-check
// What a task's or a bot's state shows, and what it has used, in words.

import { say } from "../dom.js";
import { count, language, money } from "./times.js";

/** @typedef {Record<string, any>} Task */

/** @type {Record<string, {dot: "" | "ok" | "warn" | "bad" | "work" | "ask" | "off", tone: "" | "ok" | "warn" | "bad" | "accent"}>} */
const MARKS = {
  queued: { dot: "off", tone: "" },
  running: { dot: "work", tone: "accent" },
  sleeping: { dot: "off", tone: "" },
  stopping: { dot: "work", tone: "" },
  succeeded: { dot: "ok", tone: "" },
  failed: { dot: "bad", tone: "bad" },
  out_of_budget: { dot: "warn", tone: "warn" },
  stopped: { dot: "off", tone: "" },
  interrupted: { dot: "warn", tone: "warn" },
};

/** The mark of a state.
 * @param {string} state
 */
export function marksOf(state) {
  return MARKS[state] ?? { dot: "off", tone: "" };
}

/** Whether a task in this state has not ended.
 * @param {string | null | undefined} state
 */
export function isOpen(state) {
  return ["queued", "running", "sleeping", "stopping"].includes(state ?? "");
}

/** Seconds that a task has taken until now; 0 if it has not begun.
 * @param {Task} task
 * @param {number} [now] in milliseconds
 */
export function secondsOf(task, now = Date.now()) {
  if (!task.started) return 0;
  return ((task.ended ? Date.parse(task.ended) : now) - Date.parse(task.started)) / 1000;
}

/** What has been used: calls, tokens and money.
 * @param {any} spent
 */
export function usedWords(spent) {
  const tokens = spent.prompt_tokens + spent.completion_tokens;
  return [
    spent.calls ? say(spent.calls === 1 ? "model_call" : "model_calls", { count: spent.calls }) : "",
    tokens ? say("count_tokens", { count: count(tokens, language()) }) : "",
    spent.usd ? money(spent.usd, language()) : "",
  ].filter(Boolean).join(" · ");
}
