"""Sentence splitting, by the package sentencex."""

from __future__ import annotations

import re

from nearmt.errors import MissingPackageError
from nearmt.languages import base_language

_LINE = re.compile(r"[^\r\n]+")


def sentence_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Return the spans of sentences, without white space at their ends. A line break ends a sentence."""
    spans = []
    for line in _LINE.finditer(text):
        offset = line.start()
        for sentence in _sentences(line.group(), base_language(language)):
            spans.append(stripped_span(text, offset, offset + len(sentence)))
            offset += len(sentence)
    return [(start, end) for start, end in spans if start < end]


def _sentences(line: str, language: str) -> list[str]:
    """Split a line into sentences; a line on which the library crashes is one sentence."""
    try:
        from sentencex import segment
    except ImportError as error:
        raise MissingPackageError(
            "splitting into sentences needs the package sentencex: pip install sentencex"
        ) from error
    try:
        return list(segment(language, line))
    except BaseException as error:
        # Its panics do not derive from Exception, and their class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        return [line]


def stripped_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Shrink a span by the white space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
