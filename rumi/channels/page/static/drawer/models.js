// @ts-check
// Models: which one this chat uses, which ones can be used, and whether they answer.

import { call, currentChat } from "../connection.js";
import { make, say } from "../dom.js";
import { empty, field, icon, list, notice, toast } from "../ui.js";
import { commandLine, doing, outcome } from "./acting.js";
import { inWords } from "./acts.js";
import { keyState, price, usable } from "./managed.js";

/** @typedef {import("./managed.js").Model} Model */

const DEMO = "offline";

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("models"), open };

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const { place, act } = outcome();
  const shown = list({ label: say("models_ready") });
  const others = list({ label: say("models_others"), empty: empty(say("nothing_found"), undefined, "search") });
  const words = make("input", { type: "search", "aria-label": say("models_search"), placeholder: say("models_search"), autocomplete: "off" });
  const demo = make("div", {});
  /** What the tests have found, by model. @type {Map<string, string>} */
  const tested = new Map();
  /** @type {Model[]} */
  let models = [];
  /** @type {Record<string, string>} */
  let aliases = {};
  let chosen = "";

  async function refresh() {
    const [found, use] = await Promise.all([call("models", "list"), call("models", "chosen", { chat: currentChat() })]);
    if (signal.aborted) return;
    ({ models, aliases } = found);
    chosen = aliases[use.model] ?? use.model;
    show();
  }

  function show() {
    const [ready, more] = usable(models, chosen);
    shown.update(ready.map(row));
    const wanted = words.value.trim().toLocaleLowerCase();
    others.update(more.filter((model) => model.model.toLocaleLowerCase().includes(wanted)).map(row));
    demo.replaceChildren(...(chosen === DEMO ? [demoText()] : []));
  }

  /** @param {Model} model @returns {import("../lists.js").ListRow} */
  function row(model) {
    const [dot, key] = keyState(model);
    const names = Object.keys(aliases).filter((name) => aliases[name] === model.model);
    const about = [
      ...(names.length ? [names.join(", ")] : []),
      model.model === DEMO ? say("model_demo") : say(...key),
      ...(model.context ? [say("model_context", { count: model.context.toLocaleString(document.documentElement.lang) })] : []),
      ...(model.usd_per_million ? [say("model_price", { input: price(model.usd_per_million[0]), output: price(model.usd_per_million[1]) })] : []),
      ...(model.pictures ? [say("model_pictures")] : []),
    ];
    const test = tested.get(model.model);
    return {
      key: model.model,
      title: model.model,
      dot,
      badge: model.model === chosen ? say("model_here") : "",
      tone: "accent",
      meta: [...(test ? [test] : []), about.join(" · ")].join(" — "),
      act: () => use(model.model, null),
      menu: () => [
        { text: say("model_use"), icon: "check", act: () => use(model.model, null), disabled: model.model === chosen },
        { text: say("model_test"), icon: "pulse", act: () => test1(model.model) },
      ],
    };
  }

  /** @param {string} model @param {HTMLButtonElement | null} button */
  async function use(model, button) {
    if (model === chosen) return;
    const done = await act(button, async () => {
      const answer = await call("models", "use", { chat: currentChat(), model });
      chosen = aliases[answer.model] ?? answer.model;
    });
    show();
    if (done) toast(say("model_used", { model: chosen }));
  }

  /** @param {string} model */
  async function test1(model) {
    tested.set(model, say("model_testing"));
    show();
    try {
      const [answer] = await call("models", "check", { models: [model] });
      tested.set(model, answer.ok ? say("model_answers", { seconds: answer.seconds.toFixed(1) }) : say("model_fails", { why: answer.told }));
    } catch (error) {
      tested.set(model, say("model_fails", { why: inWords(error) }));
    }
    if (!signal.aborted) show();
    place.replaceChildren(notice(`${model}: ${tested.get(model)}`));
  }

  words.addEventListener("input", show);
  const other = field({ name: "model", label: say("model_other"), hint: say("model_other_hint"), placeholder: "provider/model" });
  const more = make("details", {}, make("summary", {}, say("models_others")), make("div", { class: "stack" },
    make("label", { class: "find" }, icon("search"), words), others.element, other.row,
    make("div", {}, doing(say("model_use"), (button) => other.value().trim() && use(other.value().trim(), button))),
    make("p", { class: "faint" }, say("model_key_about")), commandLine("rumi setup"),
  ));
  body.append(make("div", { class: "panel models stack" }, make("p", { class: "faint" }, say("models_about")), demo, place, shown.element, more));
  await act(null, refresh);
}

/** The demo model is no language model: say so, and the way to one. */
function demoText() {
  return notice(make("div", { class: "stack" }, make("p", {}, say("demo_about")), make("p", {}, say("demo_way")), commandLine("rumi setup")), "warn");
}
