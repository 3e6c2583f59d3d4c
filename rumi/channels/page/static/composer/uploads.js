// @ts-check
// Files of the next message: chosen, dropped or pasted; uploaded at once, with their progress.

import { currentChat, onState } from "../connection.js";
import { make, say, size } from "../dom.js";
import { PICTURE, fileAddress } from "../talk/files.js";
import { button, icon, toast } from "../ui.js";
import { pastedName } from "./keys.js";

/** @typedef {import("./drafts.js").Chosen} Chosen */
/**
 * A file of a chat's next message. It has a `path` once it is stored; until then `file` holds it.
 * @typedef {Chosen & {chat: string, file?: File, text?: string, element: HTMLElement, request?: XMLHttpRequest, failed: "" | "lost" | "refused"}} Item
 */
/** @typedef {{text: number, files: number, bytes: number}} Limits */

/** @type {Item[]} */
let items = [];
const list = make("ul", { id: "chosen", "aria-label": say("chosen") });
/** @type {(chat: string) => void} */
let changed = () => {};
/** @type {(text: string) => void} */
let edit = () => {};

/**
 * What the server takes.
 * @returns {Limits}
 */
export function limits() {
  return JSON.parse(document.body.dataset.limits || "{}");
}

/**
 * Return the list of files. `change` is called with the chat whose files have changed, `editText` with a pasted
 * text that goes back into the message.
 * @param {(chat: string) => void} change
 * @param {(text: string) => void} editText
 */
export function begin(change, editText) {
  changed = change;
  edit = editText;
  onState((state) => {
    if (state === "live") for (const item of items) if (item.failed === "lost") upload(item);
  });
  return list;
}

const of = (/** @type {string} */ chat) => items.filter((item) => item.chat === chat);

/** Show the files of this chat. */
export function enter() {
  list.replaceChildren(...of(currentChat()).map(({ element }) => element));
}

/** Whether a file of this chat is not stored yet. */
export function unfinished() {
  return of(currentChat()).some((item) => !item.path);
}

/**
 * The stored files of a chat's next message.
 * @param {string} chat
 * @returns {Chosen[]}
 */
export function stored(chat) {
  return of(chat).filter((item) => item.path).map(({ path, name, size: bytes, pasted }) => ({ path, name, size: bytes, ...(pasted ? { pasted } : {}) }));
}

/** The files for the message that is sent now: they are no longer chosen afterwards. */
export function take() {
  const taken = stored(currentChat());
  items = items.filter((item) => item.chat !== currentChat());
  enter();
  return taken;
}

/**
 * Choose exactly these stored files, besides those that are on their way.
 * @param {string} chat
 * @param {Chosen[]} files
 */
export function restore(chat, files) {
  const kept = of(chat).filter((item) => !item.path || files.some(({ path }) => path === item.path));
  items = [...items.filter((item) => item.chat !== chat), ...kept];
  for (const file of files) if (!kept.some(({ path }) => path === file.path)) insert({ ...file, chat });
  if (chat === currentChat()) enter();
}

/**
 * Choose a file that the chat has already.
 * @param {Chosen} file
 */
export function attach(file) {
  const own = of(currentChat());
  if (own.some(({ path }) => path === file.path)) return;
  if (full(own.length)) return;
  insert({ ...file, chat: currentChat() });
  enter();
  changed(currentChat());
}

/**
 * Upload files for the next message.
 * @param {Iterable<File>} files
 */
export function add(files) {
  for (const file of files) {
    if (full(of(currentChat()).length)) return;
    const { bytes } = limits();
    if (file.size > bytes) {
      toast(say("not_uploaded", { name: file.name, why: say("too_large", { size: size(file.size), most: size(bytes) }) }), { bad: true });
      continue;
    }
    upload(insert({ path: "", name: file.name, size: file.size, chat: currentChat(), file }));
    enter();
  }
}

/**
 * Turn a pasted text into a file of the next message.
 * @param {string} text
 */
