// Views by the part of the address after #.

import { show } from "./dom.js";

/**
 * @typedef {{element: any, focus: () => void, close: () => void}} View
 * @param {Record<string, (parts: string[], go: (path: string) => void) => View>} views
 * @param {any} main
 */
export function route(views, main) {
  let present = null;
  const go = (path) => {
    if (location.hash === `#${path}`) draw();
    else location.hash = path;
  };
  const draw = () => {
    const [place, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
    const name = place in views ? place : Object.keys(views)[0];
    present?.close();
    show(main);
    present = views[name](parts, go);
    show(main, present.element);
    for (const link of document.querySelectorAll("[data-place]")) {
      if (link.getAttribute("data-place") === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${name.charAt(0).toUpperCase()}${name.slice(1)} · nearmt`;
    present.focus();
    window.scrollTo(0, 0);
  };
  window.addEventListener("hashchange", () => draw());
  draw();
  return { go, draw };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
