// @ts-check
// The keys of the page, and the dialog that lists them.

import { make, say } from "../dom.js";
import { dialog } from "../ui.js";

const MAC = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "");

/**
 * What the keys do.
 * @typedef {{create: () => void, search: () => void, step: (step: 1 | -1) => void, focusMessage: () => void}} Deeds
 */

/**
 * Return what a press means; empty if nothing. Letters without Ctrl count only where nothing is typed.
 * @param {{key: string, code: string, ctrlKey: boolean, metaKey: boolean, shiftKey: boolean, altKey: boolean}} press
 * @param {{typing: boolean, text: string}} where whether the focus is in a field, and what stands there
 * @param {boolean} mac
 * @returns {"create" | "search" | "next" | "previous" | "keys" | ""}
 */
export function meaning(press, where, mac) {
  const ctrl = mac ? press.metaKey : press.ctrlKey;
  if (ctrl && press.shiftKey && !press.altKey && press.code === "KeyO") return "create";
  if (ctrl && !press.shiftKey && !press.altKey && press.key.toLowerCase() === "k") return "search";
  if (press.altKey && !press.ctrlKey && !press.metaKey && !press.shiftKey && !(mac && where.text)) {
    if (press.key === "ArrowDown") return "next";
    if (press.key === "ArrowUp") return "previous";
  }
  if (where.typing || press.ctrlKey || press.metaKey || press.altKey) return "";
  return press.key === "/" ? "search" : press.key === "?" ? "keys" : "";
}

/** @param {EventTarget | null} target */
function place(target) {
  const field = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement ? target : null;
  const typing = field !== null || target instanceof HTMLSelectElement || (target instanceof HTMLElement && target.isContentEditable);
  return { typing, text: field?.value ?? "" };
}

/** Show the keys. */
export function showKeys() {
  const ctrl = MAC ? "⌘" : "Ctrl";
  const alt = MAC ? "⌥" : "Alt";
  /** @type {[string, string[][]][]} */
  const keys = [
    ["key_new", [[ctrl, "Shift", "O"]]],
    ["key_search", [[ctrl, "K"], ["/"]]],
    ["key_next", [[alt, "↓"], [alt, "↑"]]],
    ["key_rename", [["F2"]]],
    ["key_send", [["Enter"]]],
    ["key_line", [["Shift", "Enter"]]],
    ["key_last", [["↑"]]],
    ["key_stop", [["Esc"]]],
    ["key_answer", [["Y"], ["N"]]],
    ["key_keys", [["?"]]],
  ];
  const rows = keys.flatMap(([name, ways]) => [
    make("dt", {}, say(name)),
    make("dd", {}, ...ways.map((way) => make("span", {}, ...way.map((key) => make("kbd", {}, key))))),
  ]);
  return dialog({ title: say("keys"), body: make("dl", { class: "keys" }, ...rows) });
}

/** @param {Deeds} deeds */
export function begin(deeds) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const what = meaning(event, place(event.target), MAC);
    if (!what) return;
    event.preventDefault();
    if (what === "create") deeds.create();
    else if (what === "search") deeds.search();
    else if (what === "keys") showKeys();
    else deeds.step(what === "next" ? 1 : -1);
  });
}
