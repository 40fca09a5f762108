"""Pairs as token ids on the model's device, and batches of pairs of similar length.

Every pair is tokenised once. Batches are made by indexing flat tensors on the model's device, so that training
copies nothing to the GPU.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.edit.tokens import tokens_of_all
from nearmt.errors import InputError
from nearmt.models import TranslationModel

#: Pairs whose target lengths differ by less are sorted by source length: a tenth fewer batches of long sentences.
_LENGTH_STEP = 4


class TokenRows:
    """The token ids of many sentences, concatenated."""

    def __init__(self, tokens: array[int], lengths: array[int], device: torch.device) -> None:
        self.length_R = np.frombuffer(lengths, dtype=np.int32) if lengths else np.zeros(0, np.int32)
        self.token_N = torch.tensor(tokens, dtype=torch.int32, device=device)
        self._length_R = torch.tensor(self.length_R, dtype=torch.int64, device=device)
        self._start_R = self._length_R.cumsum(0) - self._length_R

    def padded(self, row_B: Tensor, width: int, fill: int) -> tuple[Tensor, Tensor]:
        """Return some rows padded on the right, and the mask of their tokens, both [B, width]."""
        column_W = torch.arange(width, device=row_B.device)
        mask_BW = column_W < self._length_R[row_B][:, None]
        index_BW = (self._start_R[row_B][:, None] + column_W).clamp(max=len(self.token_N) - 1)
        return self.token_N[index_BW].long().masked_fill(~mask_BW, fill), mask_BW


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs that fit the model; rows of source and target correspond."""

    source: TokenRows
    target: TokenRows
    #: Number of pairs left out because they exceed the model's positions.
    too_long: int

    def __len__(self) -> int:
        return len(self.target.length_R)

    @property
    def target_tokens(self) -> int:
        return int(self.target.length_R.sum())

    def digest(self) -> str:
        """Hash the ids of all pairs, in order."""
        found = hashlib.sha256()
        for side in (self.source, self.target):
            found.update(side.length_R.tobytes())
            found.update(side.token_N.cpu().numpy().tobytes())
        return found.hexdigest()[:16]


def encode_pairs(pairs: Iterable[Pair], model: TranslationModel, purpose: str, marks: str = "") -> EncodedPairs:
    """Tokenise pairs for a model, as a datastore does that marks protected spans in this way (empty: not at all).

    `purpose` appears in error messages.
    """
    positions, prompt = model.seq2seq.positions, len(model.seq2seq.prompt)
    tokens, lengths = (array("i"), array("i")), (array("i"), array("i"))
    too_long = 0
    for source, target in (ids for block in blocks_of(pairs) for ids in tokens_of_all(model.codec, block, marks)):
        # The last target token is not an input.
        if len(source) > positions or len(target) + prompt - 1 > positions:
            too_long += 1
            continue
        for side, ids in enumerate((source, target)):
            tokens[side].extend(ids)
            lengths[side].append(len(ids))
    if not lengths[0]:
        why = f": all {too_long} are longer than the model's {positions} positions" if too_long else ""
        raise InputError(f"no pairs to {purpose}{why}")
    source_rows, target_rows = (TokenRows(tokens[side], lengths[side], model.seq2seq.device) for side in range(2))
    return EncodedPairs(source_rows, target_rows, too_long)


@dataclass(frozen=True)
class Batch:
    """A padded batch of pairs."""

    source_BS: Tensor
    source_mask_BS: Tensor
    target_BT: Tensor
    target_mask_BT: Tensor


class Batches:
    """Batches of pairs of similar length, within a budget of tokens (both sides, padding included).

    Pairs are sorted by length; pairs of equal length, and the order of batches, are shuffled in each epoch. Batch
    boundaries depend on lengths only, so every epoch has the same number of updates.
    """

    def __init__(self, pairs: EncodedPairs, budget: int, pad_id: int) -> None:
        self._pairs, self._pad_id = pairs, pad_id
        self._lengths = pairs.source.length_R, pairs.target.length_R
        sorted_R = self._order(None)
        self._cuts = list(_cut(self._lengths[0][sorted_R], self._lengths[1][sorted_R], budget))

    def __len__(self) -> int:
        return len(self._cuts)

    def epoch(self, shuffle: np.random.Generator | None = None) -> Iterator[Batch]:
        """Yield all batches once, shortest first or shuffled."""
        device = self._pairs.target.token_N.device
        row_R = torch.from_numpy(self._order(shuffle)).to(device)
        order = range(len(self._cuts)) if shuffle is None else shuffle.permutation(len(self._cuts))
        for number in order:
            start, end, source_width, target_width = self._cuts[number]
            source = self._pairs.source.padded(row_R[start:end], source_width, self._pad_id)
            yield Batch(*source, *self._pairs.target.padded(row_R[start:end], target_width, self._pad_id))

    def _order(self, shuffle: np.random.Generator | None) -> np.ndarray:
        """Sort rows by rough target length, then source length; rows of equal lengths in random order."""
        source_R, target_R = self._lengths
        count = len(target_R)
        random_R = np.arange(count) if shuffle is None else shuffle.permutation(count)
        return np.lexsort((random_R, target_R, source_R, target_R // _LENGTH_STEP))


def _cut(source_R: np.ndarray, target_R: np.ndarray, budget: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, end, source width, target width) of batches over sorted rows; a pair beyond the budget is alone."""
    start = source_width = target_width = 0
    for row, (source, target) in enumerate(zip(source_R.tolist(), target_R.tolist(), strict=True)):
        wider = max(source_width, source), max(target_width, target)
        if row > start and (row + 1 - start) * sum(wider) > budget:
            yield start, row, source_width, target_width
            start, wider = row, (source, target)
        source_width, target_width = wider
    if len(source_R):
        yield start, len(source_R), source_width, target_width
