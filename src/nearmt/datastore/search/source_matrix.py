"""The BM25 scores of `similar` for many sentences at once: all sources as a sparse matrix on a GPU.

Shapes: P pairs, X different subwords of pairs, V subwords, S sentences.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

# Scores that are computed at a time.
_SCORES = 1 << 26
# Pairs in a block of the two-stage top-k: the best pairs lie in the blocks with the best maxima.
_BLOCK = 64


class PairRows(NamedTuple):
    """The subwords of a segment's pairs, by pair: the structure of a CSR matrix without values."""

    start_P: Tensor  # row pointers, [P + 1]
    token_X: Tensor
    times_X: Tensor
    length_X: Tensor  # length of the source that contains them

    @classmethod
    def of(
        cls, token_X: np.ndarray, pair_X: np.ndarray, times_X: np.ndarray, length_P: np.ndarray, device: torch.device
    ) -> PairRows:
        """Convert from lists by subword."""
        token, pair, times = (torch.from_numpy(part).to(device) for part in (token_X, pair_X.astype(np.int64), times_X))
        length = torch.from_numpy(length_P).to(device)
        order_X = pair.argsort(stable=True)
        count_P = torch.bincount(pair, minlength=len(length))
        start_P = torch.nn.functional.pad(count_P.cumsum(0), (1, 0))
        return cls(start_P, token[order_X], times[order_X].float(), length[pair[order_X]].float())


class SourceMatrix:
    """Rows are pairs, columns subwords; a value is what a subword adds to the score of a pair that contains it."""

    def __init__(
        self,
        parts: Sequence[PairRows],
        gain: Callable[[Any, Any], Any],
        rarity_V: np.ndarray,
        unknown: float,
        seen_P: Tensor | None,
    ) -> None:
        """`rarity_V`: weights of subwords, 0 for ignored ones; `unknown`: weight of subwords that no pair contains."""
        self._gain, self._rarity_V, self._unknown, self._seen_P = gain, rarity_V, unknown, seen_P
        rarity = torch.from_numpy(rarity_V).float().to(parts[0].times_X.device)
        values = [rarity[part.token_X] * gain(part.times_X, part.length_X) for part in parts]
        self._device = rarity.device
        self.pairs = sum(len(part.start_P) - 1 for part in parts)
        #: Empty rows pad the last block.
        spare = [0] * (len(parts) - 1) + [-self.pairs % _BLOCK]
        rows = zip(parts, values, spare, strict=True)
        self._parts = [_matrix(part, value_X, len(rarity_V), more) for part, value_X, more in rows]

    def best(self, sources: Sequence[Sequence[int]], count: int) -> tuple[Tensor, Tensor]:
        """Numbers and scores of the `count` most similar pairs of each sentence, [S, count], best first; padded with
        -1 and 0."""
        count, each = min(count, self.pairs), max(1, _SCORES // max(1, self.pairs))
        found = [self._best(sources[start : start + each], count) for start in range(0, len(sources), each)]
        return torch.cat([number for number, _ in found]), torch.cat([score for _, score in found])

    def _best(self, sources: Sequence[Sequence[int]], count: int) -> tuple[Tensor, Tensor]:
        score_PS = self._scores(sources)
        score_GXS = score_PS.view(-1, _BLOCK, len(sources))
        maximum_SG = score_GXS.amax(dim=1).T.contiguous()
        block_SK = maximum_SG.topk(min(count, maximum_SG.shape[1]), dim=1, sorted=False).indices
        sentence_S1 = torch.arange(len(sources), device=self._device)[:, None]
        score_SX = score_GXS[block_SK, :, sentence_S1].flatten(1)
        number_SX = (block_SK[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=self._device)).flatten(1)
        top = score_SX.topk(count, dim=1)
        return torch.where(top.values > 0, number_SX.gather(1, top.indices), -1), top.values

    def _scores(self, sources: Sequence[Sequence[int]]) -> Tensor:
        """Scores of all pairs for each sentence, [P, S], padded with zeros to whole blocks."""
        subwords, (token_X, number_X) = len(self._rarity_V), _flat(sources)
        index_2X = np.stack([token_X, number_X])[:, token_X < subwords]
        token, number = torch.from_numpy(index_2X).to(self._device)
        times_VS = torch.zeros(subwords, len(sources), device=self._device)
        times_VS.index_put_((token, number), torch.ones(len(token), device=self._device), accumulate=True)
        products = [part_PV @ times_VS for part_PV in self._parts]
        score_PS = products[0] if len(products) == 1 else torch.cat(products)
        if self._seen_P is not None:
            score_PS[: self.pairs] *= self._seen_P[:, None]
        return score_PS

    def own_scores(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        """The score of each sentence against itself, [S]."""
        (token_X, number_X), subwords = _flat(sources), len(self._rarity_V)
        # Every (sentence, subword) once, with its number of occurrences.
        span = 1 + max(subwords, int(token_X.max(initial=0)))
        joined_Y, times_Y = np.unique(number_X * span + token_X, return_counts=True)
        number_Y, token_Y = np.divmod(joined_Y, span)
        rarity_Y = np.where(token_Y < subwords, self._rarity_V[np.minimum(token_Y, subwords - 1)], self._unknown)
        length_S = np.array([len(source) for source in sources], dtype=np.float64)
        gain_Y = self._gain(times_Y.astype(np.float64), length_S[number_Y])
        return np.bincount(number_Y, times_Y * rarity_Y * gain_Y, len(sources))


def _flat(sources: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All subwords concatenated, and the sentence number of each."""
    token_X = np.fromiter(chain.from_iterable(sources), dtype=np.int64)
    return token_X, np.repeat(np.arange(len(sources)), [len(source) for source in sources])


def _matrix(rows: PairRows, value_X: Tensor, subwords: int, spare: int) -> Tensor:
    """A CSR matrix with `spare` empty rows at the end."""
    start_P = torch.cat([rows.start_P, rows.start_P[-1:].expand(spare)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that sparse CSR support is in beta
        return torch.sparse_csr_tensor(start_P, rows.token_X, value_X, (len(start_P) - 1, subwords))
