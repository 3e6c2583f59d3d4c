// @ts-check
// Tool calls of an answer, in one quiet column; a run of many that went well is folded to one line.

import { arrange, make, say, set, took } from "../dom.js";
import { icon } from "../icons.js";
import { doing } from "./tool.js";

/** @typedef {import("./parts.js").Shown} Shown */
/** @typedef {import("./entries.js").Known} Known */
/** @typedef {import("../types.js").Part} Part */

const MANY = 3;

/**
 * Return the parts as runs: calls that stand one after the other are one run, and so are at least three of them
 * that went well, which fold. Calls that show a file, failed or still run stay outside of a fold, and so do the
 * last calls of an answer that still grows.
 * @param {Part[]} parts
 * @param {boolean} done whether the answer has ended
 * @returns {{kind: "part" | "calls" | "fold", parts: Part[]}[]}
 */
export function runsOf(parts, done) {
  /** @type {{kind: "part" | "calls" | "fold", parts: Part[]}[]} */
  const runs = [];
  parts.forEach((part, place) => {
    if (part.kind !== "tool") {
      runs.push({ kind: "part", parts: [part] });
      return;
    }
    const behind = parts.slice(place).some((other) => other.kind !== "tool");
    const kind = part.state === "ok" && !part.shows?.length && (done || behind) ? "fold" : "calls";
    const last = runs[runs.length - 1];
    if (last?.kind === kind) last.parts.push(part);
    else runs.push({ kind, parts: [part] });
  });
  return runs.map((run) => (run.kind === "fold" && run.parts.length < MANY ? { ...run, kind: "calls" } : run));
}

/**
 * Return the nodes of the parts, with the calls in their columns and folds.
 * @param {Known} known
 * @param {Shown[]} shown
 * @returns {Node[]}
 */
export function grouped(known, shown) {
  const of = new Map(shown.map((one) => [one.part.n, one.element]));
  const nodes = runsOf(shown.map(({ part }) => part), known.head.state !== "running").map(({ kind, parts }) => {
    const elements = parts.map(({ n }) => /** @type {HTMLElement} */ (of.get(n)));
    if (kind === "part") return elements[0];
    // What a reader selects or has the focus in stays where it is.
    const held = kind === "fold" && !known.groups.has(parts[0].n) && elements.some(inUse);
    return kind === "fold" && !held ? foldOf(known, parts, elements) : columnOf(known, parts[0].n, elements);
  });
  return nodes;
}

/** @param {HTMLElement} element */
function inUse(element) {
  const selection = document.getSelection();
  return element.contains(document.activeElement) || (Boolean(selection && !selection.isCollapsed) && element.contains(selection?.anchorNode ?? null));
}

/**
 * @param {Known} known
 * @param {number} n
 * @param {HTMLElement[]} elements
 */
function columnOf(known, n, elements) {
  const own = elements[0].parentElement;
  const column = own?.classList.contains("calls") && own.parentElement === known.element && own.dataset.first === String(n)
    ? own : make("div", { class: "calls", "data-first": n });
  arrange(column, elements);
  return column;
}

/**
 * @param {Known} known
 * @param {Part[]} parts
 * @param {HTMLElement[]} elements
 */
function foldOf(known, parts, elements) {
  const [first] = parts;
  let fold = known.groups.get(first.n);
  if (!fold) {
    const words = [make("b"), make("span", { class: "faint" })];
    const summary = make("summary", {}, make("span", { class: "state", "data-state": "ok" }, icon("check")), make("span", { class: "call" }, ...words));
    fold = make("details", { class: "calls plain many" }, summary, make("div", { class: "calls" }));
    if (elements.some((element) => element.hasAttribute("open"))) fold.open = true;
    known.groups.set(first.n, fold);
  }
  const [title, about] = /** @type {HTMLElement[]} */ ([...(fold.querySelector(".call")?.children ?? [])]);
  const verbs = [...new Set(parts.map(({ name, title }) => doing(name, title)[0]))].map((verb) => say(verb || "do_other"));
  const ms = parts.reduce((sum, part) => sum + (part.ms ?? 0), 0);
  set(title, "textContent", say("steps_in_all", { count: parts.length }));
  set(about, "textContent", [verbs.join(", "), ...(ms >= 100 ? [took(ms / 1000)] : [])].join(" · "));
  arrange(/** @type {Element} */ (fold.lastElementChild), elements);
  return fold;
}
