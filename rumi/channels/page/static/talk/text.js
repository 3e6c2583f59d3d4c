// @ts-check
// A text that may grow: its closed blocks as the server has rendered them, and the open one as text.

import { make } from "../dom.js";
import { CodeBlock, coloured } from "./code.js";
import { fromServer } from "./html.js";
import { keeping } from "./selection.js";

/** @typedef {import("../types.js").Block} Block */

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n`]*)\n/;
const HEADING = /^ {0,3}(#{1,6}) +/;

/**
 * How the open block is shown until it closes: what it is, and the text of it. Nothing is shown of what may still
 * become a mark.
 * @param {string} text
 * @returns {{kind: "" | "code" | "heading" | "rows" | "plain", text: string, lang: string, settled: boolean}}
 */
export function opened(text) {
  const rest = text.replace(/^(?:[ \t]*\r?\n)+/, "");
  const fence = FENCE.exec(rest);
  if (fence) return { kind: "code", text: rest.slice(fence[0].length), lang: fence[2].trim().split(/\s/)[0] ?? "", settled: true };
  if (!rest.trim() || /^ {0,3}(`{1,}[^\n]*|~{1,}[^\n]*|#{1,6} *|[-*+>|]+ *)$/.test(rest)) {
    return { kind: "", text: "", lang: "", settled: false };
  }
  const heading = HEADING.exec(rest);
  if (heading) return { kind: "heading", text: rest.slice(heading[0].length), lang: "", settled: true };
  return { kind: /^ {0,3}\|/.test(rest) ? "rows" : "plain", text: rest, lang: "", settled: true };
}

/** A text of an answer. What has closed never changes, so that a selection in it stays. */
export class TextView {
  constructor() {
    this.element = make("div", { class: "text" });
    /** The Markdown. */
    this.raw = "";
    /** @type {{key: string, nodes: ChildNode[]}[]} */
    this.blocks = [];
    this.closed = 0;
    /** @type {HTMLElement | null} */
    this.open = null;
    /** @type {CodeBlock | null} */
    this.code = null;
    /** @type {Text | null} */
    this.tail = null;
  }

  /**
   * Show this text instead of what is shown. Blocks that are the same stay.
   * @param {string} raw
   * @param {Block[]} blocks
   */
  set(raw, blocks) {
    if (raw === this.raw && blocks.length === this.blocks.length && blocks.every((block, place) => keyOf(raw, block) === this.blocks[place].key)) return;
    keeping(this.element, () => {
      let same = 0;
      while (same < this.blocks.length && same < blocks.length && this.blocks[same].key === keyOf(raw, blocks[same])) same += 1;
      for (const { nodes } of this.blocks.splice(same)) for (const node of nodes) node.remove();
      this.raw = raw;
      this.closed = same ? blocks[same - 1].to : 0;
      this.add(blocks.slice(same));
      this.showOpen(false);
    });
  }

  /** @param {string} text */
  append(text) {
    this.raw += text;
    if (this.code) this.code.append(text);
    else if (this.tail) this.tail.appendData(text);
    else this.showOpen(true);
  }

  /** @param {Block[]} blocks */
  close(blocks) {
    keeping(this.element, () => {
      this.add(blocks);
      this.showOpen(true);
    });
  }

  /** @param {Block[]} blocks */
  add(blocks) {
    for (const block of blocks) {
      const key = keyOf(this.raw, block);
      const nodes = this.nodesOf(block);
      if (nodes[0] !== this.open) this.leave();
      this.open = this.code = this.tail = null;
      if (!nodes[0]?.isConnected || nodes[0].parentNode !== this.element) this.element.append(...nodes);
      this.blocks.push({ key, nodes });
      this.closed = block.to;
    }
  }

  /**
   * @param {Block} block
   * @returns {ChildNode[]}
   */
  nodesOf(block) {
    if (block.code) {
      const code = this.raw.slice(...block.code);
      // The block that has grown stays, with its place and its choices: it only gets its colours.
      const own = this.code && this.open ? this.code : new CodeBlock(block.lang ?? "");
      return [own.set(coloured(code, block.colours ?? "")).element];
    }
    return block.html === undefined ? [make("p", {}, this.raw.slice(this.closed, block.to))] : fromServer(block.html);
  }

  leave() {
    this.open?.remove();
    this.open = this.code = this.tail = null;
  }

  /**
   * Show what is behind the closed blocks as it is.
   * @param {boolean} grows
   */
  showOpen(grows) {
    const shown = opened(this.raw.slice(this.closed));
    if (shown.kind === "code" && this.code && grows) {
      if (this.code.text !== shown.text) this.code.set([shown.text]);
      return;
    }
    this.leave();
    if (!shown.kind) return;
    if (shown.kind === "code") {
      this.code = new CodeBlock(shown.lang).set([shown.text]);
      this.open = this.code.element;
    } else {
      this.tail = document.createTextNode(shown.text);
      this.open = make(shown.kind === "heading" ? "h3" : "p", { class: `open ${shown.kind}`, dir: "auto", "aria-level": shown.kind === "heading" ? 2 : null }, this.tail);
      if (!shown.settled) this.tail = null;
    }
    this.element.append(this.open);
  }
}

/**
 * @param {string} raw
 * @param {Block} block
 */
function keyOf(raw, block) {
  return block.code ? `${block.lang}\n${block.colours}\n${raw.slice(...block.code)}` : block.html ?? raw.slice(0, block.to);
}
