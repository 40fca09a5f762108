"""Pairs whose sources have much in common with a sentence: BM25 (Robertson and Zaragoza 2009) over subwords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nearmt.datastore import Segment

# The usual constants: how soon repetitions stop counting, and how much long sources are held back.
_K1 = 1.2
_B = 0.75
#: Subwords of more than this share of all pairs tell nothing apart and would cost the most.
_COMMON = 0.1
_FEW_PAIRS = 1000


class SimilarSources:
    """An inverted index of all segments' sources: which pairs hold a subword, and what it adds to their score."""

    def __init__(self, segments: list[Segment]) -> None:
        lengths = [np.diff(segment.source_end_P, prepend=0) for segment in segments]
        length_P = np.concatenate(lengths) if lengths else np.zeros(0, dtype=np.int64)
        self.pairs = len(length_P)
        token_S = np.concatenate([segment.source_S for segment in segments]) if segments else np.zeros(0, np.int32)
        pair_S = np.repeat(np.arange(self.pairs), length_P)
        # Every (subword, pair) once, by subword, with the number of its occurrences.
        both_X, times_X = np.unique(token_S.astype(np.int64) * max(1, self.pairs) + pair_S, return_counts=True)
        token_X, self._pair_X = np.divmod(both_X, max(1, self.pairs))
        self._token_U, self._start_U = np.unique(token_X, return_index=True)
        self._end_U = np.append(self._start_U[1:], len(token_X))
        held_back_P = _K1 * (1 - _B + _B * length_P / max(1.0, length_P.mean() if self.pairs else 1.0))
        self._gain_X = (times_X * (_K1 + 1) / (times_X + held_back_P[self._pair_X])).astype(np.float32)
        found_U = self._end_U - self._start_U
        self._rarity_U = np.log1p((self.pairs - found_U + 0.5) / (found_U + 0.5))
        self._common = max(_FEW_PAIRS, int(_COMMON * self.pairs))

    def scores(self, source: Sequence[int]) -> np.ndarray:
        """How much each pair's source has in common with these subwords, [P]; 0 is nothing."""
        score_P = np.zeros(self.pairs, dtype=np.float32)
        for token, times in Counter(source).items():
            place = int(np.searchsorted(self._token_U, token))
            if place == len(self._token_U) or self._token_U[place] != token:
                continue
            span = slice(self._start_U[place], self._end_U[place])
            if span.stop - span.start <= self._common:
                score_P[self._pair_X[span]] += times * self._rarity_U[place] * self._gain_X[span]
        return score_P

    def best(self, source: Sequence[int], count: int, allowed_P: np.ndarray | None = None) -> np.ndarray:
        """The numbers of up to `count` pairs with something in common, best first; equals in corpus order."""
        score_P = self.scores(source)
        if allowed_P is not None:
            score_P[~allowed_P] = 0.0
        candidates = np.flatnonzero(score_P)
        if len(candidates) > count:
            # All that score like the last one stay in, so that ties are always broken alike.
            bound = np.partition(score_P[candidates], -count)[-count]
            candidates = candidates[score_P[candidates] >= bound]
        return candidates[np.argsort(-score_P[candidates], kind="stable")][:count]
