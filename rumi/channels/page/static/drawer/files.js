// @ts-check
// The files of the chat: folders, previews, download, delete, and "attach to the message".

import * as uploads from "../composer/uploads.js";
import { currentChat, post } from "../connection.js";
import { get, make, say, size } from "../dom.js";
import { fileAddress } from "../talk/files.js";
import { button, confirm, empty, icon, menu, notice, skeleton, toast } from "../ui.js";

/** @typedef {{name: string, folder: boolean, size: number, modified: number}} Row */

const MOST_PAGES = 100;
const PICTURE = /\.(png|jpe?g|gif|webp|svg)$/i;

export const panel = {
  name: "files",
  title: () => say("files"),
  /**
   * @param {HTMLElement} body
   * @param {AbortSignal} signal
   * @param {{path?: string}} [about] a file to show at once
   */
  open(body, signal, about = {}) {
    const view = { body, signal, chat: currentChat() };
    const path = about.path ?? "";
    return path ? preview(view, path) : folder(view, "");
  },
};

/** @typedef {{body: HTMLElement, signal: AbortSignal, chat: string}} View */

/** @param {string} path */
const above = (path) => path.split("/").slice(0, -1).join("/");

/**
 * Show a folder.
 * @param {View} view
 * @param {string} path
 * @returns {Promise<void>}
 */
async function folder(view, path) {
  const { body, signal, chat } = view;
  body.replaceChildren(skeleton());
  const answer = await get("/files", { chat, folder: path });
  if (signal.aborted) return;
  const bar = make("div", { class: "files-bar" }, trail(view, path));
  bar.append(button({ icon: "retry", label: say("refresh"), kind: "quiet", act: () => folder(view, path) }));
  if (!answer) return body.replaceChildren(bar, notice(say("lost"), "bad"));
  /** @type {Row[]} */
  const rows = answer.files;
  const list = make("ul", { id: "files-list", class: "list" }, ...rows.map((row) => rowOf(view, path, row)));
  const left = answer.left_out ? [make("p", { class: "faint" }, say("files_left_out", { count: answer.left_out }))] : [];
  body.replaceChildren(bar, rows.length ? list : empty(say(path ? "folder_empty" : "no_files"), undefined, "folder"), ...left);
}

/**
 * The way to a folder: each part leads there.
 * @param {View} view
 * @param {string} path
 */
function trail(view, path) {
  const parts = path ? path.split("/") : [];
  const steps = ["", ...parts].map((name, at) => {
    const to = parts.slice(0, at).join("/");
    const text = at ? name : say("all_files");
    const here = to === path;
    const step = here ? make("span", { "aria-current": "page" }, text) : button({ text, kind: "quiet small", act: () => folder(view, to) });
    return make("li", {}, step);
  });
  return make("nav", { class: "trail", "aria-label": say("files") }, make("ol", {}, ...steps));
}

/**
 * @param {View} view
 * @param {string} path
 * @param {Row} row
 */
function rowOf(view, path, row) {
  const full = path ? `${path}/${row.name}` : row.name;
  const when = new Date(row.modified * 1000).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  const title = make("span", { class: "title" }, icon(row.folder ? "folder" : PICTURE.test(row.name) ? "image" : "file"), make("span", {}, row.name));
  const meta = make("span", { class: "meta" }, row.folder ? when : `${size(row.size)} · ${when}`);
  const open = make("button", { type: "button", class: "what" }, title, meta);
  open.addEventListener("click", () => (row.folder ? folder(view, full) : preview(view, full)));
  const item = make("li", {}, open);
  if (!row.folder) item.append(more(view, full, row.size, () => folder(view, path)));
  return item;
}

/**
 * The menu of a file.
 * @param {View} view
 * @param {string} path
 * @param {number} bytes
 * @param {() => void} gone
 */
function more(view, path, bytes, gone) {
  const name = path.split("/").at(-1) ?? path;
  return menu(button({ icon: "more", label: say("actions_of", { name }), kind: "quiet" }), [
    { text: say("attach_to_message"), icon: "attach", act: () => attach(path, bytes) },
    { text: say("download"), icon: "download", act: () => download(path) },
    "line",
    { text: say("delete"), icon: "trash", danger: true, act: () => remove(view, path, gone) },
  ]);
}

/**
 * @param {string} path
 * @param {number} bytes
 */
function attach(path, bytes) {
  uploads.attach({ path, name: path, size: bytes });
  document.getElementById("message")?.focus();
}

/** @param {string} path */
function download(path) {
  const link = make("a", { href: fileAddress("download", path), download: "" });
  link.click();
}

/**
 * @param {View} view
 * @param {string} path
 * @param {() => void} gone
 */
async function remove(view, path, gone) {
  const act = () => post("/files/delete", { chat: view.chat, path }).then(() => undefined, (error) => error.message);
  const yes = await confirm({ title: say("delete_file", { name: path }), text: say("delete_file_text"), action: say("delete"), danger: true, act });
  if (!yes) return;
  toast(say("file_deleted", { name: path }));
  if (!view.signal.aborted) gone();
}

