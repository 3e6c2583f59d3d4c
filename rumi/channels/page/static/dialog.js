// @ts-check
// Dialogs: a `<dialog>` keeps the focus inside; Escape, the cross and "Cancel" end it with null.

import { make, say } from "./dom.js";
import { field } from "./forms.js";
import { icon } from "./icons.js";
import { busy } from "./states.js";

/**
 * A button of a dialog. `value` is what the dialog returns. If `act` returns a text, the dialog shows it as an
 * error and stays open; it stays too if `act` returns false.
 * @typedef {object} Action
 * @property {string} text
 * @property {string} value
 * @property {"primary" | "danger" | "primary danger" | ""} [kind]
 * @property {() => void | string | false | Promise<void | string>} [act]
 */

const PRIMARY = /** @type {const} */ ("primary");
const PERILOUS = /** @type {const} */ ("primary danger");

let count = 0;

/**
 * Show a dialog, and return the chosen action's value, or null. The last action is the one that Enter chooses.
 * The focus starts on the first field, or on the first action.
 * @param {object} about
 * @param {string} about.title
 * @param {string | Node | Node[]} about.body
 * @param {Action[]} [about.actions] without any there is only the cross
 * @param {boolean} [about.wide]
 * @param {AbortSignal} [about.signal] closes the dialog
 * @returns {Promise<string | null>}
 */
export function dialog({ title, body, actions = [], wide = false, signal }) {
  const before = document.activeElement;
  const id = `dialog-${++count}`;
  const error = make("p", { class: "error", role: "alert" });
  const nodes = typeof body === "string" ? paragraphs(body) : [body].flat();
  const room = make("div", { class: "body stack", id: `${id}-body` }, ...nodes);
  const cross = make("button", { type: "button", class: "quiet icon-only", "aria-label": say("close") }, icon("cross"));
  const bar = make("div", { class: "actions" });
  const form = make(
    "form",
    { method: "dialog", novalidate: true },
    make("div", { class: "top" }, make("h2", { id }, title), cross),
    room,
    error,
    ...(actions.length ? [bar] : []),
  );
  const box = make("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": id }, form);
  if (typeof body === "string") box.setAttribute("aria-describedby", room.id);

  return new Promise((resolve) => {
    let working = false;
    /** @type {string | null} */
    let value = null;
    const choose = async (/** @type {Action} */ action, /** @type {HTMLButtonElement} */ button) => {
      if (working) return;
      working = true;
      error.textContent = "";
      try {
        const trouble = action.act ? await busy(button, Promise.resolve(action.act())) : "";
        if (trouble) error.textContent = trouble;
        if (trouble || trouble === false) return;
        value = action.value;
        box.close();
      } finally {
        working = false;
      }
    };
    for (const action of actions) {
      const last = action === actions[actions.length - 1];
      const button = make("button", { type: last ? "submit" : "button", class: action.kind || null }, action.text);
      if (last) form.addEventListener("submit", (event) => (event.preventDefault(), choose(action, button)));
      else button.addEventListener("click", () => choose(action, button));
      bar.append(button);
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    cross.addEventListener("click", () => box.close());
    box.addEventListener("keydown", (event) => event.stopPropagation()); // Escape stops no turn
    box.addEventListener("pointerdown", (event) => {
      if (event.target === box && !room.querySelector("input, textarea, select")) box.close(); // typed text is not lost
    });
    box.addEventListener("close", () => {
      box.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(value);
    });
    signal?.addEventListener("abort", () => box.close(), { once: true });
    document.body.append(box);
    box.showModal();
    if (room.scrollHeight > room.clientHeight) room.tabIndex = 0; // keys can scroll it
    const first = /** @type {HTMLElement | null} */ (room.querySelector("input, textarea, select"));
    (first ?? bar.querySelector("button") ?? cross).focus();
    if (first instanceof HTMLInputElement && first.type === "text") first.select();
  });
}

/** @param {string} text */
function paragraphs(text) {
  return text.split("\n\n").map((each) => make("p", {}, each));
}

/**
 * Ask whether to do something; true for yes. The focus starts on "Cancel".
 * @param {object} about
 * @param {string} about.title
 * @param {string | Node | Node[]} [about.text]
 * @param {string} about.action the name of what is done: "Delete", not "Yes"
 * @param {boolean} [about.danger]
 * @param {() => void | string | Promise<void | string>} [about.act] what "yes" does; a text is an error
 */
export async function confirm({ title, text = "", action, danger = false, act }) {
  const actions = [
    { text: say("cancel"), value: "" },
    { text: action, value: "yes", kind: danger ? PERILOUS : PRIMARY, act },
  ];
  return (await dialog({ title, body: text, actions })) === "yes";
}

/**
 * Ask for values by fields. Returns them by name, or null. `submit` does what they are for; a text that it
 * returns is shown as an error and the dialog stays.
 * @param {object} about
 * @param {string} about.title
 * @param {string} [about.text]
 * @param {(import("./forms.js").FieldAbout | Node)[]} about.fields
 * @param {string} about.action
 * @param {boolean} [about.wide]
 * @param {(values: Record<string, any>) => void | string | Promise<void | string>} [about.submit]
 * @returns {Promise<Record<string, any> | null>}
 */
export async function form({ title, text = "", fields, action, wide, submit }) {
  const shown = fields.map((each) => (each instanceof Node ? each : field(each)));
  const rows = shown.flatMap((each) => (each instanceof Node ? [] : [each]));
  const values = () => Object.fromEntries(rows.map((row) => [row.name, row.value()]));
  const act = () => {
    const wrong = rows.filter((row) => !row.valid());
    wrong[0]?.input.focus();
    return wrong.length ? false : submit?.(values());
  };
  const body = [...paragraphs(text), ...shown.map((each) => (each instanceof Node ? each : each.row))];
  const actions = [
    { text: say("cancel"), value: "" },
    { text: action, value: "yes", kind: PRIMARY, act },
  ];
  const done = await dialog({ title, body: text ? body : body.slice(1), actions, wide });
  return done === "yes" ? values() : null;
}

/**
 * Ask for one text; null if there is none.
 * @param {{title: string, action: string, submit?: (text: string) => void | string | Promise<void | string>}
 *   & Omit<import("./forms.js").FieldAbout, "name">} about
 * @returns {Promise<string | null>}
 */
export async function ask({ title, action, submit, ...about }) {
  const fields = [{ ...about, name: "text" }];
  const values = await form({ title, fields, action, submit: (given) => submit?.(given.text) });
  return values && values.text;
}
