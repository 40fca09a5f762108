"""Filling of whole documents, in windows of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path

from nearmt.config.filling import FillConfig
from nearmt.corpus import Document, FillingOrigin, Part, Report, Request, Tag, Unit, open_document
from nearmt.corpus.labels import LabelsConfig
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.output import open_file
from nearmt.documents.checks.summary import FindingSummary
from nearmt.documents.filled import FilledUnit
from nearmt.documents.filling import Filler
from nearmt.translator import Translator

#: Size of a window in batches: large enough to batch sentences of similar length.
_WINDOW_BATCHES = 64
_WINDOW_CHARACTERS = 1 << 24

Fill = Callable[[list[Unit]], list[FilledUnit]]


@dataclass
class FillSummary:
    """Counts of units by origin, and findings about those that were filled in."""

    #: Units by origin of their translation: machine, memory, repaired, copy, or kept.
    counts: Counter[str] = field(default_factory=Counter)
    findings: FindingSummary = field(default_factory=FindingSummary)

    def add(self, unit: Unit, filled: FilledUnit | None) -> None:
        self.counts["kept" if filled is None else filled.filling.origin.value] += 1
        if filled is None or filled.filling.origin is FillingOrigin.COPY:
            return
        texts = filled.translation.source, filled.translation.text
        is_readable = all(finding.check != "characters" for finding in filled.findings)
        counts = filled.filling.origin is FillingOrigin.MACHINE and is_readable
        self.findings.add(unit.line, filled.findings, *(texts if counts else ()))

    @property
    def warnings(self) -> list[str]:
        """What to look at: one line for each kind of finding."""
        return self.findings.notes()


def filled_parts(
    document: Document, filler: Filler, fill: Fill, *, everything: bool = False
) -> Iterator[tuple[Part, list[FilledUnit | None]]]:
    """Yield the parts of a document with the fillings of their units; None for units that are kept.

    Only units without a translation are filled, unless `everything` is set. `fill` is the filler's method, possibly
    wrapped by a progress bar.
    """
    window = filler.translator.batch_size * _WINDOW_BATCHES
    while block := _window(document.parts, window):
        to_fill = [[is_to_fill(unit, everything) for unit in part.units] for part in block]
        every = [unit for part in block for unit in part.units]
        units = list(compress(every, chain.from_iterable(to_fill)))
        found = iter(fill(units) if units else [])
        for part, flags in zip(block, to_fill, strict=True):
            yield part, [next(found) if flag else None for flag in flags]


def _window(parts: Iterator[Part], most: int) -> list[Part]:
    """Read the next parts, fewer if they are large."""
    window: list[Part] = []
    characters = 0
    while len(window) < most and characters < _WINDOW_CHARACTERS and (part := next(parts, None)) is not None:
        window.append(part)
        characters += len(part.raw)
    return window


def is_to_fill(unit: Unit, everything: bool) -> bool:
    """Whether a unit has text or tags, and no translation unless `everything` is set."""
    has_content = any(isinstance(part, Tag) or part.strip() for part in unit.source)
    return has_content and (everything or not unit.target.strip())


def fill_document(
    path: str | Path,
    output: str | Path,
    translator: Translator,
    config: FillConfig | None = None,
    *,
    everything: bool = False,
    format: str | None = None,
    limits: LimitsConfig = DEFAULT_LIMITS,
    file_languages: str | None = None,
) -> FillSummary:
    """Translate a file and write the result in the same format; see `nearmt translate`."""
    request = Request(*translator.model.language_pair, limits=limits, labels=LabelsConfig(file_languages))
    document = open_document(Path(path), request, Report(strict=True), format)
    filler = Filler(translator, config or FillConfig(), paragraphs=document.paragraphs)
    summary = FillSummary()
    with open_file(Path(output), document.encoding) as out:
        for part, found in filled_parts(document, filler, filler.fill, everything=everything):
            for unit, filled in zip(part.units, found, strict=True):
                summary.add(unit, filled)
            out.write(part.filled([None if filled is None else filled.filling for filled in found]))
    return summary
