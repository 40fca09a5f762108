// The text field of the active row. It lies over the words of the row, so that these can be pointed at and marked.

import { h } from "../core/dom.js";

/**
 * @param {any} row
 * @param {{input: (text: string) => void, caret: (offset: number) => void}} on
 */
export function editor(row, on) {
  const { segment, direction } = row;
  const field = h("textarea", {
    class: "row-field",
    lang: direction.target_lang,
    rows: "1",
    value: segment.target,
    "aria-label": `Translation of sentence ${segment.number + 1}`,
    "aria-describedby": "keys-hint",
    autocomplete: "off",
    spellcheck: "true",
    on: {
      input: () => on.input(field.value),
      keyup: () => on.caret(field.selectionStart),
      click: () => on.caret(field.selectionStart),
      focus: () => on.caret(field.selectionStart),
    },
  });

  return {
    field,
    /** Replace the text as if it was typed: the browser can undo it. */
    insert(text) {
      field.focus();
      field.select();
      if (!document.execCommand("insertText", false, text)) {
        field.value = text;
        on.input(text);
      }
      field.setSelectionRange(text.length, text.length);
    },
    /** Show another translation; the user has not typed yet. */
    replace(text) {
      if (field.value === text) return;
      const place = field.selectionStart === field.value.length ? text.length : field.selectionStart;
      field.value = text;
      field.setSelectionRange(place, place);
    },
  };
}

/** The start of the word below the pointer: words lie under the text field. */
export function wordUnder(event) {
  /** @type {any} */
  const found = document
    .elementsFromPoint(event.clientX, event.clientY)
    .find((one) => one.matches?.(".row-text .word"));
  return found ? { start: Number(found.dataset.start), row: found.closest(".row") } : null;
}
