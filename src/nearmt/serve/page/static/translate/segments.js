// A sentence or unit and its translation, as the page knows them. Nothing here touches the document.

import { changes, moved, pieces, spansOf } from "../core/words.js";

/** @returns a segment that is not translated yet. */
export function segment(number, source, more = {}) {
  return {
    number,
    source,
    before: "",
    target: "",
    origin: "",
    /** waiting, ready or failed */
    state: "waiting",
    /** is translated again */
    busy: false,
    edited: false,
    confirmed: false,
    saving: false,
    /** what it was before it was translated again, and what changed */
    previous: "",
    changed: [],
    /** null: not asked yet */
    matches: null,
    words: null,
    warnings: [],
    problem: "",
    /** the pair that it was learnt as @type {null | {memory: string, id: string, target: string}} */
    learnt: null,
    /** the edited text that the server has @type {null | string} */
    kept: null,
    /** why nothing is known of its words */
    unexplained: "",
    /** how to take confirmations back, the last one last */
    undo: [],
    /** raised when an answer that is under way is not wanted any more */
    turn: 0,
    ...more,
  };
}

/** Whether a new translation may replace what is there. */
export function isOpen(one) {
  return !one.confirmed && !one.edited && !one.saving;
}

/** Take a translation of the server. @returns whether the text changed. */
export function take(one, translation, language) {
  one.busy = false;
  one.problem = "";
  if (translation.matches) one.matches = matchesOf(translation);
  if (!isOpen(one)) return false;
  one.warnings = translation.warnings ?? [];
  one.origin = translation.origin;
  return replaceText(one, translation.text, language);
}

/** Give an open segment another text, and mark what changed if it had one. */
export function replaceText(one, text, language) {
  const before = one.state === "ready" ? one.target : "";
  one.state = "ready";
  if (before === text) return false;
  one.previous = before;
  one.changed = before ? changes(before, text, language) : [];
  one.target = text;
  one.words = null;
  one.unexplained = "";
  return before !== "";
}

/** The matches of a translation, with differences as spans of the stored source. */
function matchesOf({ matches }) {
  return matches.map((match) => ({ ...match, differences: spansOf(match.source, match.differences ?? []) }));
}

/** Take an explanation: its words are looked up in the present text, which may be edited. */
export function takeWords(one, translation) {
  one.matches = matchesOf(translation);
  one.unexplained = "";
  one.words = moved(spansOf(translation.text, translation.words ?? []), translation.text, one.target);
}

/** The user has changed the text: what is known of words that were not touched is kept. */
export function edit(one, text) {
  if (text === one.target && one.state === "ready") return;
  one.words = one.words && moved(one.words, one.target, text);
  one.changed = moved(one.changed, one.target, text);
  one.target = text;
  one.edited = true;
  one.confirmed = false;
}

/**
 * The target in runs: words with what is known of them, and what is between.
 * @returns {{text: string, start: number, end: number, word: boolean, known: any, changed: boolean}[]}
 */
export function runs(one, language) {
  const known = one.words ?? [];
  const parts = known.length ? around(known, one.target, language) : pieces(one.target, language);
  const isChanged = (part) => one.changed.some((span) => span.start < part.end && part.start < span.end);
  return parts.map((part) => ({ known: null, ...part, changed: isChanged(part) }));
}

function around(known, text, language) {
  const parts = [];
  let at = 0;
  const rest = (end) => {
    for (const piece of pieces(text.slice(at, end), language)) {
      parts.push({ ...piece, start: piece.start + at, end: piece.end + at });
    }
  };
  for (const word of known) {
    if (word.start < at) continue;
    rest(word.start);
    parts.push({ text: text.slice(word.start, word.end), start: word.start, end: word.end, word: true, known: word });
    at = word.end;
  }
  rest(text.length);
  return parts;
}

/** The run with the word at an offset, or the one before it: at the end of a sentence that is its last word. */
export function wordAt(parts, offset) {
  const words = parts.filter((part) => part.word);
  return (
    words.find((part) => part.start <= offset && offset < part.end) ??
    words.findLast((part) => part.end <= offset) ??
    null
  );
}

/** How much likelier the memory made a word: not at all, some, or much. */
export function support(word) {
  const gain = word.after - word.before;
  if (word.witnesses.length === 0 || gain < 0.02) return "none";
  return gain > 0.2 || word.after > 1.5 * word.before ? "most" : "some";
}

/** The text of all segments, as it was put together in the source. */
export function wholeText(segments) {
  return segments.map((one) => one.before + (one.source ? one.target || one.source : "")).join("");
}
