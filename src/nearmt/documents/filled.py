"""Filled units: the result of filling."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.contracts import Translation
from nearmt.corpus import Filling
from nearmt.documents.issues import Issue


@dataclass(frozen=True)
class FilledUnit:
    """A unit's filling, its translation, and warnings about it."""

    filling: Filling
    translation: Translation
    warnings: tuple[str, ...] = ()
    issue: Issue | None = None
