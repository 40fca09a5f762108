"""Checking of translated files: documents, and pairs of plain texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path

from nearmt.corpus import Document, LimitsConfig, Request, Segment, Tag, plain_text
from nearmt.corpus.icu import MessageError, parse_message
from nearmt.corpus.moses import read_aligned
from nearmt.corpus.report import Report
from nearmt.documents.checks import Check, CheckedUnit, Finding, findings_of, ordered
from nearmt.errors import InputError

#: Units that are checked at a time, so that a model can batch those of similar length.
_WINDOW = 512

#: Finds what takes a model, for all units at once.
Align = Callable[[Sequence[CheckedUnit]], list[tuple[Finding, ...]]]


@dataclass(frozen=True)
class LineUnit:
    """A unit with its line and what was found; without a translation it is not checked."""

    line: int
    unit: CheckedUnit
    is_translated: bool = True
    #: Counts all units of its document from 0.
    number: int = 0
    findings: tuple[Finding, ...] = ()


def units_of_document(document: Document, source_lang: str, target_lang: str) -> Iterator[LineUnit]:
    """Yield the units of a document that have a text to translate."""
    for number, unit in enumerate(unit for part in document.parts for unit in part.units):
        if any(isinstance(piece, Tag) or piece.strip() for piece in unit.source):
            checked = CheckedUnit(unit.source, unit.target_segment, source_lang, target_lang, unit.printf)
            yield LineUnit(unit.line, checked, bool(checked.target_text.strip()), number)


def units_of_two(source: Document, target: Document, source_lang: str, target_lang: str) -> Iterator[LineUnit]:
    """Yield the units of a document in one language with those of its translation, in their order; of messages with
    branches those that both have."""
    sides = ((unit for part in document.parts for unit in part.units) for document in (source, target))
    for one, other in zip_longest(*sides):
        if one is None or other is None:
            longer, line = ("source", one.line) if other is None else ("target", other.line)
            raise InputError(f"the {longer} has more texts than the other file, from line {line} on")
        for before, after in _branches(one.source, other.source, source_lang, target_lang):
            yield LineUnit(one.line, CheckedUnit(before, after, source_lang, target_lang, one.printf))


def _branches(source: Segment, target: Segment, *languages: str) -> Iterator[tuple[Segment, Segment]]:
    """The branches of two messages, by their keywords; texts without branches as they are."""
    try:
        messages = [
            parse_message(plain_text(side), language, language)
            for side, language in zip((source, target), languages, strict=True)
        ]
    except MessageError:
        messages = [None, None]
    one, other = messages
    if one is None or other is None:
        yield source, target
        return
    found = {branch.path: branch.text for branch in other.branches}
    for branch in one.branches:
        if branch.path in found:
            yield (branch.text,), (found[branch.path],)


def units_of_texts(
    source: Path, target: Path, source_lang: str, target_lang: str, limits: LimitsConfig
) -> Iterator[LineUnit]:
    """Yield the lines of two aligned texts that are not blank on both sides."""
    pairs = read_aligned(source, target, Request(limits=limits), Report())
    for line, pair in enumerate(pairs, 1):
        if pair.source.strip() or pair.target.strip():
            yield LineUnit(line, CheckedUnit.of_texts(pair.source, pair.target, source_lang, target_lang))


def checked_units(units: Iterator[LineUnit], checks: Sequence[Check], align: Align | None = None) -> Iterator[LineUnit]:
    """Check the units in windows; the order is kept."""
    while window := list(islice(units, _WINDOW)):
        found = [findings_of(each.unit, checks) if each.is_translated else () for each in window]
        if align is not None:
            due = [number for number, each in enumerate(window) if each.is_translated]
            aligned = align([window[number].unit for number in due])
            for number, further in zip(due, aligned, strict=True):
                found[number] = ordered((*found[number], *further))
        for each, findings in zip(window, found, strict=True):
            yield replace(each, findings=findings)
