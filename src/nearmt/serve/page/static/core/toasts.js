// Short messages at the bottom; those with an action stay until it is used or closed.

import { announce, h } from "./dom.js";
import { glyph } from "./glyphs.js";

const LASTS = 6000;
const MOST = 3;

/**
 * @param {string} text
 * @param {{bad?: boolean, action?: string, run?: () => void}} [more] `action` is the label of a button that runs `run`
 * @returns {() => void} what removes it
 */
export function toast(text, { bad = false, action = "", run = () => {} } = {}) {
  const list = document.getElementById("toasts");
  const remove = () => item.remove();
  const item = h(
    "li",
    { class: bad ? "toast bad" : "toast", role: bad ? "alert" : null },
    h("p", {}, text),
    action && h("button", { class: "button action", type: "button", on: { click: () => (remove(), run()) } }, action),
    h(
      "button",
      { class: "button icon", type: "button", "aria-label": "Close message", on: { click: remove } },
      glyph("close"),
    ),
  );
  list.append(item);
  while (list.children.length > MOST) list.firstElementChild.remove();
  if (!bad) announce(text);
  if (action) return remove;
  let timer = setTimeout(remove, bad ? 2 * LASTS : LASTS);
  const wait = () => clearTimeout(timer);
  const go = () => (timer = setTimeout(remove, LASTS));
  for (const event of ["pointerenter", "focusin"]) item.addEventListener(event, wait);
  for (const event of ["pointerleave", "focusout"]) item.addEventListener(event, go);
  return remove;
}

/** Show what went wrong, and with what; a message that begins with that is not told twice. */
export function complain(error, doing = "") {
  const id = error.requestId ? ` (request ${error.requestId})` : "";
  const { message } = error;
  const said = message.toLowerCase().startsWith(`${doing.toLowerCase()}: `) ? message.slice(doing.length + 2) : message;
  return toast(`${doing ? `${doing}: ` : ""}${said}${id}`, { bad: true });
}
