// Above the grid: what is translated, how far it is, which memories, download.

import { h, show } from "../core/dom.js";
import { count } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { dropdown, item } from "../core/menus.js";
import { complain } from "../core/toasts.js";
import { picker } from "./picker.js";

/** `back` leaves the work; its button is called `backLabel`. */
export function toolbar(work, { back, backLabel, glyphName }) {
  const title = h("h1", { class: "work-title", tabindex: "-1" }, work.title);
  const told = h("p", { class: "soft small number work-progress" });
  const bar = h("progress", { "aria-label": "Translated", max: 1, value: 0 });
  const draw = () => {
    const { count: all, ready, confirmedCount } = work;
    title.textContent = work.title;
    const translating = ready < all || work.running;
    show(
      told,
      translating
        ? `${count(ready)} of ${count(all)} translated`
        : `${count(confirmedCount)} of ${count(all)} confirmed`,
    );
    bar.max = Math.max(1, all);
    bar.value = translating ? ready : confirmedCount;
    bar.setAttribute("aria-label", translating ? "Translated" : "Confirmed");
    if (work.job?.state === "failed") show(told, h("span", { class: "problem" }, work.job.message));
  };
  work.addEventListener("progress", draw);
  draw();
  const element = h(
    "div",
    { class: "toolbar" },
    h(
      "div",
      { class: "toolbar-line" },
      h("div", { class: "toolbar-name" }, title, told),
      h(
        "div",
        { class: "toolbar-end" },
        picker(),
        downloadControl(work),
        h("button", { class: "button", type: "button", on: { click: back } }, glyph(glyphName), backLabel),
      ),
    ),
    bar,
  );
  return { element, focus: () => title.focus() };
}

function downloadControl(work) {
  const offers = work.downloads();
  const label = h("span", { class: "wide" }, "Download");
  const button = h(
    "button",
    { class: "button outlined", type: "button", "aria-label": "Download" },
    glyph("download"),
    label,
  );
  const run = async (offer) => {
    button.disabled = true;
    try {
      await offer.run();
    } catch (error) {
      complain(error, "Not downloaded");
    } finally {
      button.disabled = false;
    }
  };
  if (offers.length === 1) {
    button.addEventListener("click", () => run(work.downloads()[0]));
    return button;
  }
  const entries = (close) => offers.map((offer) => item(offer.label, () => (close(), run(offer)), offer.aside));
  return dropdown(button, entries, { label: "Download" });
}
