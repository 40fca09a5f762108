"""Words of a translation that neither model nor memory is sure of."""

from __future__ import annotations

from collections.abc import Sequence

from nearmt.documents.checks.base import Finding, Severity, listed

NAME = "confidence"


def doubts(unsure: Sequence[str]) -> tuple[Finding, ...]:
    """A finding with the doubtful words of a translation, if it has any."""
    words = list(dict.fromkeys(unsure))
    if not words:
        return ()
    return (Finding(NAME, Severity.INFO, "neither model nor memory is sure of these words", listed(words)),)
