// @ts-check
// Fields: a label, an input, a hint, and errors in words.

import { make, say } from "./dom.js";

/**
 * @typedef {object} FieldAbout
 * @property {string} name
 * @property {string} label
 * @property {"text" | "textarea" | "number" | "password" | "search" | "url" | "email" | "date" | "time"
 *   | "datetime-local" | "select" | "switch" | "checkbox"} [type]
 * @property {string | number | boolean} [value]
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {(string | {value: string, text: string})[]} [options] of a select
 * @property {number} [most] characters of a text; it is not cut, the error says how many there are
 * @property {number} [least] of a number
 * @property {number} [limit] of a number
 * @property {number | "any"} [step] of a number; 1 without
 * @property {string} [placeholder]
 * @property {number} [rows] of a textarea
 * @property {boolean} [disabled]
 * @property {(value: string) => string} [check] returns an error, or an empty text
 */

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {HTMLElement} row
 * @property {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} input
 * @property {() => any} value a text; a number or null for numbers; a boolean for switches
 * @property {() => boolean} valid shows the error if there is one
 * @property {(text: string) => void} error shows this error; an empty text removes it
 */

/**
 * Return what is wrong with a value: the name of a text, and its values; null if it is right.
 * @param {FieldAbout} about
 * @param {string} value
 * @returns {[string, Record<string, unknown>] | null}
 */
export function fault(about, value) {
  if (!value.trim()) return about.required ? ["field_missing", {}] : null;
  const characters = [...value].length;
  if (about.most !== undefined && characters > about.most) return ["field_long", { most: about.most, count: characters }];
  if (about.type === "number") {
    const number = Number(value);
    if (!Number.isFinite(number)) return ["field_number", {}];
    if (about.step !== "any" && !about.step && !Number.isInteger(number)) return ["field_whole", {}];
    if (about.least !== undefined && number < about.least) return ["field_least", { least: about.least }];
    if (about.limit !== undefined && number > about.limit) return ["field_limit", { limit: about.limit }];
  }
  if (about.type === "url" && !isAddress(value)) return ["field_url", {}];
  return null;
}

/** @param {string} value */
function isAddress(value) {
  try {
    return Boolean(new URL(value));
  } catch {
    return false;
  }
}

let count = 0;

/**
 * Return a row of a form.
 * @param {FieldAbout} about
 * @returns {Field}
 */
export function field(about) {
  const id = `field-${++count}`;
  const input = control(about, id);
  const toggle = input instanceof HTMLInputElement && input.type === "checkbox";
  const hint = make("p", { id: `${id}-hint` }, about.hint ?? "");
  const wrong = make("p", { class: "error", id: `${id}-error`, "aria-live": "polite" });
  const label = make("label", { for: id }, about.label);
  const row = make("div", { class: toggle ? "field line" : "field" }, label, input, ...(about.hint ? [hint] : []), wrong);
  if (about.hint) input.setAttribute("aria-describedby", hint.id);

  const error = (/** @type {string} */ text) => {
    if (wrong.textContent !== text) wrong.textContent = text;
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    const describes = [about.hint ? hint.id : "", text ? wrong.id : ""].filter(Boolean).join(" ");
    if (describes) input.setAttribute("aria-describedby", describes);
    else input.removeAttribute("aria-describedby");
  };
  const valid = () => {
    if (toggle) return true;
    // A number field gives an empty text for what is no number.
    const [word, values] = (input.validity.badInput ? ["field_number", {}] : fault(about, input.value)) ?? [];
    const text = typeof word === "string" ? say(word, values) : about.check?.(input.value) ?? "";
    error(text);
    return !text;
  };
  input.addEventListener("input", () => input.hasAttribute("aria-invalid") && valid());
  input.addEventListener("change", valid);
  const value = () => {
    if (toggle) return input.checked;
    if (about.type === "number") return input.value.trim() ? Number(input.value) : null;
    return input.value;
  };
  return { name: about.name, row, input, value, valid, error };
}

/**
 * @param {FieldAbout} about
 * @param {string} id
 */
function control(about, id) {
  const { type = "text", name, value = "", disabled, placeholder } = about;
  const common = { id, name, disabled, placeholder, "aria-required": about.required ? "true" : null };
  if (type === "select") {
    const options = (about.options ?? []).map((each) => (typeof each === "string" ? { value: each, text: each } : each));
    const chosen = (/** @type {string} */ each) => each === String(value);
    return make("select", common, ...options.map((each) => make("option", { value: each.value, selected: chosen(each.value) }, each.text)));
  }
  if (type === "textarea") {
    const area = make("textarea", { ...common, rows: about.rows ?? 4, dir: "auto" });
    area.value = String(value);
    return area;
  }
  if (type === "switch" || type === "checkbox") {
    return make("input", { ...common, type: "checkbox", role: type === "switch" ? "switch" : null, checked: value === true });
  }
  const numeric = type === "number" ? { min: about.least, max: about.limit, step: about.step ?? 1 } : {};
  const input = make("input", { ...common, ...numeric, type, autocomplete: "off", dir: type === "text" ? "auto" : null });
  input.value = String(value);
  return input;
}
