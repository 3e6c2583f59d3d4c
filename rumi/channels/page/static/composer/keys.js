// @ts-check
// What keys and pastes mean in the composer. Nothing here touches the page.

/** A paste of more characters becomes a file. */
export const LONG_PASTE = 10_000;

/** Safari ends a composition before it reports the key that ended it: this soon after it, Enter is that key. */
const JUST_COMPOSED_MS = 30;

/**
 * Whether a key sends the message. Enter never does while an input method composes, and on touch keyboards it
 * begins a new line: they have no Shift-Enter.
 * @param {{key: string, shiftKey: boolean, ctrlKey: boolean, metaKey: boolean, altKey: boolean, isComposing: boolean, keyCode: number, timeStamp: number}} event
 * @param {{touch: boolean, composedAt: number}} about
 */
export function sends(event, { touch, composedAt }) {
  if (event.key !== "Enter" || event.shiftKey || event.altKey) return false;
  if (event.isComposing || event.keyCode === 229) return false;
  if (event.timeStamp - composedAt < JUST_COMPOSED_MS) return false;
  return !touch || event.ctrlKey || event.metaKey;
}

/**
 * What Escape does: the same as in the terminal. `closes` is the list of completions.
 * @param {{offering: boolean, working: boolean, empty: boolean, sinceLast: number}} about sinceLast in ms
 * @returns {"close" | "stop" | "edit" | ""}
 */
export function escapes({ offering, working, empty, sinceLast }) {
  if (offering) return "close";
  if (working) return "stop";
  return empty && sinceLast < 500 ? "edit" : "";
}

/**
 * Return the name for a pasted text, which differs from the names of the other files.
 * @param {string[]} taken
 */
export function pastedName(taken) {
  let number = 1;
  while (taken.includes(`pasted-${number}.txt`)) number += 1;
  return `pasted-${number}.txt`;
}

/** @typedef {{text: string, typed: string, label: string, hint?: string}} Offer */

/**
 * Return the commands and skills that begin with the text before the cursor, only in a message of one line;
 * by the same rule as the terminal. `whole` means that a whole command is typed: Enter sends it.
 * @param {string} before
 * @param {string} text
 * @param {[string, string][]} commands
 * @param {{name: string, description: string, text: string}[]} skills
 * @returns {{offers: Offer[], whole: boolean}}
 */
export function commandOffers(before, text, commands, skills) {
  if (!before.startsWith("/") || text.includes("\n")) return { offers: [], whole: false };
  const typed = before.toLowerCase();
  const offers = commands
    .filter(([name]) => name.startsWith(typed) && name !== before)
    .map(([name, does]) => ({ text: `${name} `, typed: before, label: name, hint: does }));
  for (const { name, description, text: asked } of skills) {
    if (name.toLowerCase().startsWith(typed.slice(1))) offers.push({ text: asked, typed: before, label: name, hint: description });
  }
  return { offers, whole: commands.some(([name]) => name === typed.trimEnd()) };
}

/**
 * Whether the text before the cursor may end in the mention of a file.
 * @param {string} before
 */
export function mentions(before) {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return /(?:^|[\s([{])@(?:"[^"]*|'[^']*|(?:\\.|[^\s\\])*)$/.test(line);
}
