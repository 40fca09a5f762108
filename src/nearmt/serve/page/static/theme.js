// Before anything is drawn, so that the page does not flash in the other theme. Not a module: modules wait.
try {
  const chosen = localStorage.getItem("nearmt.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be off: the theme of the system is used.
}
