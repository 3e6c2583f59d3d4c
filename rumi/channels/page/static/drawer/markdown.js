// @ts-check
// Markdown from a call's result, rendered by the server as the talk's is.

import { call } from "../connection.js";
import { TextView } from "../talk/text.js";

/** The server renders so many characters at once. */
const MOST = 200_000;

/**
 * Return the text as elements.
 * @param {string} text
 */
export async function rendered(text) {
  const view = new TextView();
  const shown = text.slice(0, MOST);
  const { blocks } = await call("render", "", { text: shown });
  view.set(shown, blocks);
  return view.element;
}
