"""The terms of a store: words that few of its sources have, and that its translators translate alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from nearmt.datastore.disk import AnySegment
from nearmt.models.words import CODES

#: Pairs that have to have a term, and the share of all pairs that may.
FEWEST, RARE = 2, 0.01
#: The share of these in which the translation has one same token.
ALIKE = 0.6
# Entries that a pair has for a word, at most, as a rule.
_ENTRIES = 8


class AlignedWords:
    """Where the words of a segment are: its entries by the code of the source word that each is aligned with. Made
    once: what a segment holds does not change."""

    def __init__(self, segment: AnySegment) -> None:
        self._token_N, self._end_P = segment.token_N, segment.end_P
        self.pairs = len(self._end_P)
        entry_X = np.flatnonzero(segment.word_N)
        word_X = segment.word_N[entry_X]
        smallest = np.min_scalar_type(len(segment.word_N))
        self._entry_X = entry_X[np.argsort(word_X, kind="stable")].astype(smallest)
        self._bound_C = np.append(0, np.bincount(word_X, minlength=CODES).cumsum())

    def count(self, code: int) -> int:
        """Entries with this word."""
        return int(self._bound_C[code + 1] - self._bound_C[code])

    def translations(self, code: int) -> tuple[np.ndarray, np.ndarray]:
        """The pair and the target token of each entry with this word."""
        entry_X = self._entry_X[self._bound_C[code] : self._bound_C[code + 1]]
        return np.searchsorted(self._end_P, entry_X, side="right"), self._token_N[entry_X]


class StoreTerms:
    """Tells which words are terms of a store: those of deleted or hidden pairs are as if they were not there."""

    def __init__(self, parts: Callable[[], Sequence[AlignedWords]], seen_P: np.ndarray | None) -> None:
        """`parts` are asked for once a word is; `seen_P` says which pairs can be found, None stands for all."""
        self._make_parts, self._seen_P = parts, seen_P
        self._known: dict[int, bool] = {}

    @cached_property
    def _parts(self) -> Sequence[AlignedWords]:
        return self._make_parts()

    @cached_property
    def _most(self) -> float:
        pairs = sum(part.pairs for part in self._parts) if self._seen_P is None else int(self._seen_P.sum())
        return RARE * pairs

    def among(self, codes: Iterable[int]) -> frozenset[int]:
        """Those of some codes of words that are terms."""
        return frozenset(code for code in codes if self._is_term(code))

    def _is_term(self, code: int) -> bool:
        if code not in self._known:
            self._known[code] = self._looked_up(code)
        return self._known[code]

    def _looked_up(self, code: int) -> bool:
        # Frequent words would take long to look up.
        if not FEWEST <= sum(part.count(code) for part in self._parts) <= _ENTRIES * self._most:
            return False
        pair_X, token_X = self._translations(code)
        pairs = len(np.unique(pair_X))
        if not FEWEST <= pairs <= self._most:
            return False
        once_2Y = np.unique(np.stack([token_X, pair_X]), axis=1)
        return bool(np.unique(once_2Y[0], return_counts=True)[1].max() >= ALIKE * pairs)

    def _translations(self, code: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs, numbered throughout, and target tokens of all entries with a word that can be found."""
        found, start = list[tuple[np.ndarray, np.ndarray]](), 0
        for part in self._parts:
            pair_X, token_X = part.translations(code)
            found.append((pair_X + start, token_X))
            start += part.pairs
        pair_X, token_X = (np.concatenate(each) for each in zip(*found, strict=True))
        if self._seen_P is None:
            return pair_X, token_X
        seen_X = self._seen_P[pair_X]
        return pair_X[seen_X], token_X[seen_X]