export function addText(text) {
  if (full(of(currentChat()).length)) return false;
  const name = pastedName(of(currentChat()).map((item) => item.name));
  const file = new File([text], name, { type: "text/plain" });
  upload(insert({ path: "", name, size: file.size, chat: currentChat(), file, text, pasted: true }));
  enter();
  return true;
}

/** @param {number} count */
function full(count) {
  const most = limits().files;
  if (count >= most) toast(say("too_many_files", { count: most }), { bad: true });
  return count >= most;
}

/** @param {Chosen & {chat: string, file?: File, text?: string}} about */
function insert(about) {
  /** @type {Item} */
  const item = { ...about, element: make("li", {}), failed: "" };
  items.push(item);
  show(item);
  return item;
}

/** @param {Item} item */
function remove(item) {
  item.request?.abort();
  items = items.filter((other) => other !== item);
  item.element.remove();
  changed(item.chat);
}

/** @param {Item} item */
function show(item) {
  const { name, path, failed } = item;
  const cross = button({ icon: "cross", label: say("remove_file", { name }), kind: "quiet small", act: () => (remove(item), focusField()) });
  const about = make("span", { class: "faint" }, path ? size(item.size) : failed ? "" : say("uploading"));
  /** @type {Node[]} */
  const more = [];
  if (failed) {
    const again = button({ icon: "retry", label: say("upload_again", { name }), kind: "quiet small", act: () => upload(item) });
    more.push(make("span", { class: "bad", role: "alert" }, say("upload_failed")), again);
  } else if (!path) {
    more.push(make("progress", { max: Math.max(1, item.size), value: 0, "aria-label": say("uploading_file", { name }) }));
  }
  if (path && item.pasted) more.push(button({ icon: "edit", label: say("edit_as_text", { name }), kind: "quiet small", act: () => asText(item) }));
  item.element.replaceChildren(image(item), make("span", { class: "name", title: name }, name), about, ...more, cross);
}

/** @param {Item} item */
function image(item) {
  if (!item.path || !PICTURE.test(item.path)) return icon(item.pasted ? "copy" : "file");
  const preview = make("img", { class: "preview", src: fileAddress("picture", item.path), alt: say("preview", { name: item.name }) });
  preview.addEventListener("error", () => preview.replaceWith(icon("file")));
  return preview;
}

/**
 * Put a pasted text back into the message.
 * @param {Item} item
 */
async function asText(item) {
  const text = item.text ?? (await fetch(fileAddress("download", item.path)).then((answer) => (answer.ok ? answer.text() : null)).catch(() => null));
  if (text === null) {
    toast(say("lost"), { bad: true });
    return;
  }
  remove(item);
  edit(text);
}

/**
 * Upload a file, or try it once more.
 * @param {Item} item
 */
function upload(item) {
  if (!item.file) return;
  item.failed = "";
  const request = (item.request = new XMLHttpRequest()); // fetch reports no progress of an upload
  show(item);
  request.open("POST", `/files?${new URLSearchParams({ chat: item.chat, name: item.name })}`);
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.responseType = "json";
  request.upload.addEventListener("progress", ({ loaded }) => {
    const [bar, about] = [item.element.querySelector("progress"), item.element.querySelector(".faint")];
    if (bar) bar.value = Math.min(loaded, item.size);
    if (about) about.textContent = say("uploaded_of", { done: size(Math.min(loaded, item.size)), size: size(item.size) });
  });
  request.addEventListener("loadend", () => {
    if (item.request !== request || !items.includes(item)) return;
    const said = request.response;
    if (request.status === 200 && said?.path) {
      Object.assign(item, { path: said.path, size: said.size, file: undefined, request: undefined });
    } else {
      const lost = request.status === 0 || request.status === 503;
      item.failed = lost ? "lost" : "refused";
      toast(say("not_uploaded", { name: item.name, why: said?.error ?? say("lost") }), { bad: true });
    }
    show(item);
    changed(item.chat);
  });
  request.send(item.file);
  changed(item.chat);
}

function focusField() {
  document.getElementById("message")?.focus();
}
