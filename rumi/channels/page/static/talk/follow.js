// @ts-check
// Where the reader is in the conversation: at its end, which then stays in view, or further up.

import { byId, make, say, set } from "../dom.js";
import { icon } from "../icons.js";
import { NEAR_END, stillFollows } from "./scrolling.js";


let follows = true;
let before = 0;
let news = false;

const log = () => byId("log");
const words = make("span", {});
const button = make("button", { type: "button", id: "to-end", class: "small", hidden: true }, icon("down"), words);

function left() {
  const element = log();
  return element.scrollHeight - element.scrollTop - element.clientHeight;
}

function toEnd() {
  log().scrollTop = log().scrollHeight;
}

function show() {
  button.hidden = follows || left() < NEAR_END;
  set(words, "textContent", news ? say("news_below") : say("to_the_end"));
  set(words, "className", news ? "" : "unseen");
  set(button, "title", say("to_the_end"));
}

/** Go to the end of the conversation, and follow it from now on. */
export function follow() {
  follows = true;
  news = false;
  toEnd();
  show();
}

/** Stay where the reader is, whatever comes at the end. */
export function stay() {
  follows = false;
  show();
}

/** Something new is at the end. */
export function arrived() {
  if (follows || news) return;
  news = true;
  show();
}

/**
 * Do something that changes what is above the reader: what is in view stays in view.
 * @param {() => void} work
 */
export function holding(work) {
  const element = log();
  const rest = element.scrollHeight - element.scrollTop;
  work();
  element.scrollTop = element.scrollHeight - rest;
  before = element.scrollTop;
}

/**
 * Keep the end in view as the conversation grows, and call `nearStart` when the reader comes near its beginning.
 * @param {() => void} nearStart
 * @param {number} near the distance, in pixels
 */
export function listen(nearStart, near) {
  byId("asks").before(make("div", { class: "to-end" }, button));
  button.addEventListener("click", () => {
    follow();
    log().focus({ preventScroll: true });
  });
  log().addEventListener("scroll", () => {
    const top = log().scrollTop;
    follows = stillFollows(follows, { top, was: before, left: left() });
    before = top;
    if (follows) news = false;
    show();
    if (top < near) nearStart();
  });
  const sizes = new ResizeObserver(() => {
    if (follows) toEnd();
    show();
  });
  for (const element of [log(), byId("entries"), byId("pending")]) sizes.observe(element);
}
