// A page with every part of ui.js in the shell, for tests and for eyes. What was done is in `window.done`.

import { make } from "/static/dom.js";
import { ICONS } from "/static/icons.js";
import { drawer, side } from "/static/shell.js";
import * as ui from "/static/ui.js";

const done = (window.done = []);
const did = (what) => () => void done.push(what);
const byId = (id) => document.getElementById(id);

ui.toastRegion();

// The side

const aside = side(byId("side"));
const chats = ui.list({ label: "Chats" });
chats.update([
  { key: "1", title: "Invoices of October", dot: "work", state: "works", act: did("chat 1"), menu: chatMenu },
  { key: "2", title: "Trip to Lisbon", meta: "Send this mail?", dot: "ask", state: "asks", act: did("chat 2"), menu: chatMenu },
  { key: "3", title: "Backup script fails", dot: "unread", state: "new answer", act: did("chat 3"), menu: chatMenu },
]);
const search = ui.field({ name: "words", label: "Search chats", type: "search", placeholder: "Search chats" });
search.input.setAttribute("aria-label", "Search chats");
byId("side").append(
  make("div", { class: "stack", id: "side-parts" },
    ui.button({ text: "New chat", icon: "plus", act: did("new chat") }),
    make("div", { class: "find" }, ui.icon("search"), search.input),
    chats.element,
  ),
);

function chatMenu() {
  return [
    { text: "Rename", icon: "edit", act: rename },
    { text: "Pin", icon: "pin", act: did("pin") },
    { text: "Export", icon: "download", hint: "Markdown, with the files' names", act: did("export") },
    { text: "Archive", icon: "archive", disabled: true, act: did("archive") },
    "line",
    { text: "Delete", icon: "trash", danger: true, act: remove },
  ];
}

async function rename() {
  done.push(await ui.ask({
    title: "Rename this chat", label: "Title", value: "Trip to Lisbon", action: "Rename", most: 20, required: true,
    submit: (text) => new Promise((tell) => setTimeout(tell, 20, text === "taken" ? "Another chat has this title." : "")),
  }));
}

async function remove() {
  const yes = await ui.confirm({ title: "Delete this chat?", text: "Its 12 files are deleted with it.", action: "Delete", danger: true });
  done.push(yes);
  if (yes) ui.toast("The chat was deleted.", { action: { text: "Undo", act: did("undo") } });
}

// The talk

const house = drawer(byId("drawer"));
const model = ui.menu(ui.button({ text: "gpt-oss-120b", kind: "chip" }), () => [
  { group: "Models" },
  { text: "gpt-oss-120b", hint: "131,072 tokens", checked: true, act: did("model 1") },
  { text: "qwen3-32b", hint: "no key", checked: false, act: did("model 2") },
]);
model.id = "model";
model.append(ui.icon("down"));
byId("talk-head").append(
  ui.button({ icon: "sidebar", label: "Chats", kind: "quiet", act: () => aside.toggle() }),
  make("h1", {}, "Invoices of October"),
  make("span", { class: "space" }),
  model,
  ui.button({ icon: "pulse", label: "Status", kind: "quiet", act: () => house.toggle() }),
);
const told = [
  make("p", {}, "All twelve invoices are renamed to ", make("code", {}, "date_supplier.pdf"), ". Two had no date; I used the date of the mail in their text."),
  make("div", { class: "row wrap" },
    ui.button({ text: "Plain", act: () => ui.toast("Copied.") }),
    ui.button({ text: "Primary", kind: "primary", act: rename }),
    ui.button({ text: "Danger", kind: "danger", act: remove }),
    ui.button({ text: "Quiet", kind: "quiet", icon: "copy", act: () => ui.toast("The disk refuses to write. Free some space, then try again.", { bad: true }) }),
    Object.assign(ui.button({ text: "Busy", act: (event) => ui.busy(event.currentTarget, new Promise((tell) => setTimeout(tell, 600))) }), { id: "busy" }),
    Object.assign(ui.button({ text: "Disabled" }), { disabled: true }),
  ),
  make("div", { class: "row wrap" },
    make("span", { class: "chip" }, "14 % full"),
    ...["", "ok", "warn", "bad", "accent"].map((tone) => make("span", { class: `badge ${tone}` }, tone || "plain")),
    ...["", "ok", "work", "ask", "unread", "bad", "off"].map((dot) => make("i", { class: `dot ${dot}` })),
  ),
  make("details", {}, make("summary", {}, "3 steps"), make("p", { class: "faint" }, "Unpacked invoices.zip, read 12 PDFs, renamed 12 files")),
  ui.notice("The model's key is missing. Add it in Settings.", "warn"),
  ui.notice("The database does not answer.", "bad"),
  make("div", { class: "row wrap" }, ...ICONS.map((name) => ui.icon(name))),
];
byId("log").append(make("div", { class: "stack" }, ...told));
const message = make("textarea", { id: "message", rows: "2", placeholder: "Message Rumi", "aria-label": "Message" });
byId("composer").append(make("div", {}, message));

// The drawer

const trees = ui.table({
  label: "Turns",
  key: (row) => row.chat,
  columns: [
    { text: "chat", cell: (row) => row.chat },
    { text: "tokens", number: true, cell: (row) => row.tokens },
    { text: "end", cell: (row) => ({ is: row.end, build: () => [ui.button({ text: row.end, kind: "small", act: did(row.end) })] }) },
  ],
});
trees.update([{ chat: "home", tokens: 9120, end: "complete" }, { chat: "work-notes", tokens: 812, end: "stopped" }]);
window.trees = trees;

const schedules = ui.list({ label: "Schedules" });
schedules.update([
  { key: "1", title: "Water the garden", meta: "every day at 7:00 · next in 3 h", dot: "ok", state: "active", badge: "reminder", menu: chatMenu },
  { key: "2", title: "Compare prices of the train to Lisbon and tell me if one falls below 40 €", meta: "Mondays · next on 30 Nov", dot: "off", state: "paused", badge: "paused", tone: "warn", menu: chatMenu },
]);
const nothing = ui.list({ label: "Bots", empty: ui.empty("No bot is at work. A bot works on its own in a folder of yours.", { text: "Start a bot", act: did("bot") }, "bot") });
nothing.update([]);

const fields = [
  ui.field({ name: "when", label: "When", value: "every day at 7:00", hint: "In words, such as “Mondays at 9”.", required: true }),
  ui.field({ name: "kind", label: "What happens", type: "select", options: ["Reminder", "Turn", "Command"] }),
  ui.field({ name: "limit", label: "Tokens a day", type: "number", value: 20000, least: 1 }),
  ui.field({ name: "text", label: "Text", type: "textarea", rows: 3, most: 50 }),
  ui.field({ name: "on", label: "Tell me on every device", type: "switch", value: true }),
  ui.field({ name: "quiet", label: "Keep quiet at night", type: "checkbox" }),
];
const all = ui.tabs({
  label: "Parts",
  tabs: [
    { name: "lists", text: "Lists", show: (panel) => panel.append(schedules.element, nothing.element, ui.skeleton()) },
    { name: "tables", text: "Tables", show: (panel) => panel.append(trees.element) },
    { name: "forms", text: "Forms", show: (panel) => panel.append(make("div", { class: "stack" }, ...fields.map((each) => each.row))) },
  ],
  changed: (name) => done.push(name),
});
byId("drawer-title").textContent = "Parts";
byId("drawer-head").append(ui.button({ icon: "cross", label: "Close", kind: "quiet", act: () => house.show(false) }));
byId("drawer-body").append(all.element);
