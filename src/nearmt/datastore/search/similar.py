"""Pairs whose sources have much in common with a sentence: BM25 (Robertson and Zaragoza 2009) over subwords."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar
from weakref import WeakMethod

import numpy as np
import torch
from torch import Tensor

from nearmt.datastore.disk import AnySegment
from nearmt.datastore.disk.spilled import spilled
from nearmt.datastore.search.recall import sample
from nearmt.datastore.search.source_matrix import PairRows, SourceMatrix
from nearmt.engines.devices import device_of

_Found = TypeVar("_Found")
# The usual constants: how soon repetitions stop counting, and how much long sources are held back.
_K1 = 1.2
_B = 0.75
#: Subwords of more than this share of all pairs are ignored: they distinguish little and cost the most.
_COMMON = 0.1
_FEW_PAIRS = 1000
#: Sources that a sentence is compared with to tell how familiar it is.
COMPARED = 8
# The threshold of familiarity is a quantile (_STRANGE) over a sample (_TRIED) of the store's own sources. In a small
# memory (FEWEST_PAIRS), new sentences of its own domain look unfamiliar, too: there is no threshold.
_TRIED = 256
FEWEST_PAIRS = 1000
_STRANGE = 0.05
# A sentence is scored for its guard and for its seeds: the scores of the last sentences are kept, up to _BYTES.
_LATEST = 64
_BYTES = 1 << 25


class Postings:
    """Which pairs of a segment hold a subword, and how often. Made once: what a segment holds does not change."""

    def __init__(self, segment: AnySegment) -> None:
        self._segment = segment
        self.length_P = np.diff(segment.source_end_P, prepend=0).astype(np.int32)
        self.pairs = len(self.length_P)
        pair_S = np.repeat(np.arange(self.pairs), self.length_P)
        # Every (subword, pair) once, by subword, with the number of its occurrences.
        joined_S = segment.source_S.astype(np.int64) * max(1, self.pairs) + pair_S
        joined_X, times_X = np.unique(joined_S, return_counts=True)
        token_X, pair_X = np.divmod(joined_X, max(1, self.pairs))
        # In files: they grow with the store, and a search reads few of them.
        self.pair_X, self.times_X = spilled(pair_X.astype(np.int32)), spilled(times_X.astype(np.int32))
        self._token_U, start_U = np.unique(token_X, return_index=True)
        self._bound_U = np.append(start_U, len(token_X))
        self._rows: tuple[torch.device, PairRows] | None = None

    def spans(self, token_W: np.ndarray) -> np.ndarray:
        """Where the pairs with each of some subwords begin and end, [W, 2]; empty spans where there are none."""
        first_W, behind_W = (np.searchsorted(self._token_U, token_W, side) for side in ("left", "right"))
        return np.stack([self._bound_U[first_W], self._bound_U[behind_W]], axis=1)

    @property
    def subwords(self) -> int:
        """One more than the number of the last one."""
        return int(self._token_U[-1]) + 1 if len(self._token_U) else 0

    def document_frequency(self, seen: np.ndarray | slice) -> np.ndarray:
        """How many of these pairs have each subword in their source, [subwords]."""
        if isinstance(seen, slice):
            found_V = np.zeros(self.subwords, dtype=np.int64)
            found_V[self._token_U] = np.diff(self._bound_U)
            return found_V
        return np.bincount(self._token_X()[seen[self.pair_X]], minlength=self.subwords)

    def _token_X(self) -> np.ndarray:
        return np.repeat(self._token_U, np.diff(self._bound_U))

    def on(self, device: torch.device) -> PairRows:
        """The same by pair, on a GPU; made once."""
        # Not the device of a tensor, which has a number where the one that is asked for need not have one.
        if self._rows is None or self._rows[0] != device:
            self._rows = device, PairRows.of(self._token_X(), self.pair_X, self.times_X, self.length_P, device)
        return self._rows[1]

    def source(self, number: int) -> list[int]:
        """The source tokens of a pair."""
        end = int(self._segment.source_end_P[number])
        found: list[int] = self._segment.source_S[end - int(self.length_P[number]) : end].tolist()
        return found


class Telling(NamedTuple):
    """The subwords of a source that tell something: how often it has each, where they stand in each part, how rare
    they are."""

    times_W: np.ndarray
    spans: list[np.ndarray]  # [W, 2] of each part
    rarity_W: np.ndarray


def _added_up(part: Postings, held_back_P: np.ndarray, span_W2: np.ndarray, counts_W: np.ndarray) -> np.ndarray:
    """The sum of the gains of the postings in these spans for each pair of a part, [P], times `counts_W`."""
    spans = [slice(start, end) for start, end in span_W2.tolist()]
    if not spans:
        return np.zeros(part.pairs)
    pair_Y, times_Y = (np.concatenate([array[span] for span in spans]) for array in (part.pair_X, part.times_X))
    gain_Y = _saturated(times_Y, held_back_P[pair_Y]).astype(np.float32)
    gain_Y = gain_Y * np.repeat(counts_W, span_W2[:, 1] - span_W2[:, 0])
    return np.bincount(pair_Y, gain_Y, minlength=part.pairs)


def _saturated(times: Any, held_back: Any) -> Any:
    return times * (_K1 + 1) / (times + held_back)


def _weakly(method: Callable[[tuple[int, ...]], _Found]) -> Callable[[tuple[int, ...]], _Found]:
    """A method that does not keep its object: an index whose cache did would only be freed by the garbage collector."""
    reference = WeakMethod(method)

    def call(source: tuple[int, ...]) -> _Found:
        found = reference()
        assert found is not None  # who asks has the object
        return found(source)

    return call


class SourceIndex:
    """An inverted index of all sources: those of deleted or hidden pairs are as if they were not there."""

    def __init__(
        self, parts: Sequence[Postings], seen_P: np.ndarray | None = None, device: torch.device | None = None
    ) -> None:
        """`seen_P` says which pairs can be found; None stands for all. On a GPU many sentences are compared at once."""
        self._parts, self._seen_P = parts, seen_P
        self._starts = np.cumsum([0, *(part.pairs for part in parts)])
        #: Numbers run through all pairs, seen or not.
        self.pairs = int(self._starts[-1])
        seen = [part.length_P[self._seen(number)] for number, part in enumerate(parts)]
        self.seen = sum(len(length) for length in seen)
        self._mean_length = max(1.0, sum(int(length.sum()) for length in seen) / max(1, self.seen))
        self._common = max(_FEW_PAIRS, int(_COMMON * self.seen))
        latest = max(1, min(_LATEST, _BYTES // (4 * max(1, self.pairs))))
        self._latest = lru_cache(maxsize=latest)(_weakly(self._scores))
        self._telling_of = lru_cache(maxsize=latest)(_weakly(self._telling))
        self._matrix: SourceMatrix | None = None
        if device is not None and device_of(device).sources_at_once and self.seen:
            self._matrix = self._make_matrix(device)

    def _seen(self, number: int) -> np.ndarray | slice:
        """Which pairs of a part can be found."""
        if self._seen_P is None:
            return slice(None)
        found: np.ndarray = self._seen_P[self._starts[number] : self._starts[number + 1]]
        return found

    def _gain(self, times: Any, length: Any) -> Any:
        """What a subword adds that occurs so often in a source of this length, before its rarity counts."""
        return _saturated(times, self._held_back(length))

    def _held_back(self, length: Any) -> Any:
        """The longer a source, the less each of its subwords counts."""
        return _K1 * (1 - _B + _B * length / self._mean_length)

    def _rarity(self, found: int | np.ndarray) -> Any:
        """The fewer pairs hold a subword, the more it tells."""
        return np.log1p((self.seen - found + 0.5) / (found + 0.5))

    @cached_property
    def _held_back_P(self) -> list[np.ndarray]:
        """By how much each pair's source is held back, by part."""
        return [self._held_back(part.length_P) for part in self._parts]

    def _telling(self, source: tuple[int, ...]) -> Telling:
        """The subwords of a source that are not common."""
        token_W, times_W = np.unique(np.array(source, dtype=np.int64), return_counts=True)
        spans = [part.spans(token_W) for part in self._parts]
        found_W = sum((self._count(*each) for each in enumerate(spans)), start=np.zeros(len(token_W), dtype=np.int64))
        tells_W = found_W <= self._common
        return Telling(times_W[tells_W], [span_W2[tells_W] for span_W2 in spans], self._rarity(found_W[tells_W]))

    def _count(self, number: int, span_W2: np.ndarray) -> np.ndarray:
        """How many seen pairs of a part are in each of these spans of postings, [W]."""
        seen = self._seen(number)
        if isinstance(seen, slice):
            count_W: np.ndarray = span_W2[:, 1] - span_W2[:, 0]
            return count_W
        pair_X = self._parts[number].pair_X
        return np.array([np.count_nonzero(seen[pair_X[start:end]]) for start, end in span_W2], dtype=np.int64)

    def scores(self, source: Sequence[int]) -> np.ndarray:
        """How much each pair's source has in common with these subwords, [P]; 0 is nothing. Not to be written to."""
        score_P = self._latest(tuple(source)).numpy()
        score_P.flags.writeable = False
        return score_P

    def _scores(self, source: tuple[int, ...]) -> Tensor:
        telling = self._telling_of(source)
        counts_W = telling.times_W * telling.rarity_W
        added = [
            _added_up(part, held_back_P, span_W2, counts_W)
            for part, held_back_P, span_W2 in zip(self._parts, self._held_back_P, telling.spans, strict=True)
        ]
        score_P = np.concatenate(added, dtype=np.float32) if added else np.zeros(0, dtype=np.float32)
        if self._seen_P is not None:
            score_P[~self._seen_P] = 0.0
        return torch.from_numpy(score_P)

    def own_score(self, source: Sequence[int]) -> float:
        """What a pair with this very source would score: what other scores are to be compared with."""
        telling = self._telling_of(tuple(source))
        return float((telling.times_W * telling.rarity_W * self._gain(telling.times_W, len(source))).sum())

    def familiarity(self, source: Sequence[int], without: int | None = None) -> float:
        """How much the most similar sources have in common with these subwords, between 0 and about 1.

        The mean score of the best, in shares of the score that the same source would have; `without` leaves a
        pair out.
        """
        return float(self.best_shares(source, without).mean()) if self.seen else 0.0

    def best_shares(self, source: Sequence[int], without: int | None = None) -> np.ndarray:
        """The scores behind `familiarity`, the best last; 1 is that of the same source."""
        count = min(COMPARED, max(1, self.seen))
        own = self.own_score(source)
        if not own:
            return np.ones(count)  # there is nothing in it but what nearly all sources have
        if not self.seen:
            return np.zeros(count)
        score_P = self._latest(tuple(source))
        if without is not None:
            score_P = score_P.clone()
            score_P[without] = 0.0
        # Most pairs have nothing in common with a sentence; among many zeros numpy takes ten times as long.
        return score_P.topk(count).values.numpy()[::-1] / own

    def best(self, source: Sequence[int], count: int) -> np.ndarray:
        """The numbers of up to `count` pairs with something in common, best first; equals in corpus order."""
        score_P = self.scores(source)
        candidates = np.flatnonzero(score_P)
        if len(candidates) > count:
            # All that score like the last one stay in, so that ties are always broken alike.
            bound = np.partition(score_P[candidates], -count)[-count]
            candidates = candidates[score_P[candidates] >= bound]
        return candidates[np.argsort(-score_P[candidates], kind="stable")][:count]

    def best_of_each(self, sources: Sequence[Sequence[int]], count: int) -> tuple[Tensor, list[np.ndarray]]:
        """For each sentence the numbers of up to `count` pairs, [S, P], best first (-1 is padding), and the best
        scores in shares of the score of the same source, best last. One pass over the postings gives both."""
        if self._matrix is not None:
            return self._best_by_matrix(self._matrix, sources, count)
        shares = [self.best_shares(source) for source in sources]
        found = [torch.from_numpy(self.best(source, count)) for source in sources]
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=-1), shares

    def _best_by_matrix(
        self, matrix: SourceMatrix, sources: Sequence[Sequence[int]], count: int
    ) -> tuple[Tensor, list[np.ndarray]]:
        compared = min(COMPARED, self.seen)
        number_SP, score_SP = matrix.best(sources, max(count, compared))
        score_SK, own = score_SP[:, :compared].cpu().numpy()[:, ::-1], matrix.own_scores(sources).tolist()
        shares = [score_K / mine if mine else np.ones(compared) for score_K, mine in zip(score_SK, own, strict=True)]
        return number_SP[:, :count], shares

    def _make_matrix(self, device: torch.device) -> SourceMatrix:
        """All sources on a GPU, with what each subword adds there."""
        found_V = np.zeros(max(part.subwords for part in self._parts), dtype=np.int64)
        for number, part in enumerate(self._parts):
            found_V[: part.subwords] += part.document_frequency(self._seen(number))
        rarity_V = np.where(found_V <= self._common, self._rarity(found_V), 0.0)
        return SourceMatrix(
            parts=[part.on(device) for part in self._parts],
            gain=self._gain,
            rarity_V=rarity_V,
            unknown=float(self._rarity(np.array(0))),
            seen_P=None if self._seen_P is None else torch.from_numpy(self._seen_P).to(device),
        )

    def source(self, number: int) -> list[int]:
        """The source tokens of a pair."""
        part = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._parts[part].source(number - int(self._starts[part]))

    def typical_familiarity(self) -> float | None:
        """The familiarity that nearly all of a sample of the own sources reach, each left out itself."""
        if self.seen < FEWEST_PAIRS:
            return None
        seen = np.arange(self.pairs) if self._seen_P is None else np.flatnonzero(self._seen_P)
        numbers = [int(number) for number in seen[sample(len(seen), _TRIED).numpy()]]
        tried = {number: self.source(number) for number in numbers}
        found = [self.familiarity(source, without=number) for number, source in tried.items() if source]
        return round(float(np.quantile(found, _STRANGE)), 4) if found else None
