// The rows of a work: which is active, editing, confirming, moving about.

import { announce, h } from "../core/dom.js";
import { learner, may } from "../core/state.js";
import { complain, toast } from "../core/toasts.js";
import { editor, wordUnder } from "./editor.js";
import { Row } from "./row.js";
import { wordAt } from "./segments.js";

const DWELL = 250;

export class Grid {
  /** @type {Map<any, Row>} */
  #rows = new Map();
  #editor = null;
  #dwell = 0;
  #hovered = "";
  #told = false;

  /** `inspect(segment, word)` shows what is known of a segment and one of its words, or of nothing. */
  constructor(work, inspect) {
    this.work = work;
    this.inspect = inspect;
    this.active = null;
    this.list = h("ol", { class: "rows", "aria-label": "Sentences" });
    this.element = h("div", { class: "grid" }, this.list, h("div", { class: "rows-end" }));
    this.list.addEventListener("pointermove", (event) => this.#hover(event));
    this.list.addEventListener("pointerleave", () => this.#leave());
    this.element.addEventListener("keydown", (event) => this.#keys(event));
    work.addEventListener("segment", ({ detail }) => this.#changed(detail));
    work.addEventListener("segments", () => this.#fill());
    this.#fill();
  }

  #fill() {
    for (const segment of this.work.segments) {
      if (this.#rows.has(segment) || !segment.source) continue;
      const row = new Row(segment, this.work.direction, {
        activate: (one, offset) => this.activate(one.segment, offset),
        toggle: (one) => (one.segment.confirmed ? this.unconfirm(one.segment) : this.confirm(one.segment, false)),
        retry: (one) => this.work.retry(one.segment),
        write: (one) => this.#write(one.segment),
      });
      this.#rows.set(segment, row);
      this.list.append(row.element);
    }
  }

  /** Go to the first sentence that is not confirmed; on a phone without opening the keyboard. */
  begin() {
    const first = this.work.segments.find((one) => !one.confirmed && one.source) ?? this.work.segments[0];
    if (first) this.activate(first, null, !matchMedia("(pointer: coarse)").matches);
  }

  /** Make a segment the one that is edited; the caret goes to `offset`, or to the end. */
  activate(segment, offset = null, focus = true) {
    const row = this.#rows.get(segment);
    if (!row) return;
    if (this.active !== segment) {
      this.#deactivate();
      this.active = segment;
      this.work.focus = segment.number;
      segment.unexplained = "";
      row.active = true;
      this.#open(row);
      row.update();
    }
    const field = this.#editor?.field;
    if (focus && field) {
      const place = offset ?? field.value.length;
      field.focus({ preventScroll: true });
      field.setSelectionRange(place, place);
    } else if (focus) {
      (row.text.querySelector("button") ?? row.number).focus({ preventScroll: true });
    }
    row.element.scrollIntoView({ block: "nearest" });
    this.#caret(row, offset);
    this.work.explain(segment);
  }

  #open(row) {
    if (row.segment.state !== "ready") return;
    this.#editor = editor(row, {
      input: (text) => this.work.edit(row.segment, text),
      caret: (offset) => this.#caret(row, offset),
    });
    row.target.append(this.#editor.field);
  }

  #deactivate() {
    const row = this.#rows.get(this.active);
    if (this.active) this.work.leave(this.active);
    this.#editor?.field.remove();
    this.#editor = null;
    this.active = null;
    if (!row) return;
    row.active = false;
    row.update();
    row.pointAt(null);
  }

  #caret(row, offset) {
    const word = offset === null ? null : wordAt(row.runs, offset);
    row.pointAt(word ? word.start : null);
    this.inspect(row.segment, word);
  }

  #changed(segment) {
    const row = this.#rows.get(segment);
    if (!row) return;
    row.update();
    if (segment !== this.active) return;
    if (!this.#editor && segment.state === "ready") {
      const focused = row.element.contains(document.activeElement);
      this.#open(row);
      row.update();
      if (focused) this.#editor.field.focus({ preventScroll: true });
    }
    if (!segment.edited) this.#editor?.replace(segment.target);
    this.#caret(row, this.#editor?.field.selectionStart ?? null);
    if (segment.words === null) this.work.explain(segment);
  }

