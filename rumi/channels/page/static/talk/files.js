// @ts-check
// Files of the chat, as its entries show them.

import { currentChat } from "../connection.js";
import { make, say, size } from "../dom.js";
import { icon } from "../icons.js";
import { dialog } from "../dialog.js";

export const PICTURE = /\.(png|jpe?g|gif|webp|svg)$/i;

/**
 * The address of a file of this chat.
 * @param {"download" | "picture"} what
 * @param {string} path
 */
export function fileAddress(what, path) {
  return `/files/${what}?${new URLSearchParams({ chat: currentChat(), path })}`;
}

/**
 * Return a file by name, to download or to look at.
 * @param {string} path
 * @param {string} [name]
 * @param {number} [bytes]
 */
export function shownFile(path, name = path, bytes = 0) {
  const image = PICTURE.test(path);
  const words = bytes ? [make("span", { class: "faint" }, size(bytes))] : [];
  const link = make("a", { class: "chip file", href: fileAddress("download", path), download: "" }, icon(image ? "image" : "file"), make("span", { class: "clip" }, name.split("/").pop() || name), ...words);
  link.title = name;
  if (!image) return make("div", { class: "shown", "data-path": path }, link);
  return make("div", { class: "shown", "data-path": path }, picture(path, name), link);
}

/**
 * Return a picture of the chat's files: a button that shows it large.
 * @param {string} path
 * @param {string} alt
 */
export function picture(path, alt) {
  const words = alt || path;
  const image = make("img", { src: fileAddress("picture", path), alt: "", loading: "lazy", decoding: "async" });
  const button = make("button", { type: "button", class: "picture", "aria-label": say("enlarge", { name: words }) }, image);
  image.addEventListener("error", () => button.replaceWith(make("span", { class: "faint" }, say("no_picture"))));
  button.addEventListener("click", () => {
    const large = make("img", { class: "large", src: image.src, alt: words });
    const link = make("a", { class: "button", href: fileAddress("download", path), download: "" }, icon("download"), say("download"));
    dialog({ title: words, body: [large, make("p", {}, link)], wide: true });
  });
  return button;
}
