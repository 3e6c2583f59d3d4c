// @ts-check
// Copy buttons: for a block of code or output, and for an answer.

import { make, say } from "./dom.js";

const SHOWN_MS = 1500;

/**
 * Put a text into the clipboard. It fails if the browser does not allow it.
 * @param {string} text
 */
export async function putClip(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without TLS, a page that another machine shows has no clipboard.
  const field = make("textarea", { class: "unseen", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("no clipboard");
}

/**
 * Return a button that copies what `text` returns.
 * @param {string} label
 * @param {() => string} text
 */
export function copies(label, text) {
  const button = make("button", { type: "button", class: "copy quiet small", "aria-label": label }, say("copy"));
  button.addEventListener("click", async () => {
    const done = await putClip(text()).then(() => true, () => false);
    button.textContent = say(done ? "copied" : "not_copied");
    button.setAttribute("aria-label", button.textContent);
    button.focus();
    setTimeout(() => {
      button.textContent = say("copy");
      button.setAttribute("aria-label", label);
    }, SHOWN_MS);
  });
  return button;
}

/**
 * Return a block of code or output with its button.
 * @param {HTMLElement} pre
 */
export function block(pre) {
  return make("div", { class: "block" }, pre, copies(say("copy_code"), () => pre.textContent ?? ""));
}
