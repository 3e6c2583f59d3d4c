// @ts-check
// What a bot knows (facts and skills), and what it has changed in its project.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { confirm, empty, list, notice, toast } from "../ui.js";
import { actions, attempt, failures } from "./acts.js";
import { section } from "./drawer.js";
import { language, moment } from "./times.js";

/** Letters of changed files, as `bots.diff` names them. */
const CHANGES = /** @type {Record<string, string>} */ ({ A: "change_added", M: "change_changed", D: "change_deleted" });

/**
 * Show the facts and the skills of a bot.
 * @param {string} name
 * @param {HTMLElement} panel
 */
export async function knowledge(name, panel) {
  const [known, { skills, problems }] = await Promise.all([call("bots", "memory", { name }), call("bots", "skills", { name })]);
  const below = failures();
  const again = () => knowledge(name, panel);
  const forget = async (/** @type {string} */ key) => {
    const act = () => attempt(() => call("bots", "forget", { name, key }));
    if (await confirm({ title: say("fact_forget_sure"), text: key, action: say("forget"), danger: true, act })) await again();
  };
  const drop = async (/** @type {string} */ skill) => {
    const act = () => attempt(() => call("bots", "remove_skill", { name, skill }));
    if (await confirm({ title: say("bot_skill_delete_sure"), text: skill, action: say("delete"), danger: true, act })) await again();
  };
  const memory = list({ label: say("bot_memory"), empty: empty(say("bot_memory_empty")) });
  memory.update(known.map((/** @type {any} */ fact, /** @type {number} */ at) => ({
    key: `${at}-${fact.key}`,
    title: fact.value,
    meta: `${fact.key} · ${moment(fact.updated, language())}`,
    menu: () => [{ text: say("forget"), icon: "trash", danger: true, act: () => below.during(() => forget(fact.key)) }],
  })));
  const shown = list({ label: say("bot_skills"), empty: empty(say("bot_skills_empty")) });
  shown.update(skills.map((/** @type {any} */ skill) => ({
    key: skill.name,
    title: skill.name,
    meta: skill.description,
    menu: () => [{ text: say("delete"), icon: "trash", danger: true, act: () => below.during(() => drop(skill.name)) }],
  })));
  const clear = async () => {
    const act = () => attempt(() => call("bots", "clear", { name }));
    if (await confirm({ title: say("bot_forget_all_sure", { name }), action: say("bot_forget_all"), danger: true, act })) await again();
  };
  panel.replaceChildren(
    below.element,
    section(say("bot_memory"), memory.element, ...(known.length > 1 ? [actions([{ text: say("bot_forget_all"), kind: "danger", act: clear }])] : [])),
    section(say("bot_skills"), ...problems.map((/** @type {string} */ each) => notice(each, "warn")), shown.element),
  );
}

/**
 * Return the lines of a diff, each with its class.
 * @param {string[]} lines
 */
export function diffLines(lines) {
  return lines.map((line) => {
    const kind = /^(\+\+\+|---|@@|diff |index )/.test(line) ? "hunk" : line.startsWith("+") ? "added" : line.startsWith("-") ? "gone" : "";
    return { line, kind };
  });
}

/**
 * Show what a bot has changed in its project, with a button that makes the changes in the person's folder.
 * @param {string} name
 * @param {HTMLElement} panel
 */
export async function project(name, panel) {
  const { project: has } = await call("bots", "show", { name });
  if (!has) return panel.replaceChildren(empty(say("bot_no_project"), undefined, "folder"));
  const found = await call("bots", "diff", { name });
  if (!found.files.length) return panel.replaceChildren(empty(say("bot_no_changes", { folder: found.folder }), undefined, "check"));
  const files = () => make("ul", { class: "changes plain-list" }, ...found.files.map(file));
  const code = make("pre", { class: "diff", tabindex: "0", "aria-label": say("bot_changes") });
  const put = (/** @type {string[]} */ lines) => code.append(...diffLines(lines).map(({ line, kind }) => make("span", { class: kind || null }, `${line}\n`)));
  put(found.lines);
  let { next } = found;
  const more = async () => {
    const page = await call("bots", "diff", { name, token: found.token, after: next });
    put(page.lines);
    next = page.next;
    if (!next) rest.remove();
  };
  const rest = actions([{ text: say("more_lines"), act: more }]);
  const apply = async () => {
    const act = () => attempt(() => call("bots", "apply", { name, token: found.token }));
    const text = [make("p", {}, say("bot_apply_text", { folder: found.folder })), files()];
    if (!(await confirm({ title: say("bot_apply_sure", { count: found.files.length }), text, action: say("bot_apply"), act }))) return;
    toast(say("bot_applied", { count: found.files.length }));
    await project(name, panel);
  };
  const left = found.left_out.map((/** @type {string[]} */ pair) => pair.join(": "));
  panel.replaceChildren(
    make("p", { class: "hint" }, say("bot_changes_in", { folder: found.folder })),
    files(),
    actions([{ text: say("bot_apply"), icon: "check", kind: "primary", act: apply }]),
    ...(left.length ? [notice(say("bot_left_out", { files: left.join(", ") }), "warn")] : []),
    code,
    ...(next ? [rest] : []),
  );
}

/** @param {{letter: string, path: string}} each */
function file({ letter, path }) {
  const word = CHANGES[letter] ? say(CHANGES[letter]) : letter;
  return make("li", {}, make("span", { class: "badge" }, word), " ", make("code", {}, path));
}
