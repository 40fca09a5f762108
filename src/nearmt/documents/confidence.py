"""Words of a translation that neither model nor memory is sure of."""

from __future__ import annotations

from collections.abc import Sequence

from nearmt.contracts import TokenProvenance
from nearmt.documents.checks.base import Finding, Severity, listed

NAME = "confidence"
#: Largest probability of a doubtful token, before and after mixing.
_DOUBTFUL = 0.2
_SPECIAL = ("</s>", "<pad>", "<unk>", "<s>")


def doubtful_words(provenance: Sequence[TokenProvenance]) -> list[str]:
    """The words with a token that is unlikely for the model and, with the memory's neighbours, still is."""
    words: list[tuple[str, bool]] = []
    for token in provenance:
        if token.token in _SPECIAL:
            continue
        is_doubtful = max(token.model_probability, token.probability) < _DOUBTFUL
        if token.token.startswith(" ") or not words:
            words.append((token.token.strip(), is_doubtful))
        else:
            text, was_doubtful = words[-1]
            words[-1] = text + token.token, was_doubtful or is_doubtful
    return [word for word, is_doubtful in words if is_doubtful and any(map(str.isalnum, word))]


def doubts(provenance: Sequence[TokenProvenance] | None) -> tuple[Finding, ...]:
    """A finding with the doubtful words of an explained translation."""
    words = doubtful_words(provenance or ())
    if not words:
        return ()
    return (Finding(NAME, Severity.INFO, "neither model nor memory is sure of these words", listed(words)),)
