// @ts-check
// The chats in groups by their date, as the side lists them.

/**
 * A chat as `chats.list` returns it.
 * @typedef {{chat: string, title: string, automatic: boolean, pinned: boolean, archived: boolean, at: string,
 *   number: number, text: string, by: string, unread: number, waiting: number, state: string}} Chat
 */
/** @typedef {{key: string, chats: Chat[], month?: Date}} Group */

const DAY_MS = 86_400_000;

/**
 * Return the chats in groups that are not empty: `pinned`, `today`, `yesterday`, `week`, then each month. Chats
 * keep their order within a group.
 * @param {Chat[]} chats
 * @param {Date} now
 * @returns {Group[]}
 */
export function grouped(chats, now) {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const chat of [...chats.filter((one) => one.pinned), ...chats.filter((one) => !one.pinned)]) {
    const at = new Date(chat.at);
    const day = new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
    const days = Math.round((today - day) / DAY_MS); // a day of the clock change has 23 or 25 hours
    const month = new Date(at.getFullYear(), at.getMonth(), 1);
    const recent = days < 1 ? "today" : days < 2 ? "yesterday" : days < 8 ? "week" : "";
    const key = chat.pinned ? "pinned" : recent || `${at.getFullYear()}-${at.getMonth() + 1}`;
    const group = groups.get(key) ?? { key, chats: [], ...(chat.pinned || recent ? {} : { month }) };
    group.chats.push(chat);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/**
 * Return the mark of a chat: a question is more urgent than work, and work than what is unread.
 * @param {Chat} chat
 * @param {boolean} seen whether a person looks at it now
 * @returns {"ask" | "work" | "unread" | ""}
 */
export function markOf(chat, seen) {
  if (chat.state === "asks" || chat.waiting > 0) return "ask";
  if (chat.state === "works") return "work";
  return chat.unread > 0 && !seen ? "unread" : "";
}

/**
 * Return a text in pieces, those with `found` being the searched words.
 * @param {string} text
 * @param {[number, number][]} marks beginnings and ends in units of UTF-16, in order
 */
export function pieces(text, marks) {
  /** @type {{text: string, found: boolean}[]} */
  const found = [];
  let place = 0;
  for (const [begin, end] of marks) {
    if (begin > place) found.push({ text: text.slice(place, begin), found: false });
    found.push({ text: text.slice(begin, end), found: true });
    place = end;
  }
  if (place < text.length) found.push({ text: text.slice(place), found: false });
  return found;
}

/**
 * Return the chat before or after the current one, in the order in which they are listed; null at the ends.
 * @param {string[]} order
 * @param {string} current
 * @param {1 | -1} step
 */
export function beside(order, current, step) {
  const at = order.indexOf(current);
  if (at < 0) return order.at(step > 0 ? 0 : -1) ?? null;
  return order[at + step] ?? null;
}
