// @ts-check
// What the house's figures mean: what is not in order and what to do, and the rows of the supervision tree.

/** @typedef {{name: string, values?: Record<string, unknown>, bad: boolean}} Finding */

/**
 * Return what is not in order, the worst first. `name` is a text, and `NAME_todo` the text of what to do.
 * @param {any} board
 * @returns {Finding[]}
 */
export function findings(board) {
  /** @type {Finding[]} */
  const found = [];
  if (board.trouble) found.push({ name: `trouble_${board.trouble}`, bad: true });
  for (const worker of board.workers) if (worker.state === "ended") found.push({ name: "trouble_worker", values: { name: worker.name }, bad: true });
  for (const chat of board.chats) if (chat.failed) found.push({ name: "trouble_chat", values: { chat: chat.id, why: chat.failed }, bad: true });
  const failed = board.actors.filter((/** @type {any} */ actor) => isBad(actor.state));
  if (failed.length) found.push({ name: "trouble_parts", values: { names: failed.map((/** @type {any} */ actor) => actor.id).join(", ") }, bad: true });
  for (const budget of board.spending.budgets ?? []) if (budget.share >= 1) found.push({ name: "trouble_budget", values: { of: budget.of }, bad: false });
  if (board.degraded.length) found.push({ name: "trouble_sandbox", values: { what: board.degraded.join(" · ") }, bad: false });
  return found;
}

/** Whether an actor in this state does not work.
 * @param {string} state
 */
export function isBad(state) {
  return !["running", "new", "starting", ""].includes(state);
}

/**
 * Return the lines that join each row to its parent, made from below: a level goes on if somebody below is on it.
 * @param {{depth: number}[]} actors
 */
export function guides(actors) {
  /** @type {boolean[]} */
  const open = [];
  /** @type {string[]} */
  const lines = [];
  for (const { depth } of [...actors].reverse()) {
    let line = "";
    for (let level = 1; level < depth; level += 1) line += open[level] ? "│ " : "\u2007 ";
    if (depth) line += open[depth] ? "├ " : "└ ";
    open.length = depth + 1;
    open[depth] = true;
    lines.unshift(line);
  }
  return lines;
}

/**
 * Return a key for each row of the tree: the path from the root.
 * @param {{depth: number, id: string}[]} actors
 */
export function paths(actors) {
  /** @type {string[]} */
  const path = [];
  return actors.map(({ depth, id }) => {
    path.length = depth;
    path.push(id);
    return path.join("/");
  });
}

/**
 * Return the last few restarts, newest first; what happened to the same actor again and again is one.
 * @param {any[]} restarts
 */
export function together(restarts) {
  /** @type {any[]} */
  const groups = [];
  for (const each of [...restarts].reverse()) {
    const last = groups[groups.length - 1];
    if (last && last.path === each.path && last.kind === each.kind) last.times += 1;
    else groups.push({ ...each, times: 1 });
  }
  return groups.slice(0, 5);
}
