// Files: those that go with a message, and those of the chat, to look at and to download.

import { get, make, say, size } from "./dom.js";

const panel = document.getElementById("files");
const opener = document.getElementById("open-files");
const list = document.getElementById("files-list");
const none = document.getElementById("no-files");
const up = document.getElementById("files-up");
const place = document.getElementById("files-place");
const chosen = document.getElementById("chosen");
const field = document.getElementById("attached");

const PICTURE = /\.(png|jpe?g|gif|webp|svg)$/i;
const MOST = 10;
let chat = "";
let folder = "";
let notice = () => {};
let changed = () => {};
let going = []; // {path, item}: with the next message; without a path it is on its way

const link = (what, path) => `/files/${what}?${new URLSearchParams({ chat, path })}`;

/** A file as it stands in a message or in the list: a link that downloads it, and a picture to unfold, or
 * `unfolded` at once. */
export function shown(path, label = path, unfolded = false) {
  const name = make("a", { href: link("download", path), download: "" }, label);
  if (!PICTURE.test(path)) return make("p", { class: "file" }, name);
  const fold = make("details", {}, make("summary", {}, say("picture")));
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.childElementCount === 1) {
      const picture = make("img", { src: link("picture", path), alt: label });
      picture.addEventListener("error", () => picture.replaceWith(make("p", { class: "faint" }, say("no_picture"))));
      fold.append(picture);
    }
  });
  fold.open = unfolded;
  return make("div", { class: "file" }, name, fold);
}

/** This chat is shown from now on: what was chosen for the one before is not for it. */
export function at(id) {
  chat = id;
  folder = "";
  going = [];
  chosen.replaceChildren();
  changed();
  if (!panel.hidden) refresh();
}

/** Whether a file is on its way. */
export const busy = () => going.some((each) => !each.path);

/** The files for the next message; they are no longer chosen afterwards. */
export function take() {
  const taken = going;
  going = [];
  chosen.replaceChildren();
  return taken;
}

/** Choose files again that were not sent. */
export function back(taken) {
  going = [...taken, ...going];
  chosen.replaceChildren(...going.map((each) => each.item));
}

async function send(file) {
  if (going.length >= MOST) return notice(say("too_many_files", { count: MOST }));
  const own = chat;
  const remove = make("button", { type: "button", class: "quiet", "aria-label": say("remove_file", { name: file.name }) }, "✕");
  const about = make("span", { class: "faint", role: "status" }, say("uploading"));
  const item = make("li", {}, make("span", {}, file.name), about, remove);
  const each = { path: "", item };
  const forget = () => {
    going = going.filter((other) => other !== each);
    item.remove();
    changed();
  };
  const stop = new AbortController();
  remove.addEventListener("click", () => {
    stop.abort();
    forget();
    document.getElementById("message").focus();
  });
  going.push(each);
  chosen.append(item);
  changed();
  try {
    const answer = await fetch(`/files?${new URLSearchParams({ chat: own, name: file.name })}`, {
      method: "POST",
      headers: { "Content-Type": "application/octet-stream" },
      body: file,
      signal: stop.signal,
    });
    const said = await answer.json().catch(() => ({ error: say("lost") }));
    if (!answer.ok) throw new Error(said.error);
    each.path = said.path;
    about.textContent = size(said.size);
    if (PICTURE.test(said.path)) {
      const preview = make("img", { class: "preview", src: link("picture", said.path), alt: say("preview", { name: file.name }) });
      preview.addEventListener("error", () => preview.remove());
      item.prepend(preview);
    }
  } catch (error) {
    if (stop.signal.aborted) return;
    forget();
    notice(say("not_uploaded", { name: file.name, why: error.message }));
  }
  changed();
  if (!panel.hidden) refresh();
}

async function refresh() {
  const answer = await get("/files", { chat, folder });
  if (!answer) return;
  place.textContent = `/workspace${folder && `/${folder}`}`;
  up.hidden = !folder;
  none.hidden = answer.files.length > 0;
  const below = (name) => (folder ? `${folder}/${name}` : name);
  list.replaceChildren(...answer.files.map((each) => {
    if (each.folder) {
      const enter = make("button", { type: "button", class: "quiet" }, `${each.name}/`);
      enter.addEventListener("click", () => go(below(each.name)));
      return make("li", {}, enter);
    }
    return make("li", {}, shown(below(each.name), each.name), make("span", { class: "faint" }, size(each.size)));
  }));
}

function go(to) {
  folder = to;
  refresh();
  place.focus();
}

/** Listen to keys, buttons, and what is dropped or pasted. `tell` shows what went wrong; `change` is called
 * when what is chosen has changed. */
export function begin(tell, change) {
  notice = tell;
  changed = change;
  opener.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    opener.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) refresh();
  });
  up.addEventListener("click", () => go(folder.split("/").slice(0, -1).join("/")));
  document.getElementById("refresh-files").addEventListener("click", refresh);
  document.getElementById("attach").addEventListener("click", () => field.click());
  field.addEventListener("change", () => {
    [...field.files].forEach(send);
    field.value = "";
  });
  const talk = document.getElementById("talk");
  talk.addEventListener("dragover", (event) => event.preventDefault());
  talk.addEventListener("drop", (event) => {
    event.preventDefault();
    [...event.dataTransfer.files].forEach(send);
  });
  document.getElementById("message").addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) event.preventDefault();
    [...event.clipboardData.files].forEach(send);
  });
}
