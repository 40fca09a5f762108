"""The terms of a store: words of few sources that are translated alike."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from nearmt.datastore import Datastore, MaskedStore
from nearmt.datastore.search.terms import ALIKE, FEWEST, RARE, AlignedWords, StoreTerms

Entries = list[tuple[int, int]]
#: Pairs that have nothing to do with a word.
OTHERS: list[Entries] = [[(9, 900), (0, 0)]] * 600


def part(pairs: Sequence[Entries]) -> AlignedWords:
    """A segment of pairs, each with the word and the token of its entries."""
    word_N, token_N = (np.array([entry[i] for pair in pairs for entry in pair], dtype=np.int64) for i in (0, 1))
    ends = np.cumsum([len(pair) for pair in pairs])
    return AlignedWords(SimpleNamespace(word_N=word_N.astype("<u2"), token_N=token_N, end_P=ends))  # type: ignore[arg-type]


def translated(*tokens: int, word: int = 40_000) -> Entries:
    """A pair whose source has the word once, translated by these tokens."""
    return [*((word, token) for token in tokens), (0, 0)]


def is_term(*parts: Sequence[Entries], seen_P: np.ndarray | None = None) -> bool:
    return StoreTerms(lambda: [part(pairs) for pairs in parts], seen_P).among([40_000, 9, 5]) == {40_000}


def test_a_word_of_few_pairs_with_one_translation_is_a_term() -> None:
    assert is_term([translated(7, 8), translated(7, 8), *OTHERS])


def test_a_word_of_one_pair_is_no_term() -> None:
    assert FEWEST == 2
    assert not is_term([translated(7, 8), *OTHERS])
    # The same pair twice over: tokens are counted once a pair.
    assert not is_term([translated(7, 7, 7), *OTHERS])


def test_a_word_of_many_pairs_is_no_term() -> None:
    most = int(RARE * 600)
    assert is_term([*[translated(7)] * most, *OTHERS[most:]])
    assert not is_term([*[translated(7)] * (most + 1), *OTHERS[most + 1 :]])


def test_translations_have_to_share_a_token() -> None:
    """One of five pairs may differ, and two; three may not."""
    assert ALIKE == 0.6
    assert is_term([*[translated(7, 1)] * 3, translated(5), translated(4), *OTHERS])
    assert not is_term([*[translated(7, 1)] * 2, translated(5), translated(4), translated(6), *OTHERS])
    # Twice in one pair counts once.
    assert not is_term([translated(7, 7, 7), translated(5), *OTHERS])


def test_terms_go_through_all_segments() -> None:
    assert is_term([translated(7), *OTHERS], [translated(7)])
    assert not is_term([translated(7), *OTHERS], [translated(8)])


def test_hidden_pairs_are_as_if_they_were_not_there() -> None:
    pairs = [translated(7), translated(8), translated(7), *OTHERS]
    seen_P = np.ones(len(pairs), dtype=bool)
    assert is_term(pairs, seen_P=seen_P)
    seen_P[0] = False
    assert not is_term(pairs, seen_P=seen_P)
    seen_P[1:3] = False, True
    assert not is_term(pairs, seen_P=seen_P)
    assert is_term([*pairs, translated(7)], seen_P=np.append(seen_P, True))


def test_an_empty_store_has_no_terms() -> None:
    assert StoreTerms(list, None).among([1]) == frozenset()


@pytest.mark.parametrize("hidden", [[], [3, 4, 5, 40, 41]])
def test_terms_of_a_store(tiny_store: Datastore, hidden: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each code by brute force, pair by pair; a tenth of the pairs may have a word, for the store is small."""
    monkeypatch.setattr("nearmt.datastore.search.terms.RARE", 0.1)
    store = MaskedStore(tiny_store, hidden).snapshot()
    (segment,) = store.segments
    pairs = [np.arange(*each) for each in zip([0, *segment.end_P], segment.end_P, strict=False)]
    shown = [entries for number, entries in enumerate(pairs) if number not in hidden]
    expected = set()
    for code in set(segment.word_N.tolist()) - {0}:
        found = [set(segment.token_N[entries[segment.word_N[entries] == code]].tolist()) for entries in shown]
        found = [tokens for tokens in found if tokens]
        alike = max((sum(token in tokens for tokens in found) for token in set().union(*found)), default=0)
        if FEWEST <= len(found) <= 0.1 * len(shown) and alike >= ALIKE * len(found):
            expected.add(code)
    assert store.profile.terms(range(1, 1 << 16)) == expected and expected
