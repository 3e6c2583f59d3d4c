// @ts-check
// Drafts: for each chat the text and the files of its next message, kept by the browser over reloads.

/** @typedef {{path: string, name: string, size: number, pasted?: boolean}} Chosen */
/** @typedef {{text: string, files: Chosen[], at: number}} Draft */

const PREFIX = "rumi.draft.";
const MOST_DRAFTS = 60;

/** @type {(chat: string) => Draft} */
export function read(chat) {
  try {
    const found = JSON.parse(localStorage.getItem(PREFIX + chat) ?? "");
    if (typeof found.text === "string" && Array.isArray(found.files)) return found;
  } catch {
    // no draft, a spoilt one, or a browser that keeps nothing
  }
  return { text: "", files: [], at: 0 };
}

/**
 * Keep a draft; an empty one is forgotten.
 * @param {string} chat
 * @param {string} text
 * @param {Chosen[]} files
 */
export function write(chat, text, files) {
  const key = PREFIX + chat;
  try {
    if (text || files.length) store(key, JSON.stringify({ text, files, at: Date.now() }));
    else localStorage.removeItem(key);
  } catch {
    // a browser that keeps nothing: the draft stays in this window
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
function store(key, value) {
  const others = oldest().filter((each) => each !== key);
  for (const each of others.slice(0, Math.max(0, others.length + 1 - MOST_DRAFTS))) localStorage.removeItem(each);
  for (;;) {
    try {
      return localStorage.setItem(key, value);
    } catch (error) {
      const victim = oldest().find((each) => each !== key);
      if (victim === undefined) throw error;
      localStorage.removeItem(victim);
    }
  }
}

function oldest() {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  const at = new Map(keys.map((key) => [key, read(key.slice(PREFIX.length)).at]));
  return keys.sort((one, other) => (at.get(one) ?? 0) - (at.get(other) ?? 0));
}

/**
 * Call `listener` when another window has changed the draft of a chat.
 * @param {(chat: string) => void} listener
 */
export function onOther(listener) {
  addEventListener("storage", ({ key }) => {
    if (key?.startsWith(PREFIX)) listener(key.slice(PREFIX.length));
  });
}

/** Forget all drafts: the person logs out. */
export function forgetAll() {
  for (const key of oldest()) localStorage.removeItem(key);
}
