// One segment in the grid.

import { h, show } from "../core/dom.js";
import { matchPercent } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { runs, support } from "./segments.js";

/** Shows a segment; what the user does is told to `on`: activate, toggle, retry. */
export class Row {
  constructor(segment, direction, on) {
    this.segment = segment;
    this.direction = direction;
    this.on = on;
    this.active = false;
    this.runs = [];
    this.number = h(
      "button",
      { class: "row-number number", type: "button", tabindex: "-1", on: { click: () => on.activate(this) } },
      String(segment.number + 1),
    );
    this.source = h("div", { class: "row-source", lang: direction.source_lang }, segment.source);
    // It has the height that the translation will need, so that nothing moves when it comes.
    this.reserve = h("div", { class: "row-reserve", "aria-hidden": "true" }, h("span", {}, segment.source));
    this.text = h("div", { class: "row-text" });
    this.target = h("div", { class: "row-target", lang: direction.target_lang }, this.reserve, this.text);
    this.aside = h("span", { class: "row-aside" });
    this.check = h(
      "button",
      { class: "row-check", type: "button", tabindex: "-1", on: { click: () => on.toggle(this) } },
      glyph("check"),
    );
    this.element = h(
      "li",
      { class: "row", data: { number: segment.number } },
      this.number,
      this.source,
      this.target,
      h("div", { class: "row-end" }, this.aside, this.check),
    );
    this.source.addEventListener("click", () => window.getSelection()?.isCollapsed !== false && on.activate(this));
    this.text.addEventListener("click", (event) => on.activate(this, offsetOf(event)));
    this.update();
  }

  update() {
    const { segment } = this;
    this.element.dataset.state = segment.confirmed ? "confirmed" : segment.state;
    this.element.classList.toggle("is-busy", segment.busy);
    this.element.classList.toggle("is-changed", segment.changed.length > 0);
    this.element.classList.toggle("is-active", this.active);
    this.#showText();
    this.#showEnd();
    const place = `Sentence ${segment.number + 1}`;
    this.number.tabIndex = this.check.tabIndex = this.active ? 0 : -1;
    this.number.setAttribute("aria-label", `${place}, ${stateName(segment)}. Edit`);
    this.check.setAttribute(
      "aria-label",
      segment.confirmed
        ? `Undo the confirmation of sentence ${segment.number + 1}`
        : `Confirm sentence ${segment.number + 1}`,
    );
    this.check.setAttribute("aria-pressed", String(segment.confirmed));
    this.check.disabled = segment.saving || (segment.confirmed ? segment.undo.length === 0 : segment.state !== "ready");
  }

  #showText() {
    const { segment } = this;
    if (segment.state === "failed") {
      const retry = h(
        "button",
        { class: "button link", type: "button", on: { click: () => this.on.retry(this) } },
        "Try again",
      );
      const write = h(
        "button",
        { class: "button link", type: "button", on: { click: () => this.on.write(this) } },
        "Write it yourself",
      );
      const reason = h("span", { class: "problem" }, `Not translated: ${segment.problem}`);
      show(this.text, h("span", { class: "row-failed" }, reason, retry, write));
      return;
    }
    this.runs = runs(segment, this.direction.target_lang);
    show(
      this.text,
      this.runs.map((run) => shownRun(run)),
      this.active ? "\u200b" : null,
    );
    if (segment.problem) this.text.append(h("span", { class: "row-problem problem" }, segment.problem));
  }

  #showEnd() {
    const { segment } = this;
    show(this.aside, this.active && segment.saving ? ring("Saving") : aside(segment));
  }

  /** Mark the word that the inspector shows. */
  pointAt(start) {
    for (const old of this.text.querySelectorAll(".is-shown")) old.classList.remove("is-shown");
    if (start !== null) this.text.querySelector(`[data-start="${start}"]`)?.classList.add("is-shown");
  }
}

function shownRun(run) {
  if (!run.word && !run.changed) return run.text;
  const classes = [run.word && "word", run.changed && "changed", run.known && `by-${support(run.known)}`].filter(
    Boolean,
  );
  return h("span", { class: classes.join(" "), data: run.word ? { start: run.start } : {} }, run.text);
}

function aside(segment) {
  if (segment.saving) return ring("Saving");
  if (segment.busy) return ring("Translated again");
  if (segment.state === "waiting") return null;
  const warned =
    segment.warnings.length > 0 &&
    h("span", { class: "row-warned", title: segment.warnings.join("\n") }, glyph("alert"));
  return [warned, badge(segment)];
}

function ring(label) {
  return h("span", { class: "ring", role: "img", "aria-label": label });
}

/** The best match, or where the text came from. */
function badge(segment) {
  const best = segment.matches?.[0];
  if (best) return matchBadge(best.score);
  if (segment.origin === "memory") return matchBadge(1);
  if (segment.origin === "repaired")
    return h("span", { class: "badge high", title: "A similar pair, with numbers and names replaced" }, "Repaired");
  return null;
}

/** A percentage; exact ones stand out. */
export function matchBadge(score) {
  const number = matchPercent(score);
  const kind = number === 100 ? " exact" : number >= 75 ? " high" : "";
  return h(
    "span",
    {
      class: `badge${kind}`,
      title: number === 100 ? "The same source is in the memory" : "Similarity of the best match",
    },
    `${number} %`,
  );
}

function stateName(segment) {
  if (segment.confirmed) return "confirmed";
  if (segment.busy) return "is translated again";
  if (segment.changed.length > 0) return "changed";
  return (
    { waiting: "is translated", failed: "not translated" }[segment.state] ??
    (segment.edited ? "edited" : "not confirmed")
  );
}

/** The place in the text that was clicked. */
function offsetOf(event) {
  const start = event.target.closest?.("[data-start]")?.dataset.start;
  const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  const span = caret?.offsetNode.parentElement;
  if (caret && span?.dataset.start !== undefined) return Number(span.dataset.start) + caret.offset;
  return start === undefined ? null : Number(start);
}
