"""Pairs whose sources have much in common with a sentence: BM25 (Robertson and Zaragoza 2009) over subwords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nearmt.datastore import Segment
from nearmt.datastore.segment import SOURCE
from nearmt.store.recall import sample

# The usual constants: how soon repetitions stop counting, and how much long sources are held back.
_K1 = 1.2
_B = 0.75
#: Subwords of more than this share of all pairs tell nothing apart and would cost the most.
_COMMON = 0.1
_FEW_PAIRS = 1000
# Sources that a sentence is compared with to tell how familiar it is.
_COMPARED = 8
# Of the store's own sources: so many are tried, and all but this share of them count as familiar.
# In a small memory new sentences of its own kind look strange too: nothing is concluded from it.
_TRIED = 256
FEWEST_PAIRS = 1000
_STRANGE = 0.1


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
        self._mean_length = max(1.0, float(length_P.mean())) if self.pairs else 1.0
        self._gain_X = self._gain(times_X, length_P[self._pair_X]).astype(np.float32)
        self._common = max(_FEW_PAIRS, int(_COMMON * self.pairs))

    def _gain(self, times: np.ndarray, length: np.ndarray) -> np.ndarray:
        """What a subword adds that occurs so often in a source of this length, before its rarity counts."""
        return times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length / self._mean_length))

    def scores(self, source: Sequence[int]) -> np.ndarray:
        """How much each pair's source has in common with these subwords, [P]; 0 is nothing."""
        score_P = np.zeros(self.pairs, dtype=np.float32)
        for token, times in Counter(source).items():
            span = self._span(token)
            if span.stop - span.start <= self._common:
                score_P[self._pair_X[span]] += times * self._rarity(span) * self._gain_X[span]
        return score_P

    def own_score(self, source: Sequence[int]) -> float:
        """What a pair with this very source would score: what other scores are to be compared with."""
        total = 0.0
        for token, times in Counter(source).items():
            span = self._span(token)
            if span.stop - span.start <= self._common:
                total += times * self._rarity(span) * float(self._gain(np.array(times), np.array(len(source))))
        return total

    def familiarity(self, source: Sequence[int], without: int | np.ndarray | None = None) -> float:
        """How much the most similar sources have in common with these subwords, between 0 and about 1.

        The mean score of the best, in shares of the score that the same source would have; `without` leaves a
        pair out, or all that a mask [P] names.
        """
        return float(self.best_shares(source, without).mean()) if self.pairs else 0.0

    def best_shares(self, source: Sequence[int], without: int | np.ndarray | None = None) -> np.ndarray:
        """The scores behind `familiarity`, the best last; 1 is that of the same source."""
        count = min(_COMPARED, self.pairs)
        own = self.own_score(source)
        if not own:
            return np.ones(count)  # there is nothing in it but what nearly all sources have
        score_P = self.scores(source)
        if without is not None:
            score_P[without] = 0.0
        # Most pairs have nothing in common with a sentence; a few zeros stand for all of those.
        candidate_X = np.append(score_P[score_P > 0], np.zeros(count, dtype=np.float32))
        return np.sort(np.partition(candidate_X, -count)[-count:]) / own

    def _span(self, token: int) -> slice:
        """Where the pairs with a subword stand; an empty span if there are none."""
        place = int(np.searchsorted(self._token_U, token))
        if place == len(self._token_U) or self._token_U[place] != token:
            return slice(0, 0)
        return slice(int(self._start_U[place]), int(self._end_U[place]))

    def _rarity(self, span: slice) -> float:
        """The fewer pairs hold a subword, the more it tells."""
        found = span.stop - span.start
        return float(np.log1p((self.pairs - found + 0.5) / (found + 0.5)))

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


def typical_familiarity(segments: list[Segment]) -> float | None:
    """The familiarity that nearly all of a sample of the store's own sources reach, each left out itself."""
    if not all(SOURCE in segment.record.files for segment in segments):
        return None  # what stands in segments made before nearmt 0.3 is not known
    if sum(segment.record.pairs for segment in segments) < FEWEST_PAIRS:
        return None
    similar = SimilarSources(segments)
    sources = [part for segment in segments for part in np.split(segment.source_S, segment.source_end_P[:-1])]
    numbers = [number for number in sample(similar.pairs, _TRIED).tolist() if len(sources[number])]
    if not numbers:
        return None
    found = [similar.familiarity(sources[number].tolist(), without=number) for number in numbers]
    return round(float(np.quantile(found, _STRANGE)), 4)
