// Line icons on a grid of 16.

import { svg } from "./dom.js";

const PATHS = {
  check: ["M3.5 8.5l3 3 6-7"],
  close: ["M4 4l8 8M12 4l-8 8"],
  down: ["M4.5 6.5l3.5 3.5 3.5-3.5"],
  download: ["M8 2.5v7.5M5 7.5l3 3 3-3M3 13h10"],
  upload: ["M8 10.5V3M5 5.5l3-3 3 3M3 13h10"],
  file: ["M4 2.5h5l3 3v8H4zM9 2.5v3h3"],
  key: ["M5.5 13.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6z", "M7.7 8.3L13 3M10.8 5.2l2 2"],
  sun: ["M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6z", "M8 1.8v1M8 13.2v1M1.8 8h1M13.2 8h1"],
  moon: ["M13 9.3A5.3 5.3 0 0 1 6.7 3a5.3 5.3 0 1 0 6.3 6.3z"],
  system: ["M2.5 3.5h11v7h-11zM6 13h4"],
  undo: ["M5.5 3.5L3 6l2.5 2.5M3 6h6a3.5 3.5 0 0 1 0 7H6.5"],
  alert: ["M8 5v3.5M8 11v.01", "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z"],
  trash: ["M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9"],
  search: ["M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3"],
  plus: ["M8 3.5v9M3.5 8h9"],
  memory: [
    "M3 4.5c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2z",
    "M3 4.5v7c0 1.1 2.2 2 5 2s5-.9 5-2v-7M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  ],
};

/** An icon; the control around it has the name. */
export function glyph(name) {
  const paths = PATHS[name].map((d) => svg("path", { d }));
  return svg("svg", { class: "glyph", viewBox: "0 0 16 16", "aria-hidden": "true" }, ...paths);
}
