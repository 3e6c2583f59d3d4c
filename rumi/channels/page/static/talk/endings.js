// @ts-check
// How an answer has ended, in words, and what to do next.

/** @typedef {import("../types.js").Head} Head */

// What helps, by the reason of the end.
/** @type {Record<string, "" | "continue" | "retry">} */
const NEXT = {
  stopped: "retry", interrupted: "retry", model_error: "retry", crashed: "retry", budget: "continue",
  max_turns: "continue", timeout: "continue", repeated_call: "retry", consecutive_errors: "retry",
};

/**
 * Return the name of the text that says how a turn has ended, and what to do next; nothing if it is complete.
 * @param {string} reason
 * @returns {{text: string, next: "" | "continue" | "retry"}}
 */
export function ending(reason) {
  if (!reason || reason === "complete") return { text: "", next: "" };
  return reason in NEXT ? { text: `ended_${reason}`, next: NEXT[reason] } : { text: "ended_otherwise", next: "" };
}
