// @ts-check
// Blocks of code and output: language, colours, wrapping, folding, and a button that copies.

import { make, say, set } from "../dom.js";
import { copies } from "../copy.js";
import { scrollable } from "./scrolling.js";

const RUN = /(?:([0-9a-z]+),)?([0-9a-z]+)([A-Z])/g;
const TALL_LINES = 24;
const AT_END = 24;

/** Whether long lines are wrapped: the reader's last choice holds for what comes after it. */
let wraps = false;

/**
 * Return the nodes of code with its syntax colours: runs such as `3K1,4F` of an optional gap and a comma, a
 * length, and a capital letter, which names the class. Lengths are in base 36.
 * @param {string} code
 * @param {string} colours
 * @returns {(Node | string)[]}
 */
export function coloured(code, colours) {
  /** @type {(Node | string)[]} */
  const nodes = [];
  let at = 0;
  for (const [start, end, name] of runsOf(colours)) {
    if (start > at) nodes.push(code.slice(at, start));
    nodes.push(make("span", { class: `c-${name}` }, code.slice(start, end)));
    at = end;
  }
  if (at < code.length) nodes.push(code.slice(at));
  return nodes;
}

/**
 * Return the runs as beginning, end, and class.
 * @param {string} colours
 * @returns {[number, number, string][]}
 */
export function runsOf(colours) {
  let at = 0;
  return [...colours.matchAll(RUN)].map(([, gap, length, name]) => {
    const start = at + (gap ? parseInt(gap, 36) : 0);
    at = start + parseInt(length, 36);
    return [start, at, name.toLowerCase()];
  });
}

/** A block of code. What is shown of it may grow: it follows its end unless the reader has scrolled it. */
export class CodeBlock {
  /** @param {string} language */
  constructor(language) {
    this.code = make("code");
    this.pre = make("pre", { dir: "ltr", class: wraps ? "wrapped" : null }, this.code);
    this.lang = make("span", { class: "lang" }, language || say("code_block"));
    this.tall = make("button", { type: "button", class: "quiet small", "aria-expanded": "false", hidden: true });
    this.wrap = make("button", { type: "button", class: "quiet small", "aria-pressed": String(wraps) }, say("wrap"));
    const bar = make("div", { class: "code-bar" }, this.lang, this.tall, this.wrap, copies(say("copy_code"), () => this.text));
    this.element = make("div", { class: "code" }, bar, this.pre);
    this.wrap.addEventListener("click", () => {
      wraps = this.pre.classList.toggle("wrapped");
      this.wrap.setAttribute("aria-pressed", String(wraps));
    });
    this.tall.addEventListener("click", () => {
      this.element.classList.toggle("whole");
      this.measure();
    });
    scrollable(this.pre, language || say("code_block"));
  }

  /** The code without its colours. */
  get text() {
    return this.code.textContent ?? "";
  }

  /** @param {(Node | string)[]} nodes */
  set(nodes) {
    const { scrollTop, scrollLeft } = this.pre;
    this.code.replaceChildren(...nodes);
    this.pre.scrollTop = scrollTop;
    this.pre.scrollLeft = scrollLeft;
    this.measure();
    return this;
  }

  /** @param {string} text */
  append(text) {
    const { pre, code } = this;
    const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < AT_END;
    if (code.lastChild instanceof Text) code.lastChild.appendData(text);
    else code.append(text);
    if (atEnd) pre.scrollTop = pre.scrollHeight;
    if (text.includes("\n")) this.measure();
  }

  measure() {
    const count = this.text.split("\n").length;
    const whole = this.element.classList.contains("whole");
    this.tall.hidden = count <= TALL_LINES;
    set(this.tall, "textContent", whole ? say("fold_code") : say("unfold_code", { count }));
    this.tall.setAttribute("aria-expanded", String(whole));
  }
}

/**
 * Return a block of code that does not grow.
 * @param {(Node | string)[]} nodes
 * @param {string} language
 */
export function codeBlock(nodes, language) {
  return new CodeBlock(language).set(nodes).element;
}
