"""Splitting into sentences, by the package sentencex, and joining of their translations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nearmt.corpus.spans import find_spans
from nearmt.errors import MissingPackageError
from nearmt.languages import base_language

Span = tuple[int, int]

_LINE = re.compile(r"[^\r\n]+")


def sentence_spans(text: str, language: str, printf: bool | None = None) -> list[Span]:
    """Return the spans of sentences, without white space at their ends. A line break ends a sentence, and none ends
    within a protected span."""
    spans = []
    for line in _LINE.finditer(text):
        offset = line.start()
        for sentence in _sentences(line.group(), base_language(language)):
            spans.append(stripped_span(text, offset, offset + len(sentence)))
            offset += len(sentence)
    found = [(start, end) for start, end in spans if start < end]
    return _around(text, found, printf) if len(found) > 1 else found


def _around(text: str, sentences: list[Span], printf: bool | None) -> list[Span]:
    """Join sentences where one ends within a protected span."""
    protected = iter(find_spans(text, printf))
    span = next(protected, None)
    joined = sentences[:1]
    for start, end in sentences[1:]:
        while span is not None and span.end <= start:
            span = next(protected, None)
        if span is not None and span.start < joined[-1][1]:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


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


def assembled(text: str, cuts: Sequence[Span], parts: Sequence[str]) -> tuple[str, list[Span]]:
    """Join translations with the white space between their sources; also return the span of each."""
    texts, offset, length, spans = [], 0, 0, []
    for (start, end), part in zip(cuts, parts, strict=True):
        space = text[offset:start]
        length += len(space)
        spans.append((length, length + len(part)))
        length += len(part)
        texts += [space, part]
        offset = end
    return "".join([*texts, text[offset:]]), spans
