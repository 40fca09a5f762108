"""Migration of manifests from older formats, one version at a time. Other files stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMAT = 3


def _with_a_log(raw: dict[str, Any]) -> dict[str, Any]:
    """Format 2 (nearmt 0.4): stores can be edited; changes since the last segment are in a log, if there is one."""
    entries = sum(segment["entries"] for segment in raw["segments"])
    calibration = {**raw["calibration"], "entries": entries}
    return {**raw, "log": None, "calibration": calibration}


def _with_units(raw: dict[str, Any]) -> dict[str, Any]:
    """Format 3 (nearmt 0.5): an index may have integer codes with a unit, which older versions cannot read."""
    return raw


#: Format -> migration to the next format.
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_a_log, 2: _with_units}


def migrated(raw: dict[str, Any]) -> dict[str, Any]:
    """The manifest in the present format; a newer one is returned unchanged."""
    while (number := raw["format"]) in MIGRATIONS:
        raw = {**MIGRATIONS[number](raw), "format": number + 1}
    return raw
