// Words of a text, and what changed between two texts. Offsets are of JavaScript strings (UTF-16).

const segmenters = new Map();

function segmenter(language, granularity) {
  const name = `${language} ${granularity}`;
  if (!segmenters.has(name)) {
    try {
      segmenters.set(name, new Intl.Segmenter(language || "en", { granularity }));
    } catch {
      segmenters.set(name, new Intl.Segmenter("en", { granularity }));
    }
  }
  return segmenters.get(name);
}

/**
 * All of a text in pieces: words, and what is between them.
 * @returns {{text: string, start: number, end: number, word: boolean}[]}
 */
export function pieces(text, language) {
  return Array.from(segmenter(language, "word").segment(text), ({ segment, index, isWordLike }) => ({
    text: segment,
    start: index,
    end: index + segment.length,
    word: Boolean(isWordLike),
  }));
}

/**
 * The spans of `after` that are not in `before`, whole words; white space alone is no change.
 * @returns {{start: number, end: number}[]}
 */
export function changes(before, after, language) {
  const visible = (piece) => piece.text.trim() !== "";
  const old = pieces(before, language).filter(visible);
  const now = pieces(after, language).filter(visible);
  const kept = common(
    old.map((piece) => piece.text),
    now.map((piece) => piece.text),
  );
  const spans = [];
  now.forEach((piece, number) => {
    if (kept.has(number)) return;
    const last = spans.at(-1);
    if (last && after.slice(last.end, piece.start).trim() === "") last.end = piece.end;
    else spans.push({ start: piece.start, end: piece.end });
  });
  return spans;
}

/** Positions of `now` in a longest common subsequence; very long texts only compare their ends. */
function common(old, now) {
  const kept = new Set();
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) kept.add(head++);
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) {
    tail += 1;
    kept.add(now.length - tail);
  }
  const a = old.slice(head, old.length - tail);
  const b = now.slice(head, now.length - tail);
  if (a.length * b.length > 1_000_000) return kept;
  const length = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) (kept.add(head + j), (i += 1), (j += 1));
    else if (length[i + 1][j] >= length[i][j + 1]) i += 1;
    else j += 1;
  }
  return kept;
}

/** Spans of `before` moved to where they are in `after`, an edit of it; those that the edit touched are left out. */
export function moved(spans, before, after) {
  if (before === after) return spans;
  let head = 0;
  while (head < before.length && before[head] === after[head]) head += 1;
  let tail = 0;
  const room = Math.min(before.length, after.length) - head;
  while (tail < room && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const shift = after.length - before.length;
  return spans.flatMap((span) => {
    if (span.end <= head) return [span];
    if (span.start >= before.length - tail) return [{ ...span, start: span.start + shift, end: span.end + shift }];
    return [];
  });
}

/** A function from offsets in characters (code points, as the server counts) to offsets in a JavaScript string. */
function fromCharacters(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (offset) => offset;
  const starts = [];
  let start = 0;
  for (const character of text) {
    starts.push(start);
    start += character.length;
  }
  return (offset) => (offset < starts.length ? starts[offset] : text.length);
}

/** Spans of the server, in characters, as spans of a JavaScript string. */
export function spansOf(text, spans) {
  const at = fromCharacters(text);
  return spans.map((span) => ({ ...span, start: at(span.start), end: at(span.end) }));
}
