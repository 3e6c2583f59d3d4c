// @ts-check
// What the panels say of facts, models, servers, people and settings: logic without elements. A sentence is the
// name of a text with its values.

/** @typedef {[string, Record<string, unknown>]} Sentence */
/** @typedef {"" | "ok" | "warn" | "bad" | "work" | "off"} Dot */
/** @typedef {{key: string, value: string, source: string, chat: string, turn: string, tainted: boolean, created: string, updated: string}} Fact */

/**
 * Put the facts of each key together, in the order in which the keys come. Keys differ by more than case.
 * @param {Fact[]} facts
 */
export function byKey(facts) {
  /** @type {Map<string, Fact[]>} */
  const groups = new Map();
  for (const fact of facts) {
    const name = fact.key.toLocaleLowerCase();
    groups.set(name, [...(groups.get(name) ?? []), fact]);
  }
  return [...groups.values()];
}

/**
 * Return the values that somebody has written, one a line.
 * @param {string} text
 */
export function valuesIn(text) {
  return [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))];
}

/**
 * Return where a fact came from.
 * @param {Fact} fact
 * @returns {Sentence}
 */
export function origin(fact) {
  if (fact.tainted) return ["fact_tainted", {}];
  return [fact.source === "auto" ? "fact_noticed" : "fact_said", {}];
}

/** @typedef {{model: string, used_as: string[], key: string, context: number | null, usd_per_million: number[] | null, pictures: boolean}} Model */

/**
 * Return whether a model's key is there: a dot, and words.
 * @param {Model} model
 * @returns {[Dot, Sentence]}
 */
export function keyState(model) {
  const missing = / missing$/.test(model.key);
  if (missing) return ["off", ["key_missing", { variable: model.key.replace(/ missing$/, "") }]];
  if (model.key === "cannot be read") return ["bad", ["key_unreadable", {}]];
  if (model.key === "command") return ["ok", ["key_command", {}]];
  return ["ok", [model.key === "set" ? "key_set" : "key_not_needed", {}]];
}

/**
 * Return a price of a million tokens, to be read: `0.15`, `2`, `12.50`.
 * @param {number} usd
 */
export function price(usd) {
  return Number.isInteger(usd) ? String(usd) : usd >= 0.1 ? usd.toFixed(2) : String(Number(usd.toPrecision(2)));
}

/**
 * Return the models that can answer, those that are configured or chosen first, and the others.
 * @param {Model[]} models
 * @param {string} chosen
 * @returns {[Model[], Model[]]}
 */
export function usable(models, chosen) {
  const ready = (/** @type {Model} */ model) => model.model === chosen || model.used_as.length > 0;
  return [models.filter(ready), models.filter((model) => !ready(model))];
}

/**
 * Return the state of a server of tools: a dot, and words.
 * @param {{state: string, withheld: string[], tools: string[]}} server
 * @returns {[Dot, Sentence]}
 */
export function serverState({ state, withheld, tools }) {
  if (state === "failed") return ["bad", ["server_failed", {}]];
  if (withheld.length) return ["warn", [withheld.length === 1 ? "server_waits_one" : "server_waits", { count: withheld.length }]];
  if (state === "starting") return ["work", ["server_starting", {}]];
  if (state === "ready") return ["ok", ["server_ready", {}]];
  return ["off", [tools.length ? "server_rests" : "server_stopped", {}]];
}

const EFFECTS = /** @type {Record<string, string>} */ ({
  "only reads": "tool_reads",
  "only reads, outside too": "tool_reads_outside",
  "may change things": "tool_changes",
  destroys: "tool_destroys",
});

/**
 * Return the name of the text for what a tool may do, by its server's claim.
 * @param {string | undefined} effect
 */
export function effect(effect) {
  return EFFECTS[effect ?? ""] ?? "tool_changes";
}

/** @typedef {{admin: boolean, tools: string[] | null, models: string[] | null, schedules: number | null, bots: number | null, changes_files: boolean, limits: {unit: string, period: string, most: number}[]}} Rights */

/**
 * Return what a role may do, in sentences.
 * @param {Rights} rights
 * @returns {Sentence[]}
 */
export function mayDo(rights) {
  if (rights.admin) return [["may_all", {}]];
  /** @type {Sentence[]} */
  const said = [["may_talk", {}]];
  if (rights.tools === null) said.push(["may_tools_all", {}]);
  else said.push(rights.tools.length ? ["may_tools", { tools: rights.tools.join(", ") }] : ["may_no_tools", {}]);
  if (!rights.changes_files) said.push(["may_not_change", {}]);
  if (rights.models?.length) said.push(["may_models", { models: rights.models.join(", ") }]);
  else if (rights.models) said.push(["may_default_model", {}]);
  said.push(counted("may_schedules", rights.schedules), counted("may_bots", rights.bots));
  for (const { unit, period, most } of rights.limits) {
    const count = unit === "usd" ? price(most / 1e9) : most;
    said.push([`may_spend_${unit === "usd" ? "usd" : "tokens"}_${period === "month" ? "month" : "day"}`, { count }]);
  }
  return said;
}

/**
 * @param {string} word
 * @param {number | null} most
 * @returns {Sentence}
 */
function counted(word, most) {
  if (most === null) return [word, {}];
  return most ? [`${word}_most`, { count: most }] : [`${word}_none`, {}];
}

/**
 * Return the Telegram ids in a text, or null if one of its words is no id.
 * @param {string} text
 */
export function idsIn(text) {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  return words.every((word) => /^\d{1,15}$/.test(word)) && words.length ? words.map(Number) : null;
}

/** @typedef {{name: string, about: string, type: string, choices: string[], optional: boolean, minimum: number | null, maximum: number | null, default: any, value: any, set: boolean, running: any, waits_for_start: boolean, changeable: boolean, variable: string | null}} Setting */

/**
 * Return the settings by their groups: the part of a name before the dot.
 * @param {Setting[]} settings
 */
export function groups(settings) {
  /** @type {Map<string, Setting[]>} */
  const found = new Map();
  for (const setting of settings) {
    const group = setting.name.includes(".") ? setting.name.split(".")[0] : "general";
    found.set(group, [...(found.get(group) ?? []), setting]);
  }
  return [...found];
}

/**
 * Return what a field's value is for the call `settings.set`; undefined if the setting shall have no value.
 * @param {Setting} setting
 * @param {string | number | boolean | null} value
 */
export function wanted(setting, value) {
  if (value === null || (value === "" && setting.optional)) return undefined;
  return value;
}

/**
 * Return the logins, this browser first; the others keep their order.
 * @template {{id: string}} T
 * @param {T[]} logins
 * @param {string} own
 */
export function ownFirst(logins, own) {
  return [...logins].sort((one, other) => Number(other.id === own) - Number(one.id === own));
}
