// @ts-check
// The connection to Rumi: one socket for this window, and the requests that a person makes.

import { say } from "./dom.js";

/** A socket that brings nothing for this long is taken for dead. The server says something every 10 s. */
const SILENCE_MS = 25_000;
const REQUEST_MS = 25_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

/** @typedef {"connecting" | "live" | "lost" | "over"} State */
/** @typedef {(message: any) => void} Handler */

/** @type {Map<string, Handler[]>} */
const handlers = new Map();
/** @type {((state: State) => void)[]} */
const listeners = [];
/** @type {WebSocket | null} */
let socket = null;
let chat = "";
let epoch = "";
let mark = 0;
/** The text part that grows. */
let growing = { id: "", n: 0 };
/** @type {string[]} */
let topics = [];
/** @type {Set<string>} */
const glanced = new Set();
let watchdog = 0;
let retry = 0;
let pause = FIRST_RETRY_MS;
/** @type {State} */
let state = "connecting";

/**
 * Call `handler` for each message of a type. The type `+` is more text for the part that grows, `closed` are the
 * blocks of it that have closed.
 * @param {string} type
 * @param {Handler} handler
 */
export function on(type, handler) {
  handlers.set(type, [...(handlers.get(type) ?? []), handler]);
}

/**
 * Call `listener` whenever the state of the connection changes.
 * @param {(state: State) => void} listener
 */
export function onState(listener) {
  listeners.push(listener);
}

/** The chat of this window. */
export function currentChat() {
  return chat;
}

/** The state of the connection. */
export function currentState() {
  return state;
}

/**
 * Connect this window to a chat.
 * @param {string} id
 */
export function enter(id) {
  chat = id;
  epoch = "";
  mark = 0;
  become("connecting");
  open();
}

/**
 * Get these topics from now on, and no others: `board`, `history`.
 * @param {string[]} wanted
 */
export function watch(wanted) {
  topics = wanted;
  tellTopics();
}

/**
 * Get a topic once.
 * @param {string} topic
 */
export function glance(topic) {
  if (topics.includes(topic) || glanced.has(topic)) return;
  glanced.add(topic);
  tellTopics();
}

function tellTopics() {
  const message = { type: "watch", topics: [...new Set([...topics, ...glanced])] };
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** @param {State} now */
function become(now) {
  if (state === now) return;
  state = now;
  for (const listener of listeners) listener(now);
}

function open() {
  clearTimeout(retry);
  clearTimeout(watchdog);
  socket?.close();
  const address = new URL(`/socket?${new URLSearchParams({ chat })}`, location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const own = new WebSocket(address);
  socket = own;
  glanced.clear();
  alive();
  own.addEventListener("open", () => {
    if (own !== socket) return;
    own.send(JSON.stringify({ type: "resume", epoch, mark }));
    if (topics.length) own.send(JSON.stringify({ type: "watch", topics }));
  });
  own.addEventListener("message", (event) => {
    if (own !== socket) return;
    alive();
    hear(String(event.data));
  });
  own.addEventListener("close", () => {
    if (own === socket) lost();
  });
}

/** The server has said something: wait for the next. */
function alive() {
  clearTimeout(watchdog);
  const own = socket;
  watchdog = window.setTimeout(() => own === socket && lost(), SILENCE_MS);
}

async function lost() {
  clearTimeout(watchdog);
  const dead = socket;
  socket = null;
  dead?.close();
  if (state === "over") return;
  become("lost");
  clearTimeout(retry);
  retry = window.setTimeout(async () => {
    // A refused socket has no words: the page says whether the session is over.
    const answer = await fetch("/", { method: "HEAD", signal: within(REQUEST_MS) }).catch(() => null);
    if (socket) return;
    if (answer?.status === 403) become("over");
    else if (answer?.ok) open();
    else lost();
  }, pause);
  pause = Math.min(LONGEST_RETRY_MS, pause * 2);
}

/** @param {string} text */
function hear(text) {
  if (text.startsWith("+")) return tell("+", text.slice(1));
  if (text.startsWith("[")) return tell("closed", { ...growing, blocks: JSON.parse(text) });
  const message = JSON.parse(text);
  if (message.type === "grow") growing = { id: message.id, n: message.n };
  if (message.type === "begin") {
    pause = FIRST_RETRY_MS;
    if (message.epoch !== epoch) mark = 0;
    epoch = message.epoch;
    become("live");
  }
  if (message.type === "mark") mark = message.mark;
  if (glanced.delete(message.type)) tellTopics();
  if (message.type === "over") {
    become("over");
    socket?.close();
  }
  tell(message.type, message);
}

/**
 * @param {string} type
 * @param {any} message
 */
function tell(type, message) {
  for (const handler of handlers.get(type) ?? []) handler(message);
}

/** Try again at once: the network is back, or the window is shown again. */
export function retryNow() {
  if (state !== "lost" || socket) return;
  pause = FIRST_RETRY_MS;
  clearTimeout(retry);
  open();
}

/**
 * Return a signal that ends a request after some time.
 * @param {number} ms
 */
function within(ms) {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), ms);
  return controller.signal;
}

/** A request that failed: `lost` means that the server did not answer, so it may have been carried out. */
export class RequestError extends Error {
  /**
   * @param {string} message
   * @param {{advice?: string, status?: number, lost?: boolean, unclear?: boolean}} [about]
   */
  constructor(message, about = {}) {
    super(message);
    this.advice = about.advice ?? "";
    this.status = about.status ?? 0;
    this.lost = about.lost ?? false;
    this.unclear = about.unclear ?? false; // it can be sent as it is, if the person says so
  }
}

/**
 * Send something to the server; return its answer.
 * @param {string} path
 * @param {Record<string, unknown>} fields
 * @returns {Promise<any>}
 */
export async function post(path, fields) {
  const request = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(fields),
    signal: within(REQUEST_MS),
  };
  const answer = await fetch(path, request).catch(() => null);
  if (!answer) throw new RequestError(say("lost"), { lost: true });
  if (answer.status === 204) return {};
  if (answer.status === 403) {
    become("over");
    throw new RequestError(say("over_text"), { status: 403 });
  }
  const said = await answer.json().catch(() => ({ error: say("lost") }));
  if (!answer.ok) throw new RequestError(said.error, { status: answer.status, unclear: said.unclear === true });
  return said;
}

/**
 * Make a control call, such as `call("schedules", "pause", {id: 3})`; return its result.
 * @param {string} name
 * @param {string} [work]
 * @param {Record<string, unknown>} [fields]
 * @returns {Promise<any>}
 */
export async function call(name, work = "", fields = {}) {
  const answer = await post("/call", { ...fields, call: name, ...(work ? { do: work } : {}) });
  if (!answer.ok) throw new RequestError(answer.error, { advice: answer.advice });
  return answer.result;
}

addEventListener("online", retryNow);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && retryNow());
