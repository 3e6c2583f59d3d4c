// @ts-check
// The conversation: its entries in their order, kept in step with what the server says.

import { currentChat, on, post } from "../connection.js";
import { arrange, byId, get, make, say, set } from "../dom.js";
import { foot } from "./actions.js";
import { arrived, follow, holding, listen as listenToScrolling, stay } from "./follow.js";
import { grouped } from "./groups.js";
import { label } from "./labels.js";
import { separate, unfold } from "./lines.js";
import { show } from "./parts.js";
import { charsOf, surplus } from "./surplus.js";

export { follow };

/** @typedef {import("../types.js").Head} Head */
/** @typedef {import("../types.js").Entry} Entry */
/** @typedef {import("../types.js").Part} Part */
/** @typedef {import("./parts.js").Shown} Shown */

/**
 * An entry that is shown. `label` stands above its parts and `foot` below; `line` and `fold` before the entry.
 * @typedef {{
 *   head: Head, element: HTMLElement, parts: Map<number, Shown>, order: number[], label: HTMLElement,
 *   foot: HTMLElement, footKey: string, editor: HTMLElement | null, groups: Map<number, HTMLDetailsElement>,
 *   line?: HTMLElement, fold?: HTMLElement, changed: () => void
 * }} Known
 */

const NEAR_START = 600;
const NEAR_BOTTOM = 80;
const MOST_PAGES = 200;

/** @type {Map<string, Known>} */
const entries = new Map();
/** @type {Set<number>} */
const acknowledged = new Set();
/** @type {((known: Known) => void)[]} */
const listeners = [];
/** @type {Shown | undefined} */
let growing;
let earlier = false;
/** @type {Promise<boolean> | null} */
let loading = null;
let laying = false;

const log = () => byId("log");
const list = () => byId("entries");

/**
 * Call `listener` with each entry that has changed.
 * @param {(known: Known) => void} listener
 */
export function onEntry(listener) {
  listeners.push(listener);
}

/** All entries, in their order. */
export function all() {
  return [...entries.values()].sort((one, other) => one.head.at - other.head.at);
}

/** @param {string} id */
export function entryOf(id) {
  return entries.get(id);
}

/** Whether a turn of this chat runs. */
export function working() {
  return [...entries.values()].some(({ head }) => head.state === "running");
}

/** Forget the entries: another chat is shown. */
export function clear() {
  entries.clear();
  acknowledged.clear();
  growing = undefined;
  loading = null;
  list().replaceChildren();
  follow();
}

/** @param {{ids: string[], earlier: boolean}} message */
function begin(message) {
  const first = Math.min(...message.ids.map((id) => entries.get(id)?.head.at ?? Infinity));
  const named = new Set(message.ids);
  for (const [id, { head }] of entries) {
    if (head.state !== "sending" && head.at >= first && !named.has(id)) remove(id);
  }
  if (!entries.size) earlier = message.earlier;
}

/** @param {string} id */
function remove(id) {
  entries.delete(id);
  order();
}

/** Put all entries and the lines between them in their order, once for all that comes together. */
function order() {
  if (laying) return;
  laying = true;
  queueMicrotask(() => {
    laying = false;
    const known = all();
    separate(known, list());
    known.forEach((entry, place) => {
      entry.element.classList.toggle("last", place === known.length - 1);
      footOf(entry);
    });
  });
}

/** Take away the oldest entries of a long conversation, unless the reader is further up. */
function shorten() {
  const element = log();
  if (element.scrollHeight - element.scrollTop - element.clientHeight > NEAR_BOTTOM) return;
  const known = all();
  for (const head of surplus(known.map(({ head }) => head), known.map(charsOf))) {
    remove(head.id);
    earlier = true; // the journal still has them
  }
}

/**
 * Show an entry with all its parts. What has not changed stays as it is.
 * @param {Entry} entry
 */
export function put(entry) {
  const { parts, ...head } = entry;
  const known = entries.get(head.id) ?? insert(head);
  known.order = parts.map((part) => part.n);
  for (const part of parts) putPart(known, part);
  putHead(known, head);
}

/**
 * @param {Head} head
 * @returns {Known}
 */
function insert(head) {
  const element = make("article", { id: `entry-${head.id}` });
  /** @type {Known} */
  const known = {
    head, element, parts: new Map(), order: [], label: make("header", { class: "entry-label" }), footKey: "",
    foot: make("footer", { class: "entry-foot" }), editor: null, groups: new Map(), changed: order,
  };
  entries.set(head.id, known);
  order();
  return known;
}

/**
 * @param {Known} known
 * @param {Head} head
 */
function putHead(known, head) {
  const was = known.head;
  const moved = /** @type {const} */ (["at", "replaced", "undone", "began", "session"]).some((name) => head[name] !== was[name]);
  known.head = head;
  if (moved || head.state === "done") order();
  const { element } = known;
  element.className = `entry ${head.kind} ${head.state}${element.classList.contains("last") ? " last" : ""}`;
  const first = known.parts.get(known.order[0] ?? -1)?.part;
  element.classList.toggle("command", head.kind === "you" && known.order.length === 1 && Boolean(first?.raw?.startsWith("/")));
  element.classList.toggle("undone", head.undone);
  element.classList.toggle("replaced", head.replaced);
  set(element, "ariaLabel", say(head.kind === "you" ? "you" : head.kind === "event" ? "event" : "assistant"));
  set(element, "ariaBusy", String(head.state === "running"));
  lay(known);
  arrived();
  acknowledge(head);
  for (const listener of listeners) listener(known);
}

