"""The context of units and pairs: what tells equal sources apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from nearmt.corpus.cleaning import clean
from nearmt.corpus.document import Part, Unit, plain_text

# Metadata of pairs, in TMX the types of properties: contexts, names of units, and the sources before and after them.
_CONTEXTS = ("context", "x-context", "msgctxt", "x-msgctxt")
_KEYS = ("tuid", "resname")
_BEFORE, _AFTER = ("prev", "x-context-pre"), ("next", "x-context-post")
_MARKUP = re.compile(r"<[^<>]*>")
# Parts that wait for the next unit of a document; without one among them, it counts as unknown.
_WAITING = 16


def context_of(metadata: Mapping[str, str]) -> str:
    """The context that metadata name; empty if they name none."""
    return next((metadata[name] for name in _CONTEXTS if metadata.get(name)), "")


def keys_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of a unit in its file."""
    return tuple(metadata[name] for name in _KEYS if metadata.get(name))


def named_neighbours(metadata: Mapping[str, str]) -> tuple[str, str] | None:
    """The cleaned sources before and after a pair that its metadata name; None if they name none."""
    before, after = (next((metadata[name] for name in names if name in metadata), "") for names in (_BEFORE, _AFTER))
    found = clean(_MARKUP.sub("", before)), clean(_MARKUP.sub("", after))
    return found if any(found) else None


def with_neighbours(parts: Iterable[Part]) -> Iterator[Part]:
    """Tell every unit the sources before and after it; blank ones do not count."""
    waiting: list[Part] = []
    previous = ""
    for part in parts:
        first = next(filter(None, map(_source, part.units)), "")
        if first or len(waiting) == _WAITING:
            for other in waiting:
                done, previous = _told(other, previous, first)
                yield done
            waiting = []
        waiting.append(part)
    for part in waiting:
        done, previous = _told(part, previous, "")
        yield done


def _told(part: Part, previous: str, following: str) -> tuple[Part, str]:
    """A part whose units know their neighbours, and the last source that is not blank."""
    if not part.units:
        return part, previous
    sources = [_source(unit) for unit in part.units]
    units: list[Unit] = []
    for number, unit in enumerate(part.units):
        after = next(filter(None, sources[number + 1 :]), following)
        units.append(replace(unit, previous=previous, following=after))
        previous = sources[number] or previous
    return replace(part, units=tuple(units)), previous


def _source(unit: Unit) -> str:
    return clean(plain_text(unit.source))
