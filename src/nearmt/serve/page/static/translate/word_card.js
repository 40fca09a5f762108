// Why a word is there: its probability before and after the memory spoke, and the pairs that did.

import { h } from "../core/dom.js";
import { percent } from "../core/format.js";
import { hint } from "../core/parts.js";

const MOST = 5;
/** Silenced neighbours with less than this share changed nothing that can be seen. */
const LEAST = 0.01;
const ORIGINS = { search: "found by a search", cache: "from an earlier search", model: "from the model alone" };

/** What is shown for a word of a segment; `word` is a run of its text, or nothing. */
export function wordCard(segment, word, direction) {
  if (segment.state !== "ready") return hint("Not translated yet.");
  if (segment.unexplained) return hint(`Not known: ${segment.unexplained}`);
  if (segment.words === null) return hint("Asking the memory…");
  if (segment.origin === "memory" && segment.words.length === 0)
    return hint("The whole translation is in the memory, word for word.");
  if (!word) return hint("Point at a word of the translation, or move the caret into it.");
  if (!word.known) return [title(bare(word.text)), hint("You wrote this, or nothing is known of it.")];
  return card(word.known, bare(word.text), direction);
}

function title(text, aside = "") {
  return h("p", { class: "word-head" }, h("strong", {}, text), aside && h("span", { class: "meta" }, aside));
}

function card(known, text, direction) {
  const parts = [
    title(text, `step ${known.step + 1} · ${ORIGINS[known.origin] ?? known.origin}`),
    probabilities(known),
  ];
  if (known.witnesses.length > 0) {
    parts.push(
      h("h3", {}, "Pairs that spoke for it"),
      list(known.witnesses, (one) => witness(one, text, direction)),
    );
  } else {
    parts.push(hint("No stored pair spoke for it: the model wrote it."));
  }
  const lost = known.silenced.filter((one) => one.share >= LEAST);
  if (lost.length > 0) {
    parts.push(
      h("h3", {}, "Silenced: another word in their source"),
      list(lost, (one) => silenced(one, direction)),
    );
  }
  return parts;
}

function list(items, draw) {
  const more = items.length - MOST;
  return h(
    "ol",
    { class: "witnesses" },
    items.slice(0, MOST).map(draw),
    more > 0 && h("li", { class: "meta witnesses-more" }, `and ${more} more`),
  );
}

function probabilities({ before, after }) {
  return h("dl", { class: "chances" }, chance("Model", before, ""), chance("With memory", after, " after"));
}

function chance(label, share, kind) {
  const bar = h("span", { class: `chance-bar${kind}` });
  bar.style.setProperty("--share", String(Math.max(0.004, Math.min(1, share))));
  return [h("dt", {}, label), h("dd", {}, bar, h("span", { class: "number" }, percent(share)))];
}

function witness(one, text, direction) {
  return h(
    "li",
    {},
    h("span", { class: "number meta" }, percent(one.share)),
    h(
      "div",
      {},
      h("p", { lang: direction.target_lang }, strong(one.target, text)),
      h("p", { class: "soft", lang: direction.source_lang }, one.source),
    ),
  );
}

function silenced(one, direction) {
  return h(
    "li",
    {},
    h("span", { class: "number meta" }, percent(one.share)),
    h(
      "div",
      {},
      h(
        "p",
        { lang: direction.target_lang },
        h("s", {}, one.token.trim()),
        h("span", { class: "soft" }, `  in: ${one.target}`),
      ),
      h("p", { class: "soft", lang: direction.source_lang }, one.source),
    ),
  );
}

/** A word without the punctuation around it. */
function bare(text) {
  return text.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "") || text;
}

/** The word stands out in the stored target, if it is there. */
function strong(target, word) {
  const at = target.toLowerCase().indexOf(word.toLowerCase());
  if (at < 0) return target;
  return [target.slice(0, at), h("strong", {}, target.slice(at, at + word.length)), target.slice(at + word.length)];
}
