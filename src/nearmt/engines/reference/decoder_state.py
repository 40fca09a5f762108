"""The state of a decoder for one request: encoded sources, and a cache of keys and values.

Every token that was fed has keys and values in each layer. They belong to a slot of the batch, which holds a sentence,
not to a row, which is a hypothesis: a mask says which cached tokens a row attends to, its ancestors. Continuing a row
twice or dropping it changes the mask alone; nothing is copied. Hypotheses of a sentence soon share most of their
ancestors, so few cached tokens are in use, and those that no row attends to are dropped when capacity is needed. A
finished sentence is replaced in its slot.

Shapes: S slots, R rows of a slot, B = S * R, L layers, A heads, G = S * A, D head size, X cached tokens, F source
positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

#: Index of the first new cached token or, where only the device knows it, of each of them, [R].
Offset = int | Tensor

#: Capacity of a slot in cached tokens at first, and in addition to those in use after each compaction.
_CAPACITY = 64


@dataclass
class KeyValues:
    """Keys and values of all layers; keys are columns or rows, as the engine reads them."""

    key: Tensor  # [L, G, D, X] as columns, [L, G, X, D] as rows
    value_LGXD: Tensor
    columns: bool

    @classmethod
    def zeros(cls, capacity: int, groups: int, like: KeyValues) -> KeyValues:
        """Zeros in the format of others, for other numbers of G and X."""
        layers, _, _, size = like.value_LGXD.shape
        shape = (size, capacity) if like.columns else (capacity, size)
        # Unused positions are attended to with weight 0, which makes NaN of infinities and NaN.
        zeros = like.value_LGXD.new_zeros
        return cls(zeros(layers, groups, *shape), zeros(layers, groups, capacity, size), like.columns)

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer."""
        return list(zip(self.key.unbind(), self.value_LGXD.unbind(), strict=True))

    @property
    def groups(self) -> int:
        return self.key.shape[1]

    def first(self, groups: int) -> KeyValues:
        """A view of the first slots."""
        return KeyValues(self.key[:, :groups], self.value_LGXD[:, :groups], self.columns)

    def select(self, kept_G: Tensor) -> KeyValues:
        """A copy of some slots."""
        return KeyValues(self.key.index_select(1, kept_G), self.value_LGXD.index_select(1, kept_G), self.columns)

    def overwrite(self, group_G: Tensor, newer: KeyValues, count: int) -> None:
        """Copy the first `count` tokens of others into these groups; no row attends to what lies behind them."""
        mine, theirs = (first_tokens(each.key, each.value_LGXD, count, self.columns) for each in (self, newer))
        for part, given in zip(mine, theirs, strict=True):
            part.index_copy_(1, group_G, given)

    def grown(self, capacity: int) -> KeyValues:
        """A copy with more capacity."""
        spare = capacity - self.value_LGXD.shape[2]
        wider = (0, spare) if self.columns else (0, 0, 0, spare)
        return KeyValues(pad(self.key, wider), pad(self.value_LGXD, (0, 0, 0, spare)), self.columns)

    def permuted(self, token_GX: Tensor) -> KeyValues:
        """A copy of some tokens of each group, in this order."""
        layers, groups, capacity, size = self.value_LGXD.shape
        # Whole rows are copied faster than single numbers.
        row_X = (token_GX + capacity * torch.arange(groups, device=token_GX.device)[:, None]).flatten()

        def rows(part: Tensor) -> Tensor:
            return part.reshape(layers, -1, size).index_select(1, row_X).view(layers, groups, -1, size)

        if self.columns:
            token_LGDX = token_GX[None, :, None, :].expand(layers, -1, size, -1)
            return KeyValues(self.key.gather(3, token_LGDX), rows(self.value_LGXD), True)
        return KeyValues(rows(self.key), rows(self.value_LGXD), False)


def first_tokens(key: Tensor, value: Tensor, count: int, columns: bool) -> tuple[Tensor, Tensor]:
    """Views of the keys and values of the first `count` tokens, of one layer or of all."""
    return key.narrow(-1 if columns else -2, 0, count), value.narrow(-2, 0, count)


