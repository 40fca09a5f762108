"""Words that neither model nor memory is sure of."""

from __future__ import annotations

from nearmt.contracts import TokenProvenance
from nearmt.documents.confidence import doubtful_words, doubts


def token(text: str, model: float, mixed: float) -> TokenProvenance:
    return TokenProvenance(text, "model", False, model, mixed, ())


def test_words_are_doubtful_if_one_of_their_tokens_is() -> None:
    tokens = [token(" The", 0.9, 0.9), token(" pum", 0.9, 0.9), token("p", 0.1, 0.1), token(" is", 0.1, 0.8)]
    tokens += [token(" on", 0.7, 0.05), token(" now", 0.1, 0.1), token(".", 0.1, 0.1), token("</s>", 0.01, 0.01)]
    assert doubtful_words(tokens) == ["pump", "now."]
    (finding,) = doubts(tuple(tokens))
    assert str(finding) == "neither model nor memory is sure of these words: pump, now."


def test_nothing_is_said_without_provenance() -> None:
    assert doubts(None) == () and doubts((token(" a", 1.0, 1.0),)) == ()
