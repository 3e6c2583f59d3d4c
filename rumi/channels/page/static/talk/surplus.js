// @ts-check
// Which entries of a long conversation a window need not keep: it can load them again.

/** @typedef {import("../types.js").Head} Head */
/** @typedef {import("./entries.js").Known} Known */

/** As many entries stay as the server keeps. */
export const MOST_ENTRIES = 200;

/** Entries are taken away so many at a time, so that this is seldom done. */
export const STEP = 40;

/** Texts of so many characters stay: coloured code takes some hundred times its size in memory. */
export const MOST_CHARS = 400_000;
const STEP_CHARS = 100_000;

/**
 * Return the heads of the oldest entries that need not stay; none while few are too many. The entries of a
 * message, such as its answer, go together, because they are loaded again together.
 * @param {Head[]} heads all entries, in their order
 * @param {number[]} [sizes] the characters of each entry's texts
 * @returns {Head[]}
 */
export function surplus(heads, sizes = []) {
  let cut = heads.length > MOST_ENTRIES + STEP ? heads.length - MOST_ENTRIES : 0;
  let chars = sizes.reduce((sum, size) => sum + size, 0);
  if (chars > MOST_CHARS + STEP_CHARS) {
    let first = 0;
    while (first < heads.length - 2 && chars > MOST_CHARS) chars -= sizes[first++];
    cut = Math.max(cut, first);
  }
  if (!cut) return [];
  const busy = heads.findIndex(({ state }) => state !== "done" && state !== "sent");
  if (busy >= 0) cut = Math.min(cut, busy);
  // A turn has the number of its first message: nothing that stays may have a number of what goes.
  const parts = () => heads.slice(cut).some(({ number }) => number && number <= last());
  const last = () => Math.max(...heads.slice(0, cut).map(({ number }) => number));
  while (cut > 0 && parts()) cut--;
  return heads.slice(0, cut);
}

/**
 * The characters of an entry's texts.
 * @param {Known} known
 */
export function charsOf(known) {
  let count = 0;
  for (const { text } of known.parts.values()) count += text?.raw.length ?? 0;
  return count;
}
