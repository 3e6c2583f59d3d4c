// @ts-check
// The page's icons: strokes in a square of 16, drawn in the colour of the text beside them.

import { draw } from "./dom.js";

const PATHS = {
  archive: "M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 8.5h3",
  attach: "M13 7.5 8 12.4a3 3 0 0 1-4.3-4.2L9 2.9a2 2 0 0 1 2.9 2.8L6.7 10.9a1 1 0 0 1-1.4-1.4L9.8 5",
  back: "M13 8H3M7 4 3 8l4 4",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1H3zM6.8 14h2.4",
  bot: "M3 6h10v7H3zM8 6V3M6.2 9v.8M9.8 9v.8M1.5 9v2M14.5 9v2",
  branch: "M4.5 5v6M4.5 8.5h4a3 3 0 0 0 3-3M4.5 2.5a1.2 1.2 0 1 1 0 2.5 1.2 1.2 0 0 1 0-2.5zM4.5 11a1.2 1.2 0 1 1 0 2.5 1.2 1.2 0 0 1 0-2.5zM11.5 3a1.2 1.2 0 1 1 0 2.5 1.2 1.2 0 0 1 0-2.5z",
  check: "m3 8.5 3.2 3.2L13 4.8",
  clock: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 4.8V8l2.2 1.6",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  copy: "M6 6h7.5v7.5H6zM10 6V2.5H2.5V10H6",
  cross: "m4 4 8 8M12 4l-8 8",
  chip: "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14",
  down: "m4 6 4 4 4-4",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.5h10",
  edit: "m3 13 .7-2.9 7-7a1.4 1.4 0 0 1 2 0l.2.2a1.4 1.4 0 0 1 0 2l-7 7zM9.5 4.3l2.2 2.2",
  eye: "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  folder: "M2 4h4l1.5 1.5H14V13H2z",
  image: "M2.5 3h11v10h-11zM2.5 11l3-3 2.5 2.5 2-2 3.5 3M10.3 5.7v.1",
  info: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 7.5V11M8 5v.1",
  key: "M5.5 7.5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM7.7 8.3l5.8-5.8M11 5l2 2",
  link: "M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2.2-2.2A2.6 2.6 0 0 0 9 3.3l-.8.8M9.2 6.8a2.6 2.6 0 0 0-3.7 0L3.3 9A2.6 2.6 0 0 0 7 12.7l.8-.8",
  list: "M6 4h8M6 8h8M6 12h8M2.5 4h.1M2.5 8h.1M2.5 12h.1",
  logout: "M6.5 2.5H3v11h3.5M10 5l3 3-3 3M13 8H6",
  memory: "M8 4.2C6.5 3 4.5 2.8 2.5 3v9.2c2-.2 4 0 5.5 1.2 1.5-1.2 3.5-1.4 5.5-1.2V3c-2-.2-4 0-5.5 1.2zM8 4.2v9.2",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  money: "M8 2v12M11 4.8c-.6-.9-1.7-1.3-3-1.3-1.7 0-3 .8-3 2.2 0 3.2 6.2 1.4 6.2 4.6 0 1.4-1.4 2.2-3.2 2.2-1.5 0-2.7-.5-3.3-1.5",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  more: "M3.2 7.45a.55.55 0 1 1 0 1.1.55.55 0 0 1 0-1.1zM8 7.45a.55.55 0 1 1 0 1.1.55.55 0 0 1 0-1.1zM12.8 7.45a.55.55 0 1 1 0 1.1.55.55 0 0 1 0-1.1z",
  next: "m6 4 4 4-4 4",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  people: "M6 2.8a2.4 2.4 0 1 1 0 4.8 2.4 2.4 0 0 1 0-4.8zM1.8 13.2c.3-2.5 2-3.8 4.2-3.8s3.9 1.3 4.2 3.8M10.5 3.2a2.2 2.2 0 0 1 0 4.1M12 9.8c1.3.5 2.1 1.7 2.3 3.4",
  pin: "M5.5 2.5h5M6.5 2.5v4L4 9.5h8l-2.5-3v-4M8 9.5V14",
  play: "M5 3.2v9.6L12.5 8z",
  plug: "M5.5 2v3M10.5 2v3M3.5 5h9v2.5a4.5 4.5 0 0 1-9 0zM8 12v2.5",
  plus: "M8 3v10M3 8h10",
  pulse: "M1.5 8H5l2-4.5 2.5 9 2-4.5h3",
  question: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM6.3 6.3c.1-1 .8-1.6 1.7-1.6 1 0 1.7.6 1.7 1.5 0 1.2-1.7 1.3-1.7 2.6M8 11v.1",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3l3.2 3.2",
  send: "M8 13V3M4 7l4-4 4 4",
  settings: "M2 4.5h6M12 4.5h2M10 2.7a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6zM2 11.5h2M8 11.5h6M6 9.7a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6z",
  sidebar: "M2 3h12v10H2zM6 3v10",
  skill: "M8 2l1.5 4.5L14 8 9.5 9.5 8 14 6.5 9.5 2 8l4.5-1.5z",
  stop: "M4 4h8v8H4z",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  task: "M3 2.5h10v11H3zM5.5 6l1 1 2-2M5.5 10.5h5",
  trash: "M2.5 4.5h11M6 4.5V2.5h4v2M4 4.5l.6 9h6.8l.6-9M6.7 7v4M9.3 7v4",
  undo: "M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M5.8 3.5l-3 3 3 3",
  unpin: "M5.5 2.5h5M6.5 2.5v1M9.5 2.5v4l2.5 3H8M6 7 4 9.5h3M8 9.5V14M2.5 2.5l11 11",
  up: "m4 10 4-4 4 4",
  warn: "M8 2.5 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1",
  web: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM2 8h12M8 2c4.5 4 4.5 8 0 12M8 2c-4.5 4-4.5 8 0 12",
  wrap: "M2.5 4h11M2.5 8h8a2 2 0 0 1 0 4H8M9.5 10.3 7.8 12l1.7 1.7M2.5 12h2.5",
};

/** @typedef {keyof typeof PATHS} IconName */

/** Names of all icons. */
export const ICONS = /** @type {IconName[]} */ (Object.keys(PATHS));

/**
 * Return an icon that assistive technology ignores: the control around it has a name.
 * @param {IconName} name
 */
export function icon(name) {
  const about = { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" };
  return draw("svg", about, draw("path", { d: PATHS[name] }));
}
