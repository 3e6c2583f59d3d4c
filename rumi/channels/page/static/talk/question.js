// @ts-check
// The text of a question as what is asked, where it comes from, and one row for each real value.

/** @typedef {{name: string, path: string, value: string, lines?: boolean}} ValueRow `lines`: a text with its lines */

/**
 * Read a question's text: its first line is what is asked, a line with two spaces is a value by its name, and
 * one with four is one value of the name above. Lines behind a bar are one text: whatever they say, they are
 * no rows of their own. What is neither goes on with the value above.
 * @param {string} text
 * @returns {{from: string, asks: string, rows: ValueRow[]}}
 */
export function read(text) {
  const [first, ...lines] = text.split("\n");
  // The question is the last sentence; the one before says where the words come from.
  const two = /^(.{20,}?[.!。])\s+([^.].*[?？])$/.exec(first.trim());
  /** @type {ValueRow[]} */
  const rows = [];
  let name = "";
  for (const line of lines) {
    if (line.startsWith("    │")) {
      const said = line.slice("    │ ".length);
      const last = rows.at(-1);
      if (last?.lines && last.name === name) last.value += `\n${said}`;
      else rows.push({ name, path: "", value: said, lines: true });
      continue;
    }
    const value = /^( {2}| {4})(\S[^:]*):(?: (.*))?$/.exec(line);
    if (value && value[1].length === 2) {
      name = value[2];
      if (value[3] !== undefined) rows.push({ name, path: "", value: value[3] });
    } else if (value && name) {
      rows.push({ name, path: value[2], value: value[3] ?? "" });
    } else if (rows.length) {
      rows[rows.length - 1].value += `\n${line}`;
    } else if (line.trim()) {
      rows.push({ name: "", path: "", value: line });
    }
  }
  return { from: two ? two[1] : "", asks: two ? two[2] : first, rows };
}

/**
 * Return the answer that a key gives, if it may: not where text is typed, not with another key, not when held.
 * @param {{key: string, ctrlKey: boolean, metaKey: boolean, altKey: boolean, repeat: boolean}} event
 * @param {{inCard: boolean, typing: boolean, free: boolean, age: number}} where `free` means that nothing has the focus
 * @param {string} [yes] the letter of the reader's word for yes, which counts beside y
 * @returns {boolean | null}
 */
export function answerOf(event, where, yes = "y") {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || where.typing) return null;
  if (!where.inCard && !where.free) return null;
  if (where.age < 500) return null; // whoever was typing meant something else
  const key = event.key.toLowerCase();
  return key === "y" || key === yes ? true : key === "n" ? false : null;
}

/**
 * Return the letter of a word, without its accent.
 * @param {string} word
 */
export function letterOf(word) {
  return word.normalize("NFD")[0]?.toLowerCase() ?? "";
}