  /** The user translates what the server could not. */
  #write(segment) {
    this.work.edit(segment, "");
    this.activate(segment);
  }

  insert(text) {
    this.#editor?.insert(text);
  }

  async confirm(segment, moveOn = true) {
    if (segment.state !== "ready" || segment.saving) return;
    const storing = this.work.confirm(segment);
    if (moveOn) this.#moveOn(segment);
    try {
      await storing;
      announce(`Sentence ${segment.number + 1} confirmed`);
      if (learner() === "" && may("learn")) this.#tellNothingLearns();
    } catch (error) {
      complain(error, `Sentence ${segment.number + 1} was not stored`);
    }
  }

  /** Once: the user may want it so. */
  #tellNothingLearns() {
    if (this.#told) return;
    this.#told = true;
    const go = () => (location.hash = "/memories");
    toast("Confirmed. No memory is in use, so nothing is learnt.", { action: "Choose one", run: go });
  }

  #moveOn(segment) {
    const next = this.work.nextOpen(segment);
    if (next) this.activate(next);
    else announce("All sentences are confirmed");
  }

  async unconfirm(segment) {
    try {
      await this.work.unconfirm(segment);
      this.activate(segment);
      announce(`The confirmation of sentence ${segment.number + 1} is undone`);
    } catch (error) {
      complain(error, "Not undone");
    }
  }

  /** Take the last confirmation of this page back. */
  undoLast() {
    const last = this.work.lastConfirmed();
    if (last) this.unconfirm(last);
  }

  #keys(event) {
    const control = event.ctrlKey || event.metaKey;
    if (!this.active) return;
    if (control && event.key === "Enter") {
      event.preventDefault();
      if (event.shiftKey) this.undoLast();
      else this.confirm(this.active);
    } else if (control && !event.shiftKey && !event.altKey && /^[1-9]$/.test(event.key)) {
      const match = this.active.matches?.[Number(event.key) - 1];
      event.preventDefault();
      if (match) this.insert(match.target);
    } else if (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.#step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      this.#rows.get(this.active)?.number.focus();
    }
  }

  #step(by) {
    const shown = this.work.segments.filter((one) => this.#rows.has(one));
    const next = shown[shown.indexOf(this.active) + by];
    if (next) this.activate(next);
  }

  #hover(event) {
    const found = event.pointerType === "touch" ? null : wordUnder(event);
    const name = found ? `${found.row.dataset.number} ${found.start}` : "";
    if (name === this.#hovered) return;
    this.#hovered = name;
    clearTimeout(this.#dwell);
    if (!found) return;
    const row = [...this.#rows.values()].find((one) => one.element === found.row);
    this.#dwell = setTimeout(() => this.#peek(row, found.start), row.segment.words ? 0 : DWELL);
  }

  #peek(row, start) {
    const look = () => {
      if (this.#hovered !== `${row.segment.number} ${start}`) return;
      this.#rows.forEach((other) => other.pointAt(other === row ? start : null));
      this.inspect(row.segment, wordAt(row.runs, start));
    };
    look();
    if (!row.segment.words) this.work.explain(row.segment, look);
  }

  #leave() {
    clearTimeout(this.#dwell);
    this.#hovered = "";
    const row = this.#rows.get(this.active);
    this.#rows.forEach((other) => other !== row && other.pointAt(null));
    if (row) {
      this.#caret(row, this.#editor?.field.selectionStart ?? null);
      this.work.explain(row.segment);
    } else {
      this.inspect(null, null);
    }
  }

  /** Nothing is known of how it is translated with other memories: what spoke for words is asked again. */
  forgetWords() {
    for (const segment of this.work.segments) Object.assign(segment, { words: null, unexplained: "" });
  }
}