/** @param {Known} known */
function footOf(known) {
  arrange(known.foot, foot(known, all()));
}

/**
 * Put the parts in their order, and the foot below them. While a message is edited, its editor stands for them.
 * @param {Known} known
 */
export function lay(known) {
  for (const n of known.parts.keys()) if (!known.order.includes(n)) known.parts.delete(n);
  const shown = known.order.flatMap((n) => known.parts.get(n) ?? []);
  footOf(known);
  const body = known.editor ? [known.editor] : grouped(known, shown);
  arrange(known.element, [...label(known), ...body, ...(known.editor ? [] : [known.foot])]);
}

/**
 * Tell the server that a person can read a reply; in a hidden window nobody can.
 * @param {Head} head
 */
function acknowledge({ delivery }) {
  if (!delivery || acknowledged.has(delivery) || document.visibilityState !== "visible") return;
  acknowledged.add(delivery);
  post("/chat/seen", { chat: currentChat(), delivery }).catch(() => acknowledged.delete(delivery));
}

/**
 * @param {Known} known
 * @param {Part} part
 */
function putPart(known, part) {
  const was = known.parts.get(part.n);
  if (was && part.kind !== "text" && JSON.stringify(was.part) === JSON.stringify(part)) return;
  if (was?.update(part)) {
    was.part = part;
    return;
  }
  const now = show(part, known.head);
  if (was?.element instanceof HTMLDetailsElement && was.element.open) now.element.setAttribute("open", "");
  if (!known.order.includes(part.n)) known.order.push(part.n);
  known.parts.set(part.n, now);
}

/** Load what was said before; return whether there was any. Calls at the same time have the same answer. */
export function loadEarlier() {
  if (loading) return loading;
  const mine = loadPage().finally(() => {
    if (loading === mine) loading = null;
  });
  return (loading = mine);
}

async function loadPage() {
  const first = all().find(({ head }) => head.number);
  if (!earlier || !first) return false;
  const chat = currentChat();
  const answer = await get("/chats/earlier", { chat, before: String(first.head.number) });
  if (!answer || chat !== currentChat()) return false;
  earlier = answer.earlier && answer.entries.length > 0;
  for (const entry of answer.entries) put(entry);
  holding(() => separate(all(), list()));
  return answer.entries.length > 0;
}

/**
 * Show an entry, however far back it is.
 * @param {string} id
 */
export async function find(id) {
  const number = Number(id.slice(1));
  for (let pages = 0; pages < MOST_PAGES && !entries.has(id); pages++) {
    const first = all().find(({ head }) => head.number);
    if (!first || (id[0] !== "r" && first.head.number <= number) || !(await loadEarlier())) break;
  }
  const known = entries.get(id);
  if (!known) return false;
  stay();
  unfold(all(), id);
  separate(all(), list());
  known.element.scrollIntoView({ block: "center" });
  known.element.tabIndex = -1;
  known.element.focus({ preventScroll: true });
  known.element.classList.add("found");
  setTimeout(() => known.element.classList.remove("found"), 4000);
  return true;
}

/** Load what was said before until the window is full: what does not scroll cannot be scrolled. */
async function fill() {
  while (log().scrollHeight <= log().clientHeight + NEAR_START && (await loadEarlier()));
}

/** Listen to the server and to the scroll bar. */
export function listen() {
  log().setAttribute("aria-live", "off"); // growing text is not read aloud; `speaking.js` says what is finished
  on("begin", begin);
  on("entry", ({ entry }) => put(entry));
  on("head", ({ type, order: numbers, ...head }) => {
    const known = entries.get(head.id);
    if (!known) return;
    known.order = numbers;
    putHead(known, head);
  });
  on("part", ({ id, part }) => {
    const known = entries.get(id);
    if (!known) return;
    putPart(known, part);
    lay(known);
    arrived();
    for (const listener of listeners) listener(known);
  });
  on("grow", ({ id, n }) => (growing = entries.get(id)?.parts.get(n)));
  on("+", (text) => (growing?.text?.append(text), arrived()));
  on("closed", ({ id, n, blocks }) => entries.get(id)?.parts.get(n)?.text?.close(blocks));
  on("tool", ({ id, n, type, ...shown }) => {
    const part = entries.get(id)?.parts.get(n);
    if (part) part.update((part.part = { ...part.part, ...shown }));
  });
  on("gone", ({ ids }) => ids.forEach(remove));
  document.addEventListener("visibilitychange", () => all().forEach(({ head }) => acknowledge(head)));
  on("mark", fill);
  on("mark", shorten);
  listenToScrolling(loadEarlier, NEAR_START);
}
