// @ts-check
// Servers of tools (MCP): their state in words, what their tools say, and the acceptance of what they say.

import { call } from "../connection.js";
import { make, say } from "../dom.js";
import { dialog, empty, list, notice, toast } from "../ui.js";
import { commandLine, doing, folded, outcome } from "./acting.js";
import { facts } from "./acts.js";
import { effect, serverState } from "./managed.js";

/** @typedef {{name: string, state: string, why: string, advice: string, tools: string[], withheld: string[], unusable: Record<string, string>, notes: string[], refused: {host: string, times: number}[], calls: number, failures: number, login?: {state: string}}} Server */
/** @typedef {{name: string, asks?: string, accepted: boolean, unusable?: string, description: string, changes?: {path: string, before: string | null, now: string | null}[]}} Tool */

const REFRESH_MS = 5000;

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("servers"), open };

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const { place, act } = outcome();
  const shown = list({ label: say("servers"), empty: empty(say("servers_empty"), undefined, "plug") });
  const add = make("details", {}, make("summary", {}, say("server_add")), adding());
  body.append(make("div", { class: "panel servers stack" }, make("p", { class: "faint" }, say("servers_about")), place, shown.element, add));

  async function refresh() {
    /** @type {Server[]} */
    const servers = await call("mcp");
    if (signal.aborted) return;
    shown.update(servers.map(row));
    if (!servers.length) add.setAttribute("open", "");
  }
  /** @param {Server} server @returns {import("../lists.js").ListRow} */
  function row(server) {
    const [dot, state] = serverState(server);
    const failed = server.state === "failed";
    return {
      key: server.name,
      title: server.name,
      dot,
      badge: say(...state),
      tone: dot === "bad" || dot === "warn" || dot === "ok" ? dot : "",
      meta: failed ? [server.why, server.advice].filter(Boolean).join(" ") : say("server_counts", { tools: server.tools.length, calls: server.calls, failures: server.failures }),
      act: () => show(server, refresh),
    };
  }
  await act(null, refresh);
  const timer = setInterval(() => refresh().catch(() => {}), REFRESH_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** How to add a server: in a terminal, as secrets never pass through the page. */
function adding() {
  return make("div", { class: "stack" },
    make("p", {}, say("server_add_about")),
    commandLine("rumi mcp add NAME -- COMMAND"),
    commandLine("rumi mcp add NAME --url https://…"),
    make("p", { class: "faint" }, say("server_add_after")),
  );
}

/**
 * Show a server; its tools are read from it when the person asks.
 * @param {Server} server
 * @param {() => Promise<void>} refresh
 */
async function show(server, refresh) {
  const { place, act } = outcome();
  const found = make("div", { class: "stack" });
  const test = doing(say("server_test"), (button) => act(button, async () => {
    found.replaceChildren(make("p", { role: "status" }, say("server_testing")));
    try {
      const tested = await call("mcp", "test", { name: server.name });
      const accept = doing(say("server_accept"), (pressed) => act(pressed, async () => {
        const accepted = await call("mcp", "accept", { name: server.name, digest: tested.digest });
        found.replaceChildren(...read(accepted));
        toast(say("server_accepted", { name: server.name }));
        await refresh();
      }), "primary");
      found.replaceChildren(...read(tested));
      if (tested.tools.some((/** @type {Tool} */ tool) => !tool.accepted && !tool.unusable)) found.append(make("div", {}, accept));
    } catch (error) {
      found.replaceChildren();
      throw error;
    }
  }), server.withheld.length || server.state === "failed" ? "primary" : "");
  const [, state] = serverState(server);
  const whole = make("div", { class: "stack server-text" },
    facts([
      [say("about_state"), say(...state)],
      [say("server_tools"), server.tools.join(", ")],
      [say("server_withheld"), server.withheld.join(", ")],
      [say("server_login"), server.login ? say(server.login.state === "logged in" ? "server_logged_in" : "server_needs_login") : ""],
    ]),
    ...(server.state === "failed" ? [notice([server.why, server.advice].filter(Boolean).join(" "), "bad")] : []),
    ...server.notes.map((note) => notice(note, "warn")),
    ...refusals(server.refused),
    make("div", {}, test), place, found,
  );
  await dialog({ title: server.name, body: whole, wide: true });
}

/** @param {{host: string, times: number}[]} refused */
function refusals(refused) {
  return refused.map((each) => notice(say("server_refused", each), "warn"));
}

/**
 * Return what a test has found: first what has changed, then what waits, then the rest.
 * @param {{tools: Tool[], gone: string[], notes: string[], refused: {host: string, times: number}[]}} tested
 * @returns {Node[]}
 */
function read({ tools, gone, notes, refused }) {
  const waiting = tools.filter((tool) => !tool.accepted && !tool.unusable);
  const rest = tools.filter((tool) => !waiting.includes(tool));
  return [
    notice(waiting.length ? say(waiting.length === 1 ? "server_waits_one" : "server_waits", { count: waiting.length }) : say("server_works", { count: rest.length }), waiting.length ? "warn" : ""),
    ...notes.map((note) => notice(note, "warn")),
    ...refusals(refused),
    ...gone.map((name) => notice(say("tool_gone", { name }), "warn")),
    ...waiting.map((tool) => toolText(tool)),
    ...(rest.length ? [folded(say("tools_accepted", { count: rest.length }), () => rest.map((tool) => toolText(tool)))] : []),
  ];
}

/** @param {Tool} tool */
function toolText(tool) {
  const changes = (tool.changes ?? []).map((change) => make("div", { class: "change" },
    make("code", {}, change.path),
    ...(change.before === null ? [] : [make("del", { dir: "auto" }, make("span", { class: "unseen" }, `${say("before")}: `), change.before)]),
    ...(change.now === null ? [] : [make("ins", { dir: "auto" }, make("span", { class: "unseen" }, `${say("now")}: `), change.now)]),
  ));
  const claim = tool.unusable ? make("span", { class: "badge bad" }, say("tool_unusable")) : make("span", { class: "badge" }, say(effect(tool.asks)));
  return make("article", { class: "tool-text" },
    make("h3", { class: "row wrap" }, make("code", {}, tool.name), claim),
    make("p", { dir: "auto" }, tool.unusable || tool.description),
    ...(changes.length ? [make("p", { class: "faint" }, say("tool_changed")), ...changes] : []),
  );
}
