// Small parts that several views show.

import { h } from "./dom.js";

/** A quiet sentence in place of content. */
export function hint(text) {
  return h("p", { class: "soft small" }, text);
}

/** Lines in place of content that is loaded. */
export function bones(lines = 2) {
  const all = Array.from({ length: lines }, () => h("div", { class: "bone" }));
  return h("div", { class: "bones", role: "status", "aria-label": "Loading" }, all);
}

/** An error in place of content. */
export function failure(error, retry) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("h2", {}, "This could not be loaded"),
    h("p", {}, error.message),
    h("button", { class: "button outlined", type: "button", on: { click: retry } }, "Try again"),
  );
}

/** Call `take` with files that are dropped on an element; it is marked while files are over it. */
export function dropZone(element, take) {
  let depth = 0;
  const mark = (by) => {
    depth = Math.max(0, depth + by);
    element.classList.toggle("is-over", depth > 0);
  };
  const files = (event) => Array.from(event.dataTransfer?.types ?? []).includes("Files");
  element.addEventListener("dragenter", (event) => files(event) && (event.preventDefault(), mark(1)));
  element.addEventListener("dragleave", (event) => files(event) && mark(-1));
  element.addEventListener("dragover", (event) => files(event) && event.preventDefault());
  element.addEventListener("drop", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    mark(-depth);
    if (event.dataTransfer.files.length > 0) take(event.dataTransfer.files);
  });
}
