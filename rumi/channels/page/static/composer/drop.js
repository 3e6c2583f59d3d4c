// @ts-check
// Files that are dropped anywhere on the page.

import { byId, make, say } from "../dom.js";
import { icon, toast } from "../ui.js";

/**
 * Take files that are dropped, and show where they go while they are dragged.
 * @param {(files: File[]) => void} take
 */
export function begin(take) {
  const target = make("div", { id: "drop", "aria-hidden": "true" }, icon("attach"), make("span", {}, say("drop_here")));
  byId("talk").append(target);
  let inside = 0;
  const shows = (/** @type {boolean} */ on) => document.body.classList.toggle("dropping", on);
  const fits = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") && !document.querySelector("dialog[open]");
  addEventListener("dragenter", (event) => {
    if (!fits(event)) return;
    inside += 1;
    shows(true);
  });
  addEventListener("dragleave", (event) => {
    if (!fits(event)) return;
    inside = Math.max(0, inside - 1);
    if (!inside) shows(false);
  });
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = fits(event) ? "copy" : "none";
  });
  addEventListener("drop", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault(); // the browser would leave the page for the file
    inside = 0;
    shows(false);
    if (fits(event)) take(filesOf(event.dataTransfer));
  });
}

/** @param {DataTransfer} dropped */
function filesOf(dropped) {
  const folders = [...dropped.items].filter((item) => item.webkitGetAsEntry?.()?.isDirectory);
  if (folders.length) toast(say("no_folders"), { bad: true });
  const names = folders.map((item) => item.getAsFile()?.name);
  return [...dropped.files].filter((file) => !names.includes(file.name));
}
