// @ts-check
// Sets the chosen colour scheme before anything is drawn: a classic script, so that the page waits for it.

try {
  const chosen = localStorage.getItem("rumi.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage the system's scheme is used.
}
