// A small part of Markdown, built as elements. Nothing is ever parsed as HTML: what is not understood is text.

import { make } from "./dom.js";

/** The text as blocks: paragraphs, headings, lists, quotes, tables and code. */
export function markdown(text) {
  const blocks = [];
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  let at = 0;
  while (at < lines.length) {
    const fence = /^\s{0,3}(`{3,}|~{3,})/.exec(lines[at]);
    if (fence) {
      const code = [];
      at += 1;
      while (at < lines.length && !lines[at].trim().startsWith(fence[1])) code.push(lines[at++]);
      at += 1;
      blocks.push(make("pre", { tabindex: "0" }, make("code", {}, code.join("\n"))));
    } else if (/^#{1,6}\s/.test(lines[at])) {
      blocks.push(make("p", { class: "heading" }, ...inline(lines[at].replace(/^#+\s+/, ""))));
      at += 1;
    } else if (RULE.test(lines[at])) {
      blocks.push(make("hr"));
      at += 1;
    } else if (lines[at].startsWith("|")) {
      const found = [];
      while (at < lines.length && lines[at].startsWith("|")) found.push(lines[at++]);
      blocks.push(table(found));
    } else if (item(lines[at])) {
      const ordered = /^\s*\d/.test(lines[at]);
      const list = make(ordered ? "ol" : "ul", ordered ? { start: String(parseInt(lines[at], 10)) } : {});
      for (; at < lines.length && item(lines[at]); at += 1) list.append(make("li", {}, ...inline(item(lines[at]))));
      blocks.push(list);
    } else if (lines[at].startsWith(">")) {
      const quoted = [];
      while (at < lines.length && lines[at].startsWith(">")) quoted.push(lines[at++].replace(/^>\s?/, ""));
      blocks.push(make("blockquote", {}, ...inline(quoted.join("\n"))));
    } else if (lines[at].trim() === "") {
      at += 1;
    } else {
      const said = [];
      while (at < lines.length && lines[at].trim() !== "" && !begins(lines[at])) said.push(lines[at++]);
      if (said.length === 0) said.push(lines[at++]);
      blocks.push(make("p", {}, ...inline(said.join("\n"))));
    }
  }
  return blocks;
}

const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;

/** Rows of cells between bars; the first is the head where a line of dashes follows. */
function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const headed = lines.length > 1 && cells(lines[1]).every((cell) => /^:?-+:?$/.test(cell));
  const rows = lines.filter((_, place) => !headed || place !== 1).map((line, place) =>
    make("tr", {}, ...cells(line).map((cell) => make(headed && !place ? "th" : "td", {}, ...inline(cell)))),
  );
  return make("div", { class: "wide-table", tabindex: "0" }, make("table", {}, ...rows));
}

function begins(line) {
  return line.startsWith("|") || RULE.test(line) || /^\s{0,3}(`{3,}|~{3,})/.test(line) || /^#{1,6}\s/.test(line) || line.startsWith(">") || Boolean(item(line));
}

function item(line) {
  const found = /^\s*(?:[-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
  return found ? found[1] : "";
}

// Lengths are bounded: text of a stranger's must not keep the browser busy.
const INLINE = /(?<!`)(`{1,9})(?!`)([^`]|[^`][^]{0,500}?[^`])\1(?!`)|\*\*(?=\S)([^*]{1,500}?)\*\*|(?<![\w*])\*(?=\S)([^*\n]{1,500}?)\*(?!\w)|\[([^[\]\n]{1,300})\]\((https?:\/\/[^\s()<>]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"])/g;

const MOST_NODES = 2000;

/** A block's text with its marks, as far as there are not too many: the rest is text. */
function inline(text) {
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    if (nodes.length >= MOST_NODES) break;
    if (found.index > last) nodes.push(text.slice(last, found.index));
    const [, , code, strong, slanted, label, target, bare] = found;
    if (code !== undefined) nodes.push(make("code", {}, code));
    else if (strong !== undefined) nodes.push(make("strong", {}, strong));
    else if (slanted !== undefined) nodes.push(make("em", {}, slanted));
    else if (target !== undefined) nodes.push(...link(target, label));
    else nodes.push(...link(bare, bare));
    last = found.index + found[0].length;
  }
  if (last < text.length) nodes.push(text.slice(last));
  return nodes;
}

/** A link, and where it leads in plain sight: the words of a link may have been written by a stranger. */
function link(target, label) {
  let address;
  try {
    address = new URL(target);
  } catch {
    return [label];
  }
  if (address.protocol !== "https:" && address.protocol !== "http:") return [label];
  const element = make("a", { href: address.href, rel: "noopener noreferrer nofollow", target: "_blank" }, label);
  return label === target ? [element] : [element, ` (${address.host})`];
}
