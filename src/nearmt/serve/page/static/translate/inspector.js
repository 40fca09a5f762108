// What is known of the active sentence: similar pairs, and why a word is there.

import { h, show } from "../core/dom.js";
import { bones, hint } from "../core/parts.js";
import { matchBadge } from "./row.js";
import { wordCard } from "./word_card.js";

export class Inspector {
  #drawn = {};

  /** `insert` gets the target of a match that the user wants. */
  constructor(work, insert) {
    this.work = work;
    this.insert = insert;
    this.matches = h("div", {});
    this.word = h("div", { class: "word-place", "aria-live": "off" });
    this.notes = h("div", { class: "notes" });
    this.folded = h(
      "button",
      {
        class: "button icon sheet-fold",
        type: "button",
        "aria-label": "Show or hide details",
        "aria-expanded": "true",
      },
      h("span", { class: "sheet-grip" }),
    );
    this.element = h(
      "aside",
      { class: "inspector", "aria-label": "About this sentence" },
      this.folded,
      h("section", { "aria-label": "Matches" }, h("h2", {}, "Matches"), this.matches),
      this.notes,
      h("section", { "aria-label": "Why this word" }, h("h2", {}, "Why this word"), this.word),
    );
    this.folded.addEventListener("click", () => this.#fold());
    this.show(null, null);
  }

  #fold() {
    const open = !this.element.classList.toggle("is-folded");
    this.folded.setAttribute("aria-expanded", String(open));
  }

  /** Draw only what is different from what is shown: buttons keep their focus. */
  show(segment, word) {
    const next = {
      segment,
      // An explanation brings the same ones again.
      matches: JSON.stringify(segment?.matches ?? [segment?.state, segment?.unexplained]),
      word: word?.known ?? word,
      state: `${segment?.state} ${Boolean(segment?.words)} ${segment?.unexplained}`,
    };
    const notes = `${segment?.previous}|${segment?.warnings}|${segment?.origin}`;
    const drawn = this.#drawn;
    this.#drawn = { ...next, notes };
    this.element.classList.toggle("is-empty", !segment);
    const other = drawn.segment !== segment || drawn.state !== next.state;
    if (drawn.segment !== segment || drawn.matches !== next.matches) this.#showMatches(segment);
    if (other || drawn.word !== next.word)
      show(this.word, segment ? wordCard(segment, word, this.work.direction) : hint("Choose a sentence."));
    if (drawn.segment !== segment || drawn.notes !== notes) this.#showNotes(segment);
  }

  #showMatches(segment) {
    if (!segment) show(this.matches, hint("Choose a sentence to see similar pairs of the memory."));
    else if (segment.matches === null)
      show(this.matches, segment.state === "failed" || segment.unexplained ? hint("Not known.") : bones());
    else if (segment.matches.length === 0) show(this.matches, hint("No similar source in the chosen memories."));
    else
      show(
        this.matches,
        h(
          "ol",
          { class: "matches" },
          segment.matches.map((match, place) => this.#match(match, place)),
        ),
      );
  }

  #match(match, place) {
    const { source_lang: source, target_lang: target } = this.work.direction;
    const keys = place < 9 ? h("kbd", {}, `Ctrl ${place + 1}`) : null;
    return h(
      "li",
      {},
      h(
        "button",
        {
          class: "match",
          type: "button",
          on: { click: () => this.insert(match.target) },
        },
        h("span", { class: "unseen" }, `Insert match ${place + 1}: `),
        h(
          "span",
          { class: "match-head" },
          matchBadge(match.score),
          h("span", { class: "meta match-memory" }, match.memory),
          keys,
        ),
        h("span", { class: "match-source", lang: source }, marked(match.source, match.differences)),
        h("span", { class: "match-target", lang: target }, match.target),
      ),
    );
  }

  #showNotes(segment) {
    const notes = [];
    if (segment?.previous) {
      const before = h("p", { lang: this.work.direction.target_lang }, segment.previous);
      notes.push(["Before it was translated again", before]);
    }
    if (segment?.warnings.length)
      notes.push([
        "Please check",
        h(
          "ul",
          {},
          segment.warnings.map((text) => h("li", {}, text)),
        ),
      ]);
    show(
      this.notes,
      notes.map(([title, content]) =>
        h("section", { class: "note", "aria-label": title }, h("h2", {}, title), content),
      ),
    );
  }
}

/** A text with some of its spans marked. */
function marked(text, spans) {
  const parts = [];
  let at = 0;
  for (const { start, end, text: here } of [...spans].sort((a, b) => a.start - b.start)) {
    if (start < at) continue;
    parts.push(text.slice(at, start), h("mark", { title: here && `Here: ${here}` }, text.slice(start, end)));
    at = end;
  }
  return [...parts, text.slice(at)];
}
