"""The scores of `similar`, for many sentences at once: all sources as a sparse matrix on a GPU.

Shapes: P pairs, X different subwords of pairs, V subwords, S sentences.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

# Scores that are held at a time.
_SCORES = 1 << 26


class PairRows(NamedTuple):
    """Which subwords the pairs of a segment hold, by pair: a matrix without its values."""

    start_P: Tensor  # where the subwords of each pair begin, and where those of the last one end
    token_X: Tensor
    times_X: Tensor
    length_X: Tensor  # of the source that holds them

    @classmethod
    def of(
        cls, token_X: np.ndarray, pair_X: np.ndarray, times_X: np.ndarray, length_P: np.ndarray, device: torch.device
    ) -> PairRows:
        """From the same by subword."""
        token, pair, times = (torch.from_numpy(part).to(device) for part in (token_X, pair_X.astype(np.int64), times_X))
        length = torch.from_numpy(length_P).to(device)
        order_X = pair.argsort(stable=True)
        count_P = torch.bincount(pair, minlength=len(length))
        start_P = torch.nn.functional.pad(count_P.cumsum(0), (1, 0))
        return cls(start_P, token[order_X], times[order_X].float(), length[pair[order_X]].float())


class SourceMatrix:
    """Rows are pairs, columns subwords; values are what a subword adds to the score of a pair that holds it."""

    def __init__(
        self,
        parts: Sequence[PairRows],
        gain: Callable[[Any, Any], Any],
        rarity_V: np.ndarray,
        unknown: float,
        seen_P: Tensor | None,
    ) -> None:
        """`rarity_V` is 0 for subwords that do not count, `unknown` is that of subwords that no pair holds."""
        self._gain, self._rarity_V, self._unknown, self._seen_P = gain, rarity_V, unknown, seen_P
        rarity = torch.from_numpy(rarity_V).float().to(parts[0].times_X.device)
        values = [rarity[part.token_X] * gain(part.times_X, part.length_X) for part in parts]
        self._parts = [_matrix(part, value_X, len(rarity_V)) for part, value_X in zip(parts, values, strict=True)]
        self._device = rarity.device
        self.pairs = sum(len(part.start_P) - 1 for part in parts)
        #: A group of sentences is asked about twice, for its seeds and for its guard.
        self._latest: tuple[list[tuple[int, ...]], Tensor, Tensor] | None = None

    def best(self, sources: Sequence[Sequence[int]], count: int) -> tuple[Tensor, Tensor]:
        """The numbers and scores of the pairs with most in common with each sentence, [S, P], best first; -1 and 0
        fill up."""
        count, asked, latest = min(count, self.pairs), [tuple(source) for source in sources], self._latest
        if latest is None or latest[0] != asked or latest[1].shape[1] < count:
            each = max(1, _SCORES // max(1, self.pairs))
            found = [self._best(sources[start : start + each], count) for start in range(0, len(sources), each)]
            latest = asked, torch.cat([number for number, _ in found]), torch.cat([score for _, score in found])
            self._latest = latest
        return latest[1][:, :count], latest[2][:, :count]

    def _best(self, sources: Sequence[Sequence[int]], count: int) -> tuple[Tensor, Tensor]:
        score_SP = self._scores(sources)
        top = score_SP.topk(count, dim=1)
        return torch.where(top.values > 0, top.indices, -1), top.values

    def _scores(self, sources: Sequence[Sequence[int]]) -> Tensor:
        """How much each pair has in common with each sentence, [S, P]."""
        subwords = len(self._rarity_V)
        token_X = np.fromiter(chain.from_iterable(sources), dtype=np.int64)
        number_X = np.repeat(np.arange(len(sources)), [len(source) for source in sources])
        place_2X = np.stack([token_X, number_X])[:, token_X < subwords]
        token, number = torch.from_numpy(place_2X).to(self._device)
        times_VS = torch.zeros(subwords, len(sources), device=self._device)
        times_VS.index_put_((token, number), torch.ones(len(token), device=self._device), accumulate=True)
        score_SP = torch.cat([part_PV @ times_VS for part_PV in self._parts]).T.contiguous()
        return score_SP if self._seen_P is None else score_SP * self._seen_P

    def own_score(self, source: Sequence[int]) -> float:
        """What a pair with this very source would score."""
        counted = Counter(source)
        times = np.array(list(counted.values()), dtype=np.float64)
        rarity = [self._rarity_V[token] if token < len(self._rarity_V) else self._unknown for token in counted]
        return float((times * rarity * self._gain(times, float(len(source)))).sum())


def _matrix(rows: PairRows, value_X: Tensor, subwords: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its sparse matrices a beta
        size = (len(rows.start_P) - 1, subwords)
        return torch.sparse_csr_tensor(rows.start_P, rows.token_X, value_X, size)
