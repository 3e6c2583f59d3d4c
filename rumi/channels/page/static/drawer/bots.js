// @ts-check
// Bots: assistants that work on a goal by themselves. The list, and a new one.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { button, empty, form, list, toast } from "../ui.js";
import { attempt, failures, inWords } from "./acts.js";
import { botStart, oneBot } from "./bot.js";
import { refreshed } from "./live.js";
import { openPages } from "./pages.js";
import { isOpen, marksOf } from "./task_states.js";
import { language, moment } from "./times.js";

/**
 * Return a bot's state: `asks` if it waits for an answer, `none` if it has never been started.
 * @param {any} bot
 * @param {any[]} waiting entries of `approvals.list`
 */
export function stateOf(bot, waiting) {
  if (bot.problem) return "problem";
  if (isOpen(bot.state) && waiting.some((each) => each.bot === bot.name)) return "asks";
  return bot.state ?? "none";
}

/** A bot's state in words.
 * @param {any} bot
 * @param {string} state
 */
export function stateWords(bot, state) {
  if (state === "sleeping" && bot.wake_at) return say("bot_sleeps_until", { time: moment(bot.wake_at, language()) });
  return say(`bot_state_${state}`);
}

/** The mark of a bot's state.
 * @param {string} state
 */
export function botMarks(state) {
  if (state === "asks") return /** @type {const} */ ({ dot: "ask", tone: "accent" });
  if (state === "problem") return /** @type {const} */ ({ dot: "bad", tone: "bad" });
  return marksOf(state);
}

/** Ask for a new bot; return its name, or null. */
async function newBot() {
  const made = await form({
    title: say("bot_new"),
    text: say("bots_about"),
    fields: [
      { name: "name", label: say("bot_name"), required: true, most: 40, hint: say("bot_name_hint"), placeholder: "garden" },
      { name: "description", label: say("bot_description"), type: "textarea", rows: 3, placeholder: say("bot_description_example") },
    ],
    action: say("create"),
    submit: ({ name, description }) => attempt(() => call("bots", "create", { name: name.trim(), description })),
  });
  if (!made) return null;
  toast(say("bot_created"));
  return /** @type {string} */ (made.name.trim());
}

/** @type {import("./drawer.js").Panel} */
export const panel = {
  title: () => say("bots"),
  open: async (body, signal, about) => {
    const pages = openPages(body, signal, async (pages, root, own) => {
      const below = failures();
      const enter = (/** @type {string} */ name) => pages.open(name, name, oneBot(name, pages));
      const begin = async () => {
        const name = await newBot();
        if (name) enter(name);
      };
      const shown = list({ label: say("bots"), empty: empty(say("bots_empty"), { text: say("bot_new"), act: begin }, "bot") });
      const add = button({ text: say("bot_new"), icon: "plus", kind: "primary", act: begin });
      const head = make("div", { class: "panel-head" }, make("p", { class: "hint" }, say("bots_about")), add);
      root.append(head, below.element, shown.element);
      const update = refreshed(own, async () => {
        const [bots, waiting] = await Promise.all([call("bots", "list"), call("approvals", "list")]);
        if (own.aborted) return;
        head.hidden = !bots.length;
        shown.update(bots.map((/** @type {any} */ bot) => {
          const state = stateOf(bot, waiting);
          const act = (/** @type {() => Promise<unknown>} */ work) => async () => {
            await below.during(work);
            await update.now();
          };
          return {
            key: bot.name,
            title: bot.name,
            meta: bot.problem || [bot.description, bot.goal].filter(Boolean).join(" · "),
            ...botMarks(state),
            state: stateWords(bot, state),
            badge: stateWords(bot, state),
            act: () => enter(bot.name),
            menu: () => isOpen(bot.state)
              ? [{ text: say("stop"), icon: /** @type {const} */ ("stop"), danger: true, act: act(() => call("bots", "stop", { name: bot.name })) }]
              : [{ text: say("bot_start"), icon: /** @type {const} */ ("play"), act: act(() => botStart(bot.name)) }],
          };
        }));
      }, (error) => below.tell(inWords(error)));
      await update.first;
    });
    if (about.name) pages.open(about.name, about.name, oneBot(about.name, pages));
    await pages.ready;
  },
};
