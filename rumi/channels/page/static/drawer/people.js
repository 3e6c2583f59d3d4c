// @ts-check
// The people who may talk to Rumi, and what their roles allow.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { confirm, empty, form, list, toast } from "../ui.js";
import { doing, folded, outcome } from "./acting.js";
import { attempt } from "./acts.js";
import { idsIn, mayDo, price } from "./managed.js";

/** @typedef {{name: string, ids: number[], role: string, tokens: number, usd: number, named: boolean}} Person */
/** @typedef {{people: Person[], roles: string[], rights: Record<string, import("./managed.js").Rights>}} House */

const OWNER = "local";

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("people"), open };

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const { place, act } = outcome();
  const shown = list({ label: say("people") });
  const alone = empty(say("people_empty"), { text: say("person_add"), act: () => edit(null) }, "people");
  const add = doing(say("person_add"), () => edit(null));
  const roles = make("div", { class: "roles" });
  const whole = make("div", { class: "panel people stack" }, make("p", { class: "faint" }, say("people_about")), place, shown.element, make("div", {}, add), alone, make("h3", {}, say("roles")), roles);
  /** @type {House} */
  let house = { people: [], roles: [], rights: {} };

  /** @param {House} now */
  function show(now) {
    if (signal.aborted) return;
    house = now;
    shown.update(now.people.map(row));
    alone.hidden = now.people.length > 1;
    add.parentElement?.toggleAttribute("hidden", now.people.length <= 1);
    roles.replaceChildren(...now.roles.map((role) => folded(role, () => [
      make("ul", { class: "may" }, ...mayDo(now.rights[role]).map(([word, values]) => make("li", {}, say(word, values)))),
    ])));
  }

  /** @param {Person} person @returns {import("../lists.js").ListRow} */
  function row(person) {
    const used = person.tokens ? say("used_today", { tokens: person.tokens.toLocaleString(document.documentElement.lang), usd: price(person.usd) }) : "";
    const about = [person.name === OWNER ? say("person_owner") : person.ids.length ? `Telegram ${person.ids.join(", ")}` : "", used, person.named || person.name === OWNER ? "" : say("person_unnamed")];
    return {
      key: `${person.name}/${person.named}`,
      title: person.name === OWNER ? say("you") : person.name,
      badge: person.role,
      meta: about.filter(Boolean).join(" · "),
      ...(person.named ? {
        act: () => edit(person),
        menu: () => [
          { text: say("change"), icon: "edit", act: () => edit(person) },
          { text: say("remove"), icon: "trash", danger: true, act: () => remove(person) },
        ],
      } : {}),
    };
  }

  /** @param {Person | null} person */
  async function edit(person) {
    const choices = house.roles.map((role) => ({ value: role, text: role }));
    const done = await form({
      title: person ? say("person_change", { name: person.name }) : say("person_add"),
      text: say("people_wait"),
      fields: [
        ...(person ? [] : [/** @type {const} */ ({ name: "name", label: say("person_name"), required: true, hint: say("person_name_hint") })]),
        { name: "ids", label: say("person_ids"), value: person?.ids.join(", ") ?? "", hint: say("person_ids_hint"), required: true, check: (text) => (idsIn(text) ? "" : say("person_ids_wrong")) },
        { name: "role", label: say("role"), type: "select", options: choices, value: person?.role ?? "member", hint: say("role_hint") },
      ],
      action: say("save"),
      submit: ({ name, ids, role }) => attempt(async () => show(await call("people", person ? "set" : "add", { name: person?.name ?? name, telegram: idsIn(ids), role }))),
    });
    if (done) toast(say("saved_for_start"));
  }

  /** @param {Person} person */
  async function remove(person) {
    const work = () => attempt(async () => show(await call("people", "remove", { name: person.name })));
    if (await confirm({ title: say("person_remove_sure", { name: person.name }), text: say("person_remove_about"), action: say("remove"), danger: true, act: work })) toast(say("saved_for_start"));
  }

  body.append(whole);
  await act(null, async () => show(await call("people", "list")));
}
