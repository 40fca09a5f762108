// A button that opens a menu or a panel below it.

import { h } from "./dom.js";

/**
 * @param {any} button the control that opens it
 * @param {(close: () => void) => any} content made when it is opened
 * @param {{start?: boolean, label: string, role?: string}} options `start`: the panel begins where the button begins
 */
export function dropdown(button, content, { start = false, label, role = "menu" }) {
  const place = h("div", { class: "menu-place" }, button);
  let panel = null;
  button.setAttribute("aria-haspopup", role);
  button.setAttribute("aria-expanded", "false");

  const close = (focus = true) => {
    if (!panel) return;
    panel.remove();
    panel = null;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (focus) button.focus();
  };
  const outside = (event) => place.contains(event.target) || close(false);
  const open = () => {
    panel = h("div", { class: start ? "menu start" : "menu", role, "aria-label": label }, content(close));
    panel.addEventListener("keydown", (event) => keys(event, panel, close));
    place.append(panel);
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside, true);
    panel.querySelector("[role=menuitem], input, button")?.focus();
  };
  button.addEventListener("click", () => (panel ? close() : open()));
  place.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !place.contains(event.relatedTarget)) close(false);
  });
  return place;
}

function keys(event, panel, close) {
  if (event.key === "Escape") {
    event.stopPropagation();
    close();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const items = Array.from(panel.querySelectorAll("[role=menuitem]"));
  if (!step || items.length === 0) return;
  event.preventDefault();
  items.at((items.indexOf(document.activeElement) + step) % items.length).focus();
}

/** An entry of a menu. */
export function item(label, run, aside = "") {
  return h(
    "button",
    { type: "button", role: "menuitem", tabindex: "-1", on: { click: run } },
    h("span", {}, label),
    aside && h("span", { class: "meta" }, aside),
  );
}
