"""Accelerator markers of units: taken out before translation, set on a letter of the translation."""

from __future__ import annotations

from dataclasses import replace

from nearmt.corpus import Segment, Unit
from nearmt.corpus.accelerators import Accelerator, remove_accelerator, set_accelerator


def without_accelerator(unit: Unit) -> Unit:
    """The unit without its marker."""
    text, accelerator = _found(unit)
    return unit if accelerator is None else replace(unit, source=(text,))


def with_accelerator(unit: Unit, target: Segment) -> Segment:
    """A translation with a marker, if the unit has one."""
    accelerator = _found(unit)[1]
    if accelerator is None or len(target) != 1 or not isinstance(target[0], str):
        return target
    return (set_accelerator(target[0], accelerator),)


def _found(unit: Unit) -> tuple[str, Accelerator | None]:
    """The text of a unit without inline tags, without its marker, and the marker."""
    (part, *others) = unit.source or ("",)
    return remove_accelerator(part) if isinstance(part, str) and not others else ("", None)
