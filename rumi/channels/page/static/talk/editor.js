// @ts-check
// Editing a message in its place: it is said again in a branch of the session, and the old version stays.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { busy, toast } from "../states.js";
import { lay } from "./entries.js";
import { follow } from "./follow.js";

/** @typedef {import("./entries.js").Known} Known */

/**
 * Open the editor in place of a message. Escape leaves it.
 * @param {Known} known
 * @param {string} text
 */
export function edit(known, text) {
  if (known.editor) return;
  const field = make("textarea", { "aria-label": say("edit_message"), rows: 2, dir: "auto" });
  field.value = text;
  const error = make("p", { class: "error", role: "alert" });
  const run = make("button", { type: "submit", class: "primary small" }, say("run_again"));
  const leave = make("button", { type: "button", class: "quiet small" }, say("cancel"));
  const hint = make("span", { class: "faint" }, say("old_version_stays"));
  const form = make("form", { class: "editor" }, field, error, make("div", { class: "row wrap" }, hint, make("span", { class: "space" }), leave, run));
  const close = () => {
    known.editor = null;
    lay(known);
    known.foot.querySelector("button")?.focus();
  };
  const submit = async () => {
    if (!field.value.trim()) return;
    try {
      const { note } = await busy(run, call("chats", "branch", { chat: currentChat(), message: known.head.number, text: field.value }));
      close();
      toast(note);
      follow();
    } catch (failure) {
      error.textContent = failure instanceof Error ? failure.message : String(failure);
    }
  };
  leave.addEventListener("click", close);
  form.addEventListener("submit", (event) => (event.preventDefault(), submit()));
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") close();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      submit();
    }
  });
  known.editor = form;
  lay(known);
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}
