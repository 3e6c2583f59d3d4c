// @ts-check
// What is new in the chats since they were read before: answers and questions that are worth a notification.

/** @typedef {import("./grouping.js").Chat} Chat */
/** @typedef {{chat: string, kind: "answer" | "question", number: number, title: string, text: string}} News */

/**
 * Return what has happened between two readings. A chat that was not known before is new as a whole, unless
 * nothing was read before: a window that opens brings no news.
 * @param {Map<string, Chat> | null} before
 * @param {Chat[]} now
 * @returns {News[]}
 */
export function newsOf(before, now) {
  if (!before) return [];
  return now.flatMap((chat) => {
    /** @type {News[]} */
    const found = [];
    const was = before.get(chat.chat);
    const about = { chat: chat.chat, number: chat.number, title: chat.title, text: chat.text };
    const asks = (/** @type {Chat | undefined} */ one) => one !== undefined && (one.state === "asks" || one.waiting > 0);
    if (asks(chat) && !asks(was)) found.push({ ...about, kind: "question" });
    else if (chat.unread > (was?.unread ?? 0)) found.push({ ...about, kind: "answer" });
    return found;
  });
}

/**
 * Return how many chats want to be looked at: they ask, or have something unread.
 * @param {Iterable<Chat>} chats
 * @param {string} seen the chat that a person looks at; empty if none
 */
export function wanting(chats, seen) {
  let count = 0;
  for (const chat of chats) {
    if (chat.chat !== seen && !chat.archived && (chat.state === "asks" || chat.waiting > 0 || chat.unread > 0)) count += 1;
  }
  return count;
}

/**
 * Return the title of the window: `(2) Invoices · Rumi`.
 * @param {string} title
 * @param {number} count
 * @param {string} program
 */
export function windowTitle(title, count, program) {
  return `${count ? `(${count}) ` : ""}${title && title !== program ? `${title} · ` : ""}${program}`;
}
