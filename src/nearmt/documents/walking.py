"""Through a document, window by window, and from file to file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path

from nearmt.config.filling import FillConfig
from nearmt.corpus import Document, FillingOrigin, Part, Report, Request, Tag, Unit, open_document
from nearmt.corpus.limits import USUAL_LIMITS, LimitsConfig
from nearmt.corpus.output import open_file
from nearmt.documents.doubts import Doubts
from nearmt.documents.filling import FilledUnit, Filler
from nearmt.translator import Translator

#: Parts read before they are translated: enough to find sentences of similar length among them.
_WINDOW_BATCHES = 64
_WINDOW_CHARACTERS = 1 << 24

Fill = Callable[[list[Unit]], list[FilledUnit]]


@dataclass
class FillSummary:
    """What became of the units of a document, and what people should look at."""

    #: Units by where their translation comes from: machine, memory, copy; kept is what was there before.
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    #: Lines that may not have been translated.
    doubts: Doubts = field(default_factory=Doubts)

    def add(self, unit: Unit, filled: FilledUnit | None) -> None:
        self.counts["kept" if filled is None else filled.filling.origin.value] += 1
        if filled is not None:
            self.warnings += [f"line {unit.line}: {warning}" for warning in filled.warnings]
            if filled.filling.origin is FillingOrigin.MACHINE:
                self.doubts.add(unit.line, filled.doubt, filled.translation.source, filled.translation.text)


def filled_parts(
    document: Document, filler: Filler, fill: Fill, *, everything: bool = False
) -> Iterator[tuple[Part, list[FilledUnit | None]]]:
    """The parts of a document, each with the fillings of its units; None where nothing is to be done.

    Only units without a translation are filled, unless `everything` is asked for. `fill` is the filler's
    own, or something around it (a progress bar).
    """
    window = filler.translator.batch_size * _WINDOW_BATCHES
    while block := _window(document.parts, window):
        wanted = [[is_to_fill(unit, everything) for unit in part.units] for part in block]
        every = [unit for part in block for unit in part.units]
        units = list(compress(every, chain.from_iterable(wanted)))
        found = iter(fill(units) if units else [])
        for part, flags in zip(block, wanted, strict=True):
            yield part, [next(found) if flag else None for flag in flags]


def _window(parts: Iterator[Part], most: int) -> list[Part]:
    """The next parts; fewer if they are large."""
    window: list[Part] = []
    characters = 0
    while len(window) < most and characters < _WINDOW_CHARACTERS and (part := next(parts, None)) is not None:
        window.append(part)
        characters += len(part.raw)
    return window


def is_to_fill(unit: Unit, everything: bool) -> bool:
    """Tags alone are something too: they have to be there in the translation."""
    something = any(isinstance(part, Tag) or part.strip() for part in unit.source)
    return something and (everything or not unit.target.strip())


def fill_document(
    path: str | Path,
    output: str | Path,
    translator: Translator,
    config: FillConfig | None = None,
    *,
    everything: bool = False,
    format: str | None = None,
    limits: LimitsConfig = USUAL_LIMITS,
) -> FillSummary:
    """Translate a file into another of the same format; see `nearmt translate`."""
    request = Request(*translator.model.language_pair, limits=limits)
    document = open_document(Path(path), request, Report(strict=True), format)
    filler = Filler(translator, config or FillConfig(), paragraphs=document.paragraphs)
    summary = FillSummary()
    with open_file(Path(output), document.encoding) as out:
        for part, found in filled_parts(document, filler, filler.fill, everything=everything):
            for unit, filled in zip(part.units, found, strict=True):
                summary.add(unit, filled)
            out.write(part.filled([None if filled is None else filled.filling for filled in found]))
    summary.warnings += summary.doubts.notes()
    return summary
