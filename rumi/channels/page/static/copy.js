// Copy buttons: for a block of code or output, and for an answer.

import { make, say } from "./dom.js";

const SHOWN_MS = 1500;

async function put(text) {
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

/** A button that copies what `text` returns. */
export function copies(label, text) {
  const button = make("button", { type: "button", class: "copy quiet", "aria-label": label }, say("copy"));
  button.addEventListener("click", async () => {
    const done = await put(text()).then(() => true, () => false);
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

/** A block of code or output with its button. */
export function block(pre) {
  return make("div", { class: "block" }, pre, copies(say("copy_code"), () => pre.textContent));
}
