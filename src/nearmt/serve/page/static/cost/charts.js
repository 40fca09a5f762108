// Two small charts, drawn by hand. What they show is also there as text.

import { h, show, svg } from "../core/dom.js";
import { duration, percent } from "../core/format.js";
import { NAMES, PARTS } from "./figures.js";

/** A bar in parts, with a legend. `each` are seconds a sentence by part. */
export function shareBar(shares, each) {
  let at = 0;
  const bars = PARTS.map((part) => {
    const rect = svg("rect", {
      class: `part-${part}`,
      x: `${at * 100}%`,
      y: 0,
      width: `${shares[part] * 100}%`,
      height: "100%",
    });
    at += shares[part];
    return rect;
  });
  const legend = PARTS.filter((part) => part !== "other" || shares[part] >= 0.005).map((part) =>
    h(
      "li",
      {},
      h("span", { class: `swatch part-${part}` }),
      h("div", {}, h("p", { class: "legend-name" }, NAMES[part][0]), h("p", { class: "meta" }, NAMES[part][1])),
      h("span", { class: "number" }, percent(shares[part])),
      h("span", { class: "number meta" }, each ? `${duration(each[part])} a sentence` : ""),
    ),
  );
  return [svg("svg", { class: "share-bar", "aria-hidden": "true" }, ...bars), h("ol", { class: "legend" }, legend)];
}

const WIDTH = 10;
const HEIGHT = 100;
const DRAWN = ["model", "search", "cache"];

/** A column for each of the last translations; arrow keys and the pointer choose one, which is described below. */
export class Columns {
  #entries = [];
  #at = -1;

  constructor(most) {
    this.most = most;
    this.top = h("span", { class: "meta number columns-top" });
    this.detail = h("p", { class: "small soft columns-detail", "aria-live": "polite" });
    this.drawing = svg("svg", {
      class: "columns",
      viewBox: `0 0 ${most * WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    const field = h(
      "div",
      {
        class: "columns-field",
        tabindex: "0",
        role: "group",
        "aria-label": "The last translations of this tab, left to right. Arrow keys choose one.",
      },
      this.drawing,
    );
    this.element = h("div", { class: "columns-place" }, this.top, field, this.detail);
    field.addEventListener("keydown", (event) => this.#key(event));
    field.addEventListener("focus", () => this.#at < 0 && this.#choose(this.#entries.length - 1));
    field.addEventListener("pointermove", (event) => this.#point(event, field));
  }

  show(entries) {
    this.#entries = entries;
    const most = Math.max(...entries.map(workOf), 1e-9);
    this.top.textContent = duration(most);
    const columns = entries.map((entry, place) => column(entry, place, most, place === this.#at));
    show(this.drawing, columns);
    this.#describe();
  }

  #choose(place) {
    this.#at = Math.max(0, Math.min(this.#entries.length - 1, place));
    Array.from(this.drawing.children).forEach((group, one) => group.classList.toggle("is-chosen", one === this.#at));
    this.#describe();
  }

  #describe() {
    const entry = this.#entries[this.#at];
    if (!entry) {
      this.detail.textContent = "Point at a column, or use the arrow keys.";
      return;
    }
    const times = DRAWN.map((part) => `${NAMES[part][0].toLowerCase()} ${duration(entry[part])}`).join(", ");
    show(this.detail, h("span", { class: "columns-text" }, entry.text), ` ${count(entry.searches)}; ${times}`);
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.#choose(this.#at + step);
  }

  #point(event, field) {
    const { left, width } = field.getBoundingClientRect();
    const place = Math.floor(((event.clientX - left) / width) * this.most);
    if (place < this.#entries.length && place !== this.#at) this.#choose(place);
  }
}

function workOf(entry) {
  return DRAWN.reduce((sum, part) => sum + entry[part], 0);
}

function column(entry, place, most, chosen) {
  let y = HEIGHT;
  const bars = DRAWN.map((part) => {
    const height = (entry[part] / most) * HEIGHT;
    y -= height;
    return svg("rect", { class: `part-${part}`, x: place * WIDTH + 1, y, width: WIDTH - 2, height });
  });
  const back = svg("rect", { class: "columns-back", x: place * WIDTH, y: 0, width: WIDTH, height: HEIGHT });
  return svg("g", { class: chosen ? "is-chosen" : "" }, back, ...bars);
}

function count(searches) {
  const number = Number.isInteger(searches) ? String(searches) : searches.toFixed(1);
  return `${number} search${searches === 1 ? "" : "es"}`;
}
