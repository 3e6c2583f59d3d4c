// @ts-check
// The house in one line each: schedules, bots and tasks, memory, status with today's cost, settings.

import { currentState, glance, on, onState } from "../connection.js";
import { make, say, set } from "../dom.js";
import { onPanel } from "../drawer/drawer.js";
import { icon } from "../ui.js";

/** The board is read this often while the side is shown; a chat's work is seen at once by its mark. */
const GLANCE_MS = 20_000;
const LEAST_USD = 0.01;

/** @typedef {import("../drawer/drawer.js").PanelName} PanelName */
/** @type {{panel: PanelName, with: string[], icon: import("../icons.js").IconName, text: string}[]} */
const LINES = [
  { panel: "schedules", with: [], icon: "clock", text: "schedules" },
  { panel: "bots", with: ["tasks"], icon: "bot", text: "bots_and_tasks" },
  { panel: "memory", with: ["skills"], icon: "memory", text: "memory_and_skills" },
  { panel: "status", with: ["budgets"], icon: "pulse", text: "status" },
  { panel: "settings", with: ["models", "servers", "people", "logins"], icon: "settings", text: "settings" },
];

const warning = make("div", { class: "notice warn", role: "status", hidden: true }, icon("warn"), make("div", {}));
/** The lines, and a warning above them. */
export const element = make("div", { id: "house" }, warning);
/** @type {Map<string, HTMLElement>} */
const figures = new Map();

/**
 * Return what a line says beside its name.
 * @param {any} board
 */
export function figuresOf(board) {
  const bots = board.bots.filter((/** @type {any} */ bot) => bot.state === "running").length;
  const running = bots + (board.tasks ?? 0);
  const usd = board.spending?.today?.usd ?? 0;
  const wrong = troublesOf(board).length;
  return {
    schedules: board.schedules_active ? say("schedules_active", { count: board.schedules_active }) : "",
    bots: running ? say("runs", { count: running }) : "",
    status: [say(wrong ? "needs_attention" : "all_well"), ...(usd > 0 ? [say("cost_today", { cost: money(usd) })] : [])].join(" · "),
  };
}

/**
 * Return what keeps Rumi from working as it should, as sentences.
 * @param {any} board
 * @returns {string[]}
 */
function troublesOf(board) {
  return [...(board.trouble ? [`${say(`storage_${board.trouble}`)}.`] : []), ...board.degraded];
}

/** @param {number} usd */
function money(usd) {
  const about = /** @type {const} */ ({ style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" });
  return `${usd < LEAST_USD ? "< " : ""}${Math.max(usd, LEAST_USD).toLocaleString(document.documentElement.lang, about)}`;
}

/** @param {any} board */
function show(board) {
  if (!board.bots) return; // the server has not looked yet
  for (const [name, text] of Object.entries(figuresOf(board))) set(/** @type {HTMLElement} */ (figures.get(name)), "textContent", text);
  const [first, ...others] = troublesOf(board);
  warning.hidden = !first;
  const text = warning.lastElementChild;
  if (text) set(text, "textContent", first ? [first, ...(others.length ? [say("and_more", { count: others.length })] : [])].join(" ") : "");
}

/** Read the figures now. */
export function look() {
  if (document.visibilityState === "visible" && currentState() === "live" && element.offsetParent !== null) glance("board");
}

/** @param {import("../page.js").Page} page */
export function begin(page) {
  for (const line of LINES) {
    const about = make("small", {});
    figures.set(line.panel, about);
    const press = make("button", { type: "button", class: "quiet", "data-panel": line.panel }, icon(line.icon), make("span", { class: "clip" }, say(line.text)), about);
    press.addEventListener("click", () => page.openPanel(line.panel));
    onPanel((name) => press.setAttribute("aria-expanded", String(name === line.panel || line.with.includes(name))));
    element.append(press);
  }
  on("board", show);
  onState((state) => state === "live" && look());
  setInterval(look, GLANCE_MS);
  document.addEventListener("visibilitychange", look);
}
