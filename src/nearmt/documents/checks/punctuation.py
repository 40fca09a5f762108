"""Punctuation at the end."""

from __future__ import annotations

from collections.abc import Iterator

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

#: Marks that are one and the same in different scripts.
_SAME = {
    "。": ".",
    "．": ".",
    "｡": ".",
    "।": ".",
    "۔": ".",
    "։": ".",
    "？": "?",
    "؟": "?",
    "！": "!",
    "：": ":",
    "；": ";",
}
_SAME |= {"，": ",", "、": ",", "،": ",", "؛": ";"}
_ENDS = ".?!:;,…"
#: Greek questions end with it.
_GREEK_QUESTION = ";\u037e"
_QUESTIONS = "?？؟;\u037e"
_CLOSING = "\"'“”‘’«»„‹›)]}*_」』）"


class PunctuationCheck:
    """A sentence that ends as a question and is none, or the like."""

    name = "punctuation"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        if not unit.source_words or not unit.target_words:
            return
        source, target = _end(unit.source_text), _end(unit.target_text)
        if unit.target_lang == "el" and target in _GREEK_QUESTION:
            target = "?"
        if unit.source_lang == "el" and source in _GREEK_QUESTION:
            source = "?"
        if source != target and (source or target):
            # A question that is none in the other language is a matter of content; the rest is one of style.
            texts = (unit.source_text, unit.target_text)
            is_lost = "?" in (source, target) and not all(any(map(text.__contains__, _QUESTIONS)) for text in texts)
            severity = Severity.WARNING if is_lost else Severity.INFO
            detail = f"{source or 'nothing'} became {target or 'nothing'}"
            yield Finding(self.name, severity, "the punctuation at the end differs from the source", detail)


def _end(text: str) -> str:
    """The mark at the end, before closing quotes and brackets; empty if there is none."""
    text = text.rstrip()
    bare = text.rstrip(_CLOSING + " ") or text
    if bare.endswith("..."):
        return "…"
    last = _SAME.get(bare[-1:], bare[-1:])
    return last if last and last in _ENDS else ""