/**
 * Show a file.
 * @param {View} view
 * @param {string} path
 * @returns {Promise<void>}
 */
async function preview(view, path) {
  const { body, signal, chat } = view;
  body.replaceChildren(skeleton());
  const found = await get("/files/preview", { chat, path });
  if (signal.aborted) return;
  const back = () => folder(view, above(path));
  const bar = make("div", { class: "files-bar" }, button({ icon: "back", label: say("back"), kind: "quiet", act: back }));
  bar.append(make("h3", { tabindex: "-1" }, path.split("/").at(-1) ?? path), more(view, path, found?.size ?? 0, back));
  if (!found) return body.replaceChildren(bar, notice(say("no_preview"), "bad"));
  const about = make("p", { class: "faint" }, found.cut ? say("file_cut", { size: size(found.size) }) : size(found.size));
  body.replaceChildren(bar, about, ...shown(view, path, found));
  bar.querySelector("h3")?.focus();
}

/**
 * The content of a file: text nodes, or pictures that the server has checked.
 * @param {View} view
 * @param {string} path
 * @param {{kind: string, text?: string, rows?: string[][]}} found
 * @returns {Node[]}
 */
function shown(view, path, { kind, text = "", rows = [] }) {
  if (kind === "picture") {
    const picture = make("img", { class: "file-picture", src: fileAddress("picture", path), alt: path });
    picture.addEventListener("error", () => picture.replaceWith(notice(say("no_picture"))));
    return [picture];
  }
  if (kind === "pdf") return [pages(view, path)];
  if (kind === "table" && rows.length) return [table(path, rows)];
  if (kind === "text" || kind === "json") return text ? [lines(path, text)] : [make("p", { class: "faint" }, say("file_empty"))];
  return [empty(say("no_preview"), { text: say("download"), act: () => download(path) }, "file")];
}

/**
 * A text with the numbers of its lines, which are not copied with it.
 * @param {string} path
 * @param {string} text
 */
function lines(path, text) {
  const all = text.replace(/\n$/, "").split("\n");
  const code = make("code", {}, ...all.map((line) => make("span", { class: "line" }, `${line}\n`)));
  return make("pre", { class: "numbered", tabindex: "0", "aria-label": path, dir: "ltr" }, code);
}

/**
 * @param {string} path
 * @param {string[][]} rows
 */
function table(path, rows) {
  const [first, ...rest] = rows;
  const width = Math.max(...rows.map((row) => row.length));
  const cells = (/** @type {string[]} */ row) => Array.from({ length: width }, (_, at) => row[at] ?? "");
  const numeric = Array.from({ length: width }, (_, at) => rest.length > 0 && rest.every((row) => /^\s*[-+]?[\d.,\s]*\d[\d.,\s]*%?\s*$|^$/.test(row[at] ?? "")));
  const head = make("tr", {}, ...cells(first).map((cell, at) => make("th", { scope: "col", class: numeric[at] ? "number" : null }, cell)));
  const body = rest.map((row) => make("tr", {}, ...cells(row).map((cell, at) => make("td", { class: numeric[at] ? "number" : null }, cell))));
  const all = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll file-table", tabindex: "0", role: "region", "aria-label": path }, all);
}

/**
 * The pages of a document as pictures; each is loaded when it is near.
 * @param {View} view
 * @param {string} path
 */
function pages(view, path) {
  const place = make("div", { class: "file-pages" });
  const watcher = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) load(Number(/** @type {HTMLElement} */ (target).dataset.page));
  }, { rootMargin: "400px" });
  view.signal.addEventListener("abort", () => watcher.disconnect());
  const begun = new Set();
  const frame = (/** @type {number} */ number) => {
    const element = make("div", { class: "file-page", "data-page": number }, skeleton(6));
    place.append(element);
    watcher.observe(element);
  };
  const load = async (/** @type {number} */ number) => {
    if (begun.has(number)) return;
    begun.add(number);
    const query = new URLSearchParams({ chat: view.chat, path, page: String(number) });
    const answer = await fetch(`/files/page?${query}`, { signal: view.signal }).catch(() => null);
    const element = place.querySelector(`[data-page="${number}"]`);
    if (view.signal.aborted || !element) return;
    if (!answer?.ok) {
      const said = await answer?.json().catch(() => null);
      return element.replaceChildren(notice(say("no_page", { why: said?.error ?? say("lost") }), "bad"));
    }
    const count = Number(answer.headers.get("x-pages"));
    const source = URL.createObjectURL(await answer.blob());
    const picture = make("img", { src: source, alt: say("page_of", { page: number, count }) });
    picture.addEventListener("load", () => URL.revokeObjectURL(source), { once: true });
    element.replaceChildren(picture);
    if (number === 1) {
      for (let next = 2; next <= Math.min(count, MOST_PAGES); next += 1) frame(next);
      if (count > MOST_PAGES) place.append(make("p", { class: "faint" }, say("pages_left_out", { count: MOST_PAGES })));
    }
  };
  frame(1);
  return place;
}
