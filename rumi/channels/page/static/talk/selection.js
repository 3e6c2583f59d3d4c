// @ts-check
// A reader's selection stays when the text in which it lies is rendered anew.

const LEFT_OUT = ".code-bar, .copy, summary .faint";

/** @param {Node} root */
function texts(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement?.closest(LEFT_OUT) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  /** @type {Text[]} */
  const found = [];
  while (walker.nextNode()) found.push(/** @type {Text} */ (walker.currentNode));
  return found;
}

/**
 * @param {Node} root
 * @param {Node} node
 * @param {number} offset
 */
function placeOf(root, node, offset) {
  let before = 0;
  for (const text of texts(root)) {
    if (text === node) return before + offset;
    const position = node.compareDocumentPosition(text);
    const child = node.nodeType === Node.ELEMENT_NODE ? node.childNodes[offset] : null;
    const behind = child ? child === text || child.contains(text) || child.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING
      : position & Node.DOCUMENT_POSITION_FOLLOWING && !(position & Node.DOCUMENT_POSITION_CONTAINED_BY);
    if (behind) return before;
    before += text.length;
  }
  return before;
}

/**
 * Return where a selected text now is: where it was, or its occurrence that is nearest to that place; if it is
 * gone, as much as its length there.
 * @param {string} whole
 * @param {string} wanted
 * @param {number} at
 * @returns {[number, number]}
 */
export function found(whole, wanted, at) {
  if (!wanted || whole.startsWith(wanted, at)) return [at, at + wanted.length];
  const before = whole.lastIndexOf(wanted, at);
  const after = whole.indexOf(wanted, at);
  if (before < 0 && after < 0) return [Math.min(at, whole.length), Math.min(at + wanted.length, whole.length)];
  const best = after < 0 || (before >= 0 && at - before <= after - at) ? before : after;
  return [best, best + wanted.length];
}

/**
 * Change what `root` contains; a selection that begins or ends in it stays on the same words.
 * @param {HTMLElement} root
 * @param {() => void} work
 */
export function keeping(root, work) {
  const selection = document.getSelection();
  if (!selection || selection.isCollapsed || !selection.rangeCount) return work();
  const { anchorNode, anchorOffset, focusNode, focusOffset } = selection;
  const inAnchor = root.contains(anchorNode);
  const inFocus = root.contains(focusNode);
  if (!anchorNode || !focusNode || (!inAnchor && !inFocus)) return work();
  const whole = () => texts(root).map((text) => text.data).join("");
  const anchor = inAnchor ? placeOf(root, anchorNode, anchorOffset) : -1;
  const focus = inFocus ? placeOf(root, focusNode, focusOffset) : -1;
  const was = whole();
  work();
  if (inAnchor && inFocus && anchorNode.isConnected && focusNode.isConnected && selection.anchorNode === anchorNode && selection.focusNode === focusNode
    && selection.anchorOffset === anchorOffset && selection.focusOffset === focusOffset) return;
  const now = whole();
  let from = anchor;
  let to = focus;
  if (inAnchor && inFocus) {
    const [start, end] = found(now, was.slice(Math.min(anchor, focus), Math.max(anchor, focus)), Math.min(anchor, focus));
    [from, to] = anchor <= focus ? [start, end] : [end, start];
  }
  const [startNode, startOffset] = inAnchor ? nodeAt(root, from) : [anchorNode, anchorOffset];
  const [endNode, endOffset] = inFocus ? nodeAt(root, to) : [focusNode, focusOffset];
  if (startNode.isConnected && endNode.isConnected) selection.setBaseAndExtent(startNode, startOffset, endNode, endOffset);
}

/**
 * @param {HTMLElement} root
 * @param {number} place
 * @returns {[Node, number]}
 */
function nodeAt(root, place) {
  let rest = place;
  for (const text of texts(root)) {
    if (rest <= text.length) return [text, rest];
    rest -= text.length;
  }
  return [root, root.childNodes.length];
}
