// @ts-check
// Skills: instructions that Rumi reads when they fit a request. On, off, untrusted, or unreadable.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { confirm, dialog, empty, field, list, notice, toast } from "../ui.js";
import { doing, folded, outcome } from "./acting.js";
import { attempt, facts } from "./acts.js";

/** @typedef {{name: string, description: string, version: string, source: string, code: boolean, on: boolean, off_because: string | null, state: string, folder: string, notes: string[]}} Skill */

const DOTS = /** @type {Record<string, "ok" | "off" | "warn">} */ ({ on: "ok", off: "off", untrusted: "warn" });
const SOURCES = /** @type {Record<string, string>} */ ({ bundled: "skill_bundled", home: "skill_home", dirs: "skill_dirs", project: "skill_project" });

/** The folder whose skills are shown too; it stays until the page is loaded again. */
let project = "";

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("skills"), open };

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const { place, act } = outcome();
  const problems = make("div", { class: "stack" });
  const shown = list({ label: say("skills"), empty: empty(say("skills_empty"), undefined, "skill") });
  const folder = field({ name: "folder", label: say("skills_folder"), value: project, hint: say("skills_folder_hint") });
  const look = doing(say("skills_look"), async (button) => {
    const before = project;
    project = folder.value().trim();
    if (!(await act(button, refresh))) project = before;
  });
  /** @type {Map<string, HTMLInputElement>} */
  const switches = new Map();

  async function refresh() {
    const answer = await call("skills", "list", { project });
    if (signal.aborted) return;
    /** @type {Skill[]} */
    const skills = answer.skills;
    shown.update(skills.map(row));
    for (const skill of skills) {
      const input = /** @type {HTMLInputElement} */ (switches.get(keyOf(skill)));
      input.checked = skill.state !== "off";
      input.disabled = skill.off_because === "itself" || skill.off_because === "environment";
    }
    problems.replaceChildren(...answer.problems.map((/** @type {string} */ text) => notice(text, "bad")));
  }

  /** @param {Skill} skill @returns {import("../lists.js").ListRow} */
  function row(skill) {
    return {
      key: keyOf(skill),
      title: skill.name,
      dot: DOTS[skill.state],
      state: say(`skill_${skill.state}`),
      badge: skill.state === "untrusted" ? say("skill_untrusted") : skill.source === "project" ? say("skill_of_folder") : "",
      tone: skill.state === "untrusted" ? "warn" : "",
      meta: [...skill.notes, why(skill) || skill.description].join(" · "),
      act: () => read(skill, again),
      actions: () => {
        const input = make("input", { type: "checkbox", role: "switch", "aria-label": say("skill_switch", { name: skill.name }) });
        switches.set(keyOf(skill), input);
        input.addEventListener("change", async () => {
          const works = input.checked ? "enable" : "disable";
          await act(null, () => call("skills", works, { name: skill.name, project }));
          await again(false);
        });
        return [input];
      },
    };
  }

  const again = async (clear = true) => void (clear ? await act(null, refresh) : await refresh().catch(() => {}));
  body.append(make("div", { class: "panel skills stack" },
    make("p", { class: "faint" }, say("skills_about")), place, problems, shown.element,
    folded(say("skills_of_folder"), () => [make("div", { class: "stack" }, folder.row, make("div", {}, look))]),
  ));
  await act(null, refresh);
}

/** @param {Skill} skill */
function keyOf(skill) {
  return `${skill.source}/${skill.name}`;
}

/**
 * Why a skill is off, if not by its switch.
 * @param {Skill} skill
 */
function why(skill) {
  if (skill.off_because === "itself") return say("skill_off_itself");
  return skill.off_because === "environment" ? say("skill_off_environment") : "";
}

/**
 * Show a skill with its whole text; one of a project can be trusted there.
 * @param {Skill} skill
 * @param {() => Promise<void>} refresh
 */
async function read(skill, refresh) {
  const { place, act } = outcome();
  const room = make("div", { class: "stack skill-text" }, place);
  const closed = dialog({ title: skill.name, body: room, wide: true });
  await act(null, async () => {
    const whole = await call("skills", "show", { name: skill.name, project });
    room.append(...described(whole));
    if (skill.state === "untrusted" || !whole.trusted) {
      room.append(make("div", {}, doing(say("skill_trust"), () => trust(whole, refresh), "primary")));
    }
  });
  await closed;
}

/**
 * @param {any} whole
 * @returns {Node[]}
 */
function described(whole) {
  const files = whole.files.map((/** @type {any} */ file) => file.path ?? file.name ?? String(file));
  if (whole.more_files) files.push(say("and_more", { count: whole.more_files }));
  return [
    make("p", { dir: "auto" }, whole.description),
    facts([
      [say("about_state"), say(`skill_${whole.state}`)],
      [say("skill_from"), say(SOURCES[whole.source] ?? "skill_home")],
      [say("skill_version"), whole.version ?? ""],
      [say("skill_may"), may(whole)],
      [say("skill_files"), files.join(", ")],
      [say("skill_hides"), whole.hides.length ? say("skill_hides_about") : ""],
      [say("skill_license"), whole.license ?? ""],
      [say("skill_place"), whole.folder],
    ]),
    ...whole.notes.map((/** @type {string} */ note) => notice(note, "warn")),
    make("pre", { class: "whole", tabindex: "0", dir: "auto", "aria-label": say("skill_text") }, whole.instructions),
  ];
}

/**
 * What a skill may do, in words.
 * @param {any} whole
 */
function may(whole) {
  const said = [say(whole.code ? "skill_may_code" : "skill_may_words")];
  if (whole.needs.length) said.push(say("skill_needs", { tools: whole.needs.join(", ") }));
  return said.join(" ");
}

/**
 * @param {any} whole
 * @param {() => Promise<void>} refresh
 */
async function trust(whole, refresh) {
  const body = [
    make("p", {}, may(whole)),
    make("p", {}, say("skill_trust_about")),
    make("pre", { class: "whole", tabindex: "0", dir: "auto", "aria-label": say("skill_text") }, whole.instructions),
  ];
  const act = () => attempt(() => call("skills", "trust", { name: whole.name, project }));
  if (!(await confirm({ title: say("skill_trust_sure", { name: whole.name }), text: body, action: say("skill_trust_yes"), act }))) return;
  toast(say("skill_trusted", { name: whole.name }));
  await refresh();
}
