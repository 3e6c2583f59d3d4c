// @ts-check
// Choices of this browser: colours and notifications. The settings panel and the side's menu show them.

import { say } from "../dom.js";
import { notifying, setShowsText, showsText, turn } from "../notify.js";
import { dialog } from "../ui.js";
import { field } from "../forms.js";
import { keep, kept } from "./kept.js";

/** @param {string} theme `light` or `dark`; empty follows the system */
function colour(theme) {
  keep("theme", theme);
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

/** Return the choices as rows of a form. Each takes effect at once. */
export function choices() {
  const themes = ["", "light", "dark"].map((value) => ({ value, text: say(`theme_${value || "system"}`) }));
  const theme = field({ name: "theme", label: say("theme"), type: "select", value: kept("theme"), options: themes });
  const state = notifying();
  const hints = /** @type {Record<string, string>} */ ({ unsupported: "notify_unsupported", denied: "notify_denied" });
  const on = field({
    name: "notify",
    label: say("notifications"),
    type: "switch",
    value: state === "on",
    disabled: state in hints,
    hint: say(hints[state] ?? "notify_hint"),
  });
  const text = field({ name: "notify-text", label: say("notify_text"), type: "switch", value: showsText(), disabled: state in hints });
  theme.input.addEventListener("change", () => colour(theme.value()));
  on.input.addEventListener("change", async () => {
    const now = await turn(on.value());
    /** @type {HTMLInputElement} */ (on.input).checked = now === "on";
    on.error(now === "denied" ? say("notify_denied") : "");
  });
  text.input.addEventListener("change", () => setShowsText(text.value()));
  return [theme.row, on.row, text.row];
}

/** Show the choices in a dialog. */
export function showChoices() {
  return dialog({ title: say("this_browser"), body: choices() });
}

/** Other windows of this browser follow a choice of colours. */
export function begin() {
  addEventListener("storage", (event) => {
    if (event.key === "rumi.theme") colour(event.newValue ?? "");
  });
}