def write_tokens(
    key: Tensor, value_GXD: Tensor, offset: Offset, key_GRD: Tensor, value_GRD: Tensor, columns: bool
) -> None:
    """Write keys and values of new tokens, one per row, into the cache of a layer."""
    axis = 2 if columns else 1
    newest = key_GRD.transpose(1, 2) if columns else key_GRD
    if isinstance(offset, int):
        key.narrow(axis, offset, newest.shape[axis]).copy_(newest)
        value_GXD.narrow(1, offset, value_GRD.shape[1]).copy_(value_GRD)
    else:
        key.index_copy_(axis, offset, newest)
        value_GXD.index_copy_(1, offset, value_GRD)


@dataclass
class DecoderState:
    """Encoded sources and cached tokens. Rows of one slot are neighbours, and every slot has as many."""

    encoded_SFH: Tensor
    mask_SF: Tensor  # 1 for a token of the source, 0 for padding
    #: Tokens of each source.
    source_lengths: list[int]
    rows_each: int = 1
    #: Cached tokens of a slot in use.
    used: int = 0
    #: Keys and values of the tokens that were fed, and of the source (X = F); None before the first step.
    own: KeyValues | None = None
    source: KeyValues | None = None
    #: Where a kernel adds up the attention to the source of whole targets [S, T, F], if it is asked for.
    attention_STF: Tensor | None = None
    #: The position of the next token in each slot.
    position_S: Tensor = field(init=False)
    #: Which cached tokens each row attends to, [S, R, X].
    ancestor_SRX: Tensor = field(init=False)
    #: The position of each cached token.
    position_SX: Tensor = field(init=False)

    def __post_init__(self) -> None:
        device = self.mask_SF.device
        self.position_S = torch.zeros(self.slots, dtype=torch.long, device=device)
        self.ancestor_SRX = torch.zeros(self.slots, 1, _CAPACITY, dtype=torch.bool, device=device)
        self.position_SX = torch.zeros(self.slots, _CAPACITY, dtype=torch.long, device=device)

    @property
    def slots(self) -> int:
        return len(self.source_lengths)

    @property
    def width(self) -> int:
        """Tokens of the longest source; capacity may be larger."""
        return max(self.source_lengths)

    @property
    def offset(self) -> Offset:
        """Where this step writes its tokens."""
        return self.used - self.rows_each

    def begin(self, source: KeyValues) -> None:
        """Set keys and values of the source, and allocate the cache."""
        self.source = source
        self.own = KeyValues.zeros(self.ancestor_SRX.shape[2], source.groups, source)

    def unfold(self, length: int) -> None:
        """Make the rows of a slot the positions of a whole target; each attends to those up to itself."""
        assert self.own is None
        self.rows_each = self.used = length
        before_TT = torch.ones(length, length, dtype=torch.bool, device=self.mask_SF.device).tril()
        self.ancestor_SRX = before_TT.expand(self.slots, -1, -1).contiguous()

    def begin_step(self) -> None:
        """Reserve a cached token for each row, which is its own ancestor."""
        rows = self.rows_each
        if self.used + rows > self.ancestor_SRX.shape[2]:
            self.compact()
        newest = slice(self.used, self.used + rows)
        self.ancestor_SRX[:, :, newest] = torch.eye(rows, dtype=torch.bool, device=self.mask_SF.device)
        self.position_SX[:, newest] = self.position_S[:, None]
        self.used += rows

    def end_step(self) -> None:
        """Advance the position of the next token."""
        self.position_S = self.position_S + 1

    def reorder(self, row_B: Tensor, kept: Sequence[int] | None = None) -> None:
        """Row i continues as row `row_B[i]`; rows may be repeated or left out.

        `kept` are the slots that stay, ascending, where others are removed with all of their rows; a slot that is named
        again is copied.
        """
        if kept is not None and len(kept) != self.slots:
            self._keep(kept)
        capacity = self.ancestor_SRX.shape[2]
        ancestor_BX = self.ancestor_SRX.view(-1, capacity).index_select(0, row_B)
        self.rows_each = len(row_B) // self.slots
        self.ancestor_SRX = ancestor_BX.view(self.slots, self.rows_each, capacity)

    def replace(self, slots: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
        """Put the chosen sentences of a newer state, which have as many rows each, into these slots."""
        self._grow(newer.width, newer.used)
        refill_slots(self, slots, newer, chosen)
        self._count_refilled(slots, newer, chosen)

    def _count_refilled(self, slots: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
        """Update the counts on the host."""
        self.used = max(self.used, newer.used)
        for slot, sentence in zip(slots, chosen, strict=True):
            self.source_lengths[slot] = newer.source_lengths[sentence]

    def _keep(self, kept: Sequence[int]) -> None:
        """Remove all but these slots, or copy slots; `ancestor_SRX` follows with the rows."""
        assert self.own is not None and self.source is not None
        (kept_S,), (kept_G,) = _indices(self, [kept])
        self.own, self.source = self.own.select(kept_G), self.source.select(kept_G)
        self.mask_SF = self.mask_SF.index_select(0, kept_S)
        self.position_S = self.position_S.index_select(0, kept_S)
        self.position_SX = self.position_SX.index_select(0, kept_S)
        self.source_lengths = [self.source_lengths[slot] for slot in kept]

    def compact(self) -> None:
        """Drop cached tokens that no row attends to, and leave capacity for some steps."""
        assert self.own is not None
        live_SX = self.ancestor_SRX.any(dim=1)
        self.used = int(live_SX.sum(dim=1).max())
        # Products run over all cached tokens in use, masked or not, so spare capacity is small.
        capacity = self.used + max(self.rows_each, _CAPACITY)
        self._grow(0, capacity)
        # Tokens in use first; the rest is overwritten later.
        token_SX = (~self.ancestor_SRX.any(dim=1)).int().argsort(dim=1, stable=True)[:, :capacity]
        self.own = self.own.permuted(token_SX.repeat_interleave(self.own.groups // self.slots, dim=0))
        token_SRX = token_SX[:, None, :].expand(-1, self.ancestor_SRX.shape[1], -1)
        self.ancestor_SRX = self.ancestor_SRX.gather(2, token_SRX)
        self.position_SX = self.position_SX.gather(1, token_SX)

    def _grow(self, width: int, used: int) -> None:
        """Ensure capacity for sources of `width` tokens and for `used` cached tokens."""
        assert self.own is not None and self.source is not None
        if width > self.mask_SF.shape[1]:
            self.mask_SF = pad(self.mask_SF, (0, width - self.mask_SF.shape[1]))
            self.source = self.source.grown(width)
        spare = used - self.ancestor_SRX.shape[2]
        if spare > 0:
            self.ancestor_SRX, self.position_SX = pad(self.ancestor_SRX, (0, spare)), pad(self.position_SX, (0, spare))
            self.own = self.own.grown(used)


class BatchTensors(Protocol):
    """The tensors of a batch: of a state, or of a static batch on a GPU."""

    mask_SF: Tensor
    ancestor_SRX: Tensor
    position_SX: Tensor
    position_S: Tensor

    @property
    def source(self) -> KeyValues | None: ...

    @property
    def own(self) -> KeyValues | None: ...


def refill_slots(batch: BatchTensors, slots: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
    """Copy sentences of a newer state into slots of a batch with enough capacity; the old content is masked."""
    assert batch.own and batch.source and newer.own and newer.source
    (slot_S, chosen_S), (slot_G, chosen_G) = _indices(batch, [slots, chosen])
    batch.source.overwrite(slot_G, newer.source.select(chosen_G), newer.width)
    batch.own.overwrite(slot_G, newer.own.select(chosen_G), newer.used)
    for mine, theirs, count in (
        (batch.mask_SF, newer.mask_SF, newer.width),
        (batch.ancestor_SRX, newer.ancestor_SRX, newer.used),
        (batch.position_SX, newer.position_SX, newer.used),
    ):
        mine.index_fill_(0, slot_S, 0)  # also behind what is copied
        mine[..., :count].index_copy_(0, slot_S, theirs[..., :count].index_select(0, chosen_S))
    batch.position_S.index_copy_(0, slot_S, newer.position_S.index_select(0, chosen_S))


def _indices(batch: BatchTensors, slots: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """N lists of slots as tensors: of slots [N, S], and of their keys and values [N, S * A]."""
    assert batch.source is not None
    device, heads = batch.mask_SF.device, batch.source.groups // len(batch.mask_SF)
    slot_NS = torch.from_numpy(np.array(slots)).to(device, non_blocking=True)
    return slot_NS, (slot_NS[..., None] * heads + torch.arange(heads, device=device)).flatten(1)
