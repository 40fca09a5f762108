// Light, dark, or as the system has it. theme.js sets it when the page is loaded.

import { h, show } from "./dom.js";
import { glyph } from "./glyphs.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const GLYPHS = { system: "system", light: "sun", dark: "moon" };

export function themeSwitch() {
  const root = document.documentElement;
  const button = h("button", { class: "button icon", type: "button" });
  const draw = () => {
    const theme = root.dataset.theme ?? "system";
    show(button, glyph(GLYPHS[theme]));
    button.setAttribute("aria-label", `Theme: ${theme}. Change to ${NEXT[theme]}`);
    button.title = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    const theme = NEXT[root.dataset.theme ?? "system"];
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    keep(theme);
    draw();
  });
  draw();
  return button;
}

function keep(theme) {
  try {
    localStorage.setItem("nearmt.theme", theme);
  } catch {
    // Storage may be off: the theme lasts as long as the page.
  }
}
