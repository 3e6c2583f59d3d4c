// @ts-check
// Messages that the server has not confirmed yet, kept by the browser over reloads.

/** @typedef {{chat: string, text: string, files: {path: string, name: string}[], nonce: number, began: number, asItIs: boolean}} Unsent */

const PREFIX = "rumi.unsent.";

/** @param {Unsent} message */
export function keep({ chat, text, files, nonce, began, asItIs }) {
  try {
    localStorage.setItem(PREFIX + nonce, JSON.stringify({ chat, text, files, nonce, began, asItIs }));
  } catch {
    // no room, or a browser that keeps nothing: the message stays in this window
  }
}

/** @param {number} nonce */
export function forget(nonce) {
  try {
    localStorage.removeItem(PREFIX + nonce);
  } catch {
    // it was not kept
  }
}

/**
 * Return all messages that are kept, oldest first.
 * @returns {Unsent[]}
 */
export function kept() {
  /** @type {Unsent[]} */
  const found = [];
  try {
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(PREFIX)) continue;
      const message = parsed(localStorage.getItem(key) ?? "");
      if (message && PREFIX + message.nonce === key) found.push(message);
      else localStorage.removeItem(key);
    }
  } catch {
    // a browser that keeps nothing
  }
  return found.sort((one, other) => one.began - other.began);
}

/** @param {string} text */
function parsed(text) {
  try {
    const found = JSON.parse(text);
    const fits = typeof found.chat === "string" && typeof found.text === "string" && Array.isArray(found.files);
    return fits && Number.isSafeInteger(found.nonce) ? /** @type {Unsent} */ (found) : null;
  } catch {
    return null;
  }
}

/**
 * Call `listener` with the nonce of a message that another window has sent or dropped.
 * @param {(nonce: number) => void} listener
 */
export function onGone(listener) {
  addEventListener("storage", ({ key, newValue }) => {
    if (key?.startsWith(PREFIX) && newValue === null) listener(Number(key.slice(PREFIX.length)));
  });
}
