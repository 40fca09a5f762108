"""Manifests of older formats, brought up to date one number at a time. Files stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMAT = 3


def _with_a_log(raw: dict[str, Any]) -> dict[str, Any]:
    """Format 2 (nearmt 0.4): stores are edited; what is not yet in a segment stands in a log, if there is one."""
    entries = sum(segment["entries"] for segment in raw["segments"])
    calibration = {**raw["calibration"], "entries": entries}
    return {**raw, "log": None, "calibration": calibration}


def _with_units(raw: dict[str, Any]) -> dict[str, Any]:
    """Format 3 (nearmt 0.5): codes of an index may be whole numbers of a unit, which older versions do not know."""
    return raw


#: Format -> what makes it the next one.
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_a_log, 2: _with_units}


def migrated(raw: dict[str, Any]) -> dict[str, Any]:
    """The same manifest in today's format; one that is newer comes back as it is."""
    while (number := raw["format"]) in MIGRATIONS:
        raw = {**MIGRATIONS[number](raw), "format": number + 1}
    return raw
