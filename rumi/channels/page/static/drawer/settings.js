// @ts-check
// Settings: how the page looks here, and the safe settings of config.toml, in groups.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { choices } from "../side/browser.js";
import { button, field, notice, toast } from "../ui.js";
import { outcome } from "./acting.js";
import { inWords } from "./acts.js";
import { groups, wanted } from "./managed.js";

/** @typedef {import("./managed.js").Setting} Setting */

const GROUPS = /** @type {Record<string, string>} */ ({
  general: "group_general", chat: "group_chat", session: "group_session", agent: "group_agent", memory: "memory", undo: "group_undo",
  record: "group_record", skills: "skills", schedules: "schedules", bots: "bots", tasks: "group_tasks", voice: "group_voice",
  terminal: "group_terminal", budget: "group_budget",
});

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("settings"), open };

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const { place, act } = outcome();
  const room = make("div", { class: "groups" });
  const waits = make("div", {});
  body.append(make("div", { class: "panel settings stack" }, here(), waits, place, room));
  /** @type {Setting[]} */
  let all = [];

  /**
   * A setting has been stored: take over what counts now.
   * @param {Setting} now
   */
  function stored(now) {
    all = all.map((each) => (each.name === now.name ? now : each));
    waits.replaceChildren(...(all.some((each) => each.waits_for_start) ? [notice(say("settings_wait"))] : []));
  }

  await act(null, async () => {
    all = await call("settings", "list");
    if (signal.aborted) return;
    stored(all[0]);
    room.replaceChildren(...groups(all).map(([group, settings]) => make("details", { open: group === "general" },
      make("summary", {}, say(GROUPS[group] ?? "group_other")),
      make("div", { class: "stack" }, ...settings.map((setting) => settingRow(setting, stored))),
    )));
  });
}

/** What this browser alone knows. */
function here() {
  return make("section", { class: "stack" }, make("h3", {}, say("this_browser")), ...choices());
}

/**
 * A setting with its field; it is stored when the field is left.
 * @param {Setting} first
 * @param {(now: Setting) => void} stored
 */
function settingRow(first, stored) {
  let setting = first;
  const status = make("p", { class: "status faint", role: "status" });
  const reset = button({ text: say("setting_reset"), kind: "quiet small", act: () => store(undefined) });
  const row = field({
    name: setting.name,
    label: setting.about,
    ...kindOf(setting),
    value: setting.value ?? "",
    hint: setting.variable ? say("setting_variable", { variable: setting.variable }) : say("setting_default", { value: valueInWords(setting.default), name: setting.name }),
    disabled: !setting.changeable,
  });

  function show() {
    status.textContent = setting.waits_for_start ? say("setting_waits", { value: valueInWords(setting.running) }) : "";
    reset.hidden = !setting.set || !setting.changeable;
  }

  /** @param {string | number | boolean | undefined} value */
  async function store(value) {
    row.error("");
    try {
      const { name } = setting;
      setting = value === undefined ? await call("settings", "unset", { name }) : await call("settings", "set", { name, value });
      if (row.input instanceof HTMLInputElement && row.input.type === "checkbox") row.input.checked = setting.value;
      else row.input.value = String(setting.value ?? "");
      stored(setting);
      show();
      toast(say("saved"));
    } catch (error) {
      row.error(inWords(error));
    }
  }

  row.input.addEventListener("change", () => row.valid() && store(wanted(setting, row.value())));
  show();
  return make("div", { class: "setting" }, row.row, make("div", { class: "row wrap" }, status, reset));
}

/**
 * @param {Setting} setting
 * @returns {Partial<import("../forms.js").FieldAbout>}
 */
function kindOf(setting) {
  if (setting.name === "language") return { type: "select", options: setting.choices.map((value) => ({ value, text: languageName(value) })) };
  if (setting.type === "choice") return { type: "select", options: [...(setting.optional ? [{ value: "", text: say("setting_none") }] : []), ...setting.choices] };
  if (setting.type === "boolean") return { type: "switch" };
  if (setting.type === "text") return { type: "text" };
  return { type: "number", step: setting.type === "number" ? "any" : 1, least: setting.minimum ?? undefined, limit: setting.maximum ?? undefined };
}

/**
 * Return `español` for `es`; what is no language stays as it is.
 * @param {string} code
 */
function languageName(code) {
  if (!/^[a-z]{2}(_[A-Z]{2})?$/.test(code)) return code;
  const tag = code.replace("_", "-");
  return new Intl.DisplayNames([tag], { type: "language" }).of(tag) ?? code;
}

/** @param {any} value */
function valueInWords(value) {
  if (value === null || value === "") return say("setting_none");
  return typeof value === "boolean" ? say(value ? "yes" : "no") : String(value);
}
