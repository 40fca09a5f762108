"""Checking of translated files: documents, and pairs of plain texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from nearmt.corpus import Document, LimitsConfig, Request, Tag
from nearmt.corpus.moses import read_aligned
from nearmt.corpus.report import Report
from nearmt.documents.checks import Check, CheckedUnit, Finding, findings_of, ordered

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
    findings: tuple[Finding, ...] = ()


def units_of_document(document: Document, source_lang: str, target_lang: str) -> Iterator[LineUnit]:
    """Yield the units of a document that have a text to translate."""
    for part in document.parts:
        for unit in part.units:
            if any(isinstance(piece, Tag) or piece.strip() for piece in unit.source):
                checked = CheckedUnit(unit.source, unit.target_segment, source_lang, target_lang, unit.printf)
                yield LineUnit(unit.line, checked, bool(checked.target_text.strip()))


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
