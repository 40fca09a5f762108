"""Continuations that complete a forbidden phrase."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.corpus.phrases import FixedTerms
from nearmt.decoding.forbidden import ForbiddenRule
from nearmt.decoding.state import Chosen
from nearmt.models import TranslationModel
from nearmt.translator import Translator

VOCABULARY = ["</s>", " the", " main", " val", "ve", "ves", " valve", "s", "."]


def subwords(ids: Sequence[int]) -> list[str]:
    return [VOCABULARY[number] for number in ids]


def broken(pattern: str | None, rows: list[list[int]], candidates: list[tuple[int, int]]) -> list[str]:
    """The tokens that may not follow, of candidates with their rows."""
    rule = ForbiddenRule(subwords, [None if pattern is None else re.compile(pattern)])
    state: Any = SimpleNamespace(sentences=[0], tokens=lambda row: rows[row])
    row, token = np.array(candidates).T[:, None]
    found = rule.broken(state, Chosen(np.zeros(row.shape), row, token))
    return [f"{row}{VOCABULARY[token]}" for row, token in found]


def test_a_phrase_is_not_completed_in_any_tokens() -> None:
    pattern = r"(?<!\w)main valve\w{0,2}(?!\w)"
    every = [(row, token) for row in (0, 1, 2) for token in range(len(VOCABULARY))]
    rows = [[1, 2], [1, 2, 3], [1]]
    assert broken(pattern, rows, every) == ["0 valve", "1ve", "1ves"]
    assert broken(None, rows, every) == []


def test_what_a_hypothesis_has_already_does_not_count() -> None:
    assert broken(r"(?<!\w)main(?!\w)", [[2]], [(0, token) for token in (0, 1, 6)]) == []


@pytest.mark.embedded
def test_a_translation_has_no_forbidden_words(embedded: TranslationModel) -> None:
    text = "Die Anlage läuft. Die Pumpe ist neu."
    translator = Translator(embedded)
    free = translator.translate(text).text
    assert "plant" in free.lower()
    terms = FixedTerms([Term("Anlage", "plant", TermStatus.FORBIDDEN)], "de")
    assert "plant" not in translator.translate(text, terms=terms).text.lower()
    assert translator.translate("Die Pumpe ist neu.", terms=terms) == translator.translate("Die Pumpe ist neu.")
