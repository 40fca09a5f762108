"""Through a document, window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, compress, islice

from nearmt.corpus import Document, Part, Tag, Unit
from nearmt.documents.filling import FilledUnit, Filler

#: Parts read before they are translated: enough to find sentences of similar length among them.
_WINDOW_BATCHES = 64

Fill = Callable[[list[Unit]], list[FilledUnit]]


def filled_parts(
    document: Document, filler: Filler, fill: Fill, *, everything: bool = False
) -> Iterator[tuple[Part, list[FilledUnit | None]]]:
    """The parts of a document, each with the fillings of its units; None where nothing is to be done.

    Only units without a translation are filled, unless `everything` is asked for. `fill` is the filler's
    own, or something around it (a progress bar).
    """
    window = filler.translator.batch_size * _WINDOW_BATCHES
    while block := list(islice(document.parts, window)):
        wanted = [[_to_fill(unit, everything) for unit in part.units] for part in block]
        every = [unit for part in block for unit in part.units]
        units = list(compress(every, chain.from_iterable(wanted)))
        found = iter(fill(units) if units else [])
        for part, flags in zip(block, wanted, strict=True):
            yield part, [next(found) if flag else None for flag in flags]


def _to_fill(unit: Unit, everything: bool) -> bool:
    """Tags alone are something too: they have to be there in the translation."""
    something = any(isinstance(part, Tag) or part.strip() for part in unit.source)
    return something and (everything or not unit.target.strip())
