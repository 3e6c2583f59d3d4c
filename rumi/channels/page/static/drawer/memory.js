// @ts-check
// The memory: facts about the person, what they were, and the lists of this chat.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { confirm, dialog, empty, form, icon, list, toast } from "../ui.js";
import { doing, folded, moment, outcome } from "./acting.js";
import { attempt, facts as pairs } from "./acts.js";
import { byKey, origin, valuesIn } from "./managed.js";

/** @typedef {import("./managed.js").Fact} Fact */

const PAUSE_MS = 200;

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("memory"), open };

/** @param {string} words @returns {Promise<Fact[]>} */
async function found(words) {
  if (words.trim()) return (await call("memory", "search", { words })).facts;
  /** @type {Fact[]} */
  const all = [];
  for (;;) {
    const page = await call("memory", "list", { after: all.length });
    all.push(...page.facts);
    if (all.length >= page.all || !page.facts.length) return all;
  }
}

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const words = make("input", { type: "search", "aria-label": say("memory_search"), placeholder: say("memory_search"), autocomplete: "off" });
  const { place, act } = outcome();
  const nothing = empty(say("memory_empty"), { text: say("memory_add"), act: () => edit([], refresh) }, "memory");
  const none = empty(say("nothing_found"), undefined, "search");
  const shown = list({ label: say("memory"), empty: none });
  const room = make("div", {});
  const danger = doing(say("forget_everything"), () => forgetAll(refresh), "quiet danger");
  const tools = make("div", { class: "row" }, make("label", { class: "find space" }, icon("search"), words), doing(say("add"), () => edit([], refresh)));
  const lists = make("div", {});
  body.append(make("div", { class: "panel memory stack" }, make("p", { class: "faint" }, say("memory_about")), tools, place, room, lists, make("div", { class: "last" }, danger)));
  let number = 0;

  async function refresh() {
    const own = ++number;
    const asked = words.value;
    await act(null, async () => {
      const facts = await found(asked);
      if (own !== number || signal.aborted) return;
      shown.update(byKey(facts).map(row));
      const bare = !facts.length && !asked.trim();
      room.replaceChildren(bare ? nothing : shown.element);
      tools.hidden = bare;
      danger.hidden = bare;
    });
  }

  /** @param {Fact[]} facts @returns {import("../lists.js").ListRow} */
  function row(facts) {
    const [{ key }] = facts;
    return {
      key: key.toLocaleLowerCase(),
      title: key,
      meta: facts.map((fact) => fact.value).join(" · "),
      badge: facts.some((fact) => fact.tainted) ? say("fact_outside") : "",
      tone: "warn",
      act: () => edit(facts, refresh),
      menu: () => [
        { text: say("edit"), icon: "edit", act: () => edit(facts, refresh) },
        { text: say("fact_history"), icon: "clock", act: () => past(key) },
        { text: say("forget"), icon: "trash", danger: true, act: () => forget(key, refresh) },
      ],
    };
  }

  let timer = 0;
  words.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(refresh, PAUSE_MS);
  });
  await Promise.all([refresh(), showLists(lists)]);
}

/**
 * Ask for a fact, and store it. Several values stand in lines of their own.
 * @param {Fact[]} facts those of one key; empty for a new one
 * @param {() => Promise<void>} refresh
 */
async function edit(facts, refresh) {
  const old = facts.length > 0;
  const about = facts.map((fact) => pairs([
    [say("fact_from"), say(...origin(fact))],
    [say("fact_chat"), fact.chat ? make("a", { href: `?chat=${encodeURIComponent(fact.chat)}` }, fact.chat) : ""],
    [say("fact_since"), moment(fact.created)],
    [say("fact_changed"), fact.updated === fact.created ? "" : moment(fact.updated)],
  ]));
  const done = await form({
    title: old ? say("memory_edit", { key: facts[0].key }) : say("memory_add"),
    fields: [
      ...(old ? [] : [/** @type {const} */ ({ name: "key", label: say("fact_key"), hint: say("fact_key_hint"), required: true })]),
      { name: "value", label: say("fact_value"), type: "textarea", rows: Math.max(3, facts.length + 1), value: facts.map((fact) => fact.value).join("\n"), hint: say("fact_value_hint"), required: true },
      ...about,
    ],
    action: say("save"),
    submit: ({ key, value }) => attempt(async () => {
      for (const [place, each] of valuesIn(value).entries()) await call("memory", "set", { key: facts[0]?.key ?? key, value: each, also: place > 0 });
    }),
  });
  if (done) await refresh();
}

/** @param {string} key */
async function past(key) {
  const shown = list({ label: say("fact_history") });
  const { place, act } = outcome();
  const room = make("div", {}, place);
  const closed = dialog({ title: say("fact_history_of", { key }), body: room });
  await act(null, async () => {
    /** @type {(Fact & {ended: string | null})[]} */
    const facts = await call("memory", "history", { key });
    shown.update(facts.reverse().map((fact, at) => ({
      key: String(at),
      title: fact.value,
      badge: fact.ended ? "" : say("now"),
      tone: "ok",
      meta: [fact.ended ? say("from_to", { from: moment(fact.updated), to: moment(fact.ended) }) : say("since", { time: moment(fact.updated) }), say(...origin(fact))].join(" · "),
    })));
    room.append(shown.element);
  });
  await closed;
}

/**
 * @param {string} key
 * @param {() => Promise<void>} refresh
 */
async function forget(key, refresh) {
  const act = () => attempt(() => call("memory", "forget", { key }));
  if (!(await confirm({ title: say("forget_sure", { key }), text: say("forget_about"), action: say("forget"), danger: true, act }))) return;
  toast(say("forgotten", { key }));
  await refresh();
}

/** @param {() => Promise<void>} refresh */
async function forgetAll(refresh) {
  const word = say("forget_word");
  const check = (/** @type {string} */ text) => (text.trim().toLocaleLowerCase() === word ? "" : say("type_word", { word }));
  const done = await form({
    title: say("forget_everything"),
    text: say("forget_everything_about"),
    fields: [{ name: "word", label: say("type_word", { word }), required: true, check }],
    action: say("forget_everything"),
    submit: () => attempt(() => call("memory", "forget_everything")),
  });
  if (!done) return;
  toast(say("forgotten_everything"));
  await refresh();
}

/** @param {HTMLElement} place */
async function showLists(place) {
  const answer = await call("chats", "lists", { chat: currentChat() }).catch(() => ({ lists: [] })); // a chat that is new has none
  if (!answer.lists.length) return;
  place.append(make("h3", {}, say("lists")), ...answer.lists.map((/** @type {{list: string, items: any[]}} */ each) => folded(
    `${each.list} (${each.items.filter((item) => !item.ticked).length})`,
    () => [make("ul", { class: "items" }, ...each.items.map((item) => make("li", { class: item.ticked ? "ticked" : null, dir: "auto" }, item.text)))],
  )));
}
