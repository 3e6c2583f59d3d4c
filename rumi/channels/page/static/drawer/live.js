// @ts-check
// Keeps an open panel up to date: the house's figures as they come, and lists that are asked for again.

import { on, watch } from "../connection.js";

const PAUSE_MS = 1000;

/** @typedef {"board" | "history"} Topic */
/** @typedef {Partial<Record<Topic, (message: any) => void>>} Handlers */

/** @type {Set<Handlers>} */
const listeners = new Set();
/** @type {Partial<Record<Topic, any>>} */
const latest = {};

for (const topic of /** @type {Topic[]} */ (["board", "history"])) {
  on(topic, (message) => {
    latest[topic] = message;
    for (const handlers of listeners) handlers[topic]?.(message);
  });
}

function settle() {
  watch([...new Set([...listeners].flatMap((handlers) => Object.keys(handlers)))]);
}

/**
 * Call the handlers with each board or history until `signal` is aborted; at once with what came last.
 * @param {AbortSignal} signal
 * @param {Handlers} handlers
 */
export function live(signal, handlers) {
  if (signal.aborted) return;
  listeners.add(handlers);
  settle();
  const end = () => {
    listeners.delete(handlers);
    settle();
  };
  signal.addEventListener("abort", end, { once: true });
  for (const topic of /** @type {Topic[]} */ (Object.keys(handlers))) {
    if (latest[topic]) handlers[topic]?.(latest[topic]);
  }
}

/**
 * Call `load` now, and again when something changes in the house, at most once in a second. Returns a function
 * that loads at once; a load that fails is told to `failed`.
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} load
 * @param {(error: unknown) => void} failed
 */
export function refreshed(signal, load, failed) {
  let timer = 0;
  let running = false;
  let again = false;
  const run = async () => {
    clearTimeout(timer);
    timer = 0;
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await load();
    } catch (error) {
      if (!signal.aborted) failed(error);
    } finally {
      running = false;
      if (again) soon();
      again = false;
    }
  };
  const soon = () => {
    if (!timer && !signal.aborted) timer = window.setTimeout(run, PAUSE_MS);
  };
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  const first = run();
  live(signal, { board: soon });
  return { first, now: run };
}
