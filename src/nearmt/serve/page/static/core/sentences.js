// A text in sentences. The server says where they are; what is between them is kept, so the text can be put together.

import { spansOf } from "./words.js";

/**
 * @param {string} text
 * @param {{start: number, end: number}[]} spans in characters
 * @returns {{before: string, text: string}[]} sentences, each with what is before it; the last one may have no text,
 * only what ends the whole.
 */
export function cut(text, spans) {
  const found = [];
  let at = 0;
  for (const { start, end } of spansOf(text, spans)) {
    found.push({ before: text.slice(at, start), text: text.slice(start, end) });
    at = end;
  }
  if (at < text.length) found.push({ before: text.slice(at), text: "" });
  return found;
}
