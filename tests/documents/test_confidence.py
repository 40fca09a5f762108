"""Words of a translation that neither model nor memory is sure of."""

from __future__ import annotations

from nearmt.documents.confidence import doubts


def test_doubtful_words_are_a_finding() -> None:
    (finding,) = doubts(("pump", "now", "pump"))
    assert str(finding) == "neither model nor memory is sure of these words: pump, now"
    assert doubts(()) == ()
