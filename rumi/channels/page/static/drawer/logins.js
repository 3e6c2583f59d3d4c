// @ts-check
// The browsers that are logged in, their end, and a link for another one.

import { forgetAll } from "../composer/drafts.js";
import { call, post } from "../connection.js";
import { draw, make, say } from "../dom.js";
import { confirm, dialog, list, toast } from "../ui.js";
import { copies } from "../copy.js";
import { doing, moment, outcome } from "./acting.js";
import { attempt } from "./acts.js";
import { ownFirst } from "./managed.js";

/** @typedef {{id: string, name: string, language: string, created: string, seen: string}} Login */

/** @type {import("./drawer.js").Panel} */
export const panel = { title: () => say("logins"), open };

/**
 * @param {HTMLElement} body
 * @param {AbortSignal} signal
 */
async function open(body, signal) {
  const own = document.body.dataset.session ?? "";
  const { place, act } = outcome();
  const shown = list({ label: say("logins") });
  const others = doing(say("logout_others"), endOthers, "danger");
  const link = doing(say("login_new"), (button) => act(button, newLink), "primary");
  const leave = doing(say("logout"), (button) => act(button, logOut));
  const bar = make("div", { class: "row wrap" }, link, leave, others);
  body.append(make("div", { class: "panel logins stack" }, make("p", { class: "faint" }, say("logins_about")), bar, place, shown.element));
  /** @type {Login[]} */
  let logins = [];

  async function refresh() {
    /** @type {Login[]} */
    const found = await call("page", "sessions");
    if (signal.aborted) return;
    logins = ownFirst(found, own);
    shown.update(logins.map(row));
    others.hidden = logins.every((login) => login.id === own);
  }

  /** @param {Login} login @returns {import("../lists.js").ListRow} */
  function row(login) {
    const here = login.id === own;
    return {
      key: login.id,
      title: login.name || say("login_unknown"),
      badge: here ? say("this_browser") : "",
      tone: "accent",
      meta: say("login_times", { created: moment(login.created), seen: moment(login.seen) }),
      ...(here ? {} : { actions: () => [doing(say("logout_one"), () => endOne(login), "quiet")] }),
    };
  }

  /** @param {Login} login */
  async function endOne(login) {
    const name = login.name || say("login_unknown");
    const work = () => attempt(() => call("page", "revoke", { id: login.id }));
    if (!(await confirm({ title: say("logout_one_sure", { name }), text: say("logout_one_about"), action: say("logout_one"), danger: true, act: work }))) return;
    toast(say("logged_out", { name }));
    await act(null, refresh);
  }

  async function endOthers() {
    const work = () => attempt(async () => {
      for (const login of logins) if (login.id !== own) await call("page", "revoke", { id: login.id });
    });
    if (!(await confirm({ title: say("logout_others_sure"), text: say("logout_one_about"), action: say("logout_others"), danger: true, act: work }))) return;
    await act(null, refresh);
  }

  await act(null, refresh);
}

async function logOut() {
  forgetAll();
  await post("/logout", {});
  location.assign("/");
}

async function newLink() {
  const { link, code, minutes, qr } = await call("page", "link", { qr: true });
  const body = make("div", { class: "new-login stack" },
    make("p", {}, say("login_about", { minutes })),
    drawn(qr),
    make("div", { class: "command" }, make("code", {}, link), copies(say("login_copy"), () => link)),
    make("p", {}, say("login_code"), " ", make("strong", {}, code)),
  );
  void dialog({ title: say("login_new"), body });
}

/**
 * Draw a QR code. It is dark on light in both themes, as cameras expect it.
 * @param {string[]} rows of `0` and `1`
 */
function drawn(rows) {
  const dark = rows.flatMap((row, y) => [...row].flatMap((each, x) => (each === "1" ? [`M${x} ${y}h1v1h-1z`] : []))).join("");
  const about = { class: "qr", viewBox: `0 0 ${rows[0].length} ${rows.length}`, role: "img", "aria-label": say("login_qr"), "shape-rendering": "crispEdges" };
  return draw("svg", about, draw("path", { d: dark }));
}
