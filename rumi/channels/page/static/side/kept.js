// @ts-check
// Choices that this browser keeps, such as the colour scheme. Without storage they last as long as the window.

/** @type {Map<string, string>} */
const unstored = new Map();

/**
 * Return a kept choice; empty if nothing is chosen.
 * @param {string} name
 */
export function kept(name) {
  try {
    return localStorage.getItem(`rumi.${name}`) ?? "";
  } catch {
    return unstored.get(name) ?? "";
  }
}

/**
 * Keep a choice; an empty one is forgotten.
 * @param {string} name
 * @param {string} value
 */
export function keep(name, value) {
  unstored.set(name, value);
  try {
    if (value) localStorage.setItem(`rumi.${name}`, value);
    else localStorage.removeItem(`rumi.${name}`);
  } catch {
    // the browser stores nothing for this page
  }
}
