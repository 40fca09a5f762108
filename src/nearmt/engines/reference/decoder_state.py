"""What a decoder knows of the rows of one request. Nothing is copied when hypotheses are re-ordered.

Every token that was fed has a *slot*: its key and value in each layer. Slots belong to a sentence, not to a row:
which of them a row looks at, its ancestors, is a mask. Continuing a row twice or dropping it changes the mask
alone. Hypotheses of a sentence soon share most of their ancestors, so few slots are in use, and those that no row
looks at any more are dropped when room is needed. A sentence that is done gives its place to another one.

Shapes: S sentences, R rows of each sentence, L layers, A heads, G = S * A, D of a head, X slots, F source positions.
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

#: Where the newest slots begin or, where only the device knows that, the place of each of them, [R].
Place = int | Tensor

#: Slots of a sentence there is room for at first, and beside those in use whenever the others are dropped.
_ROOM = 64


@dataclass
class Slots:
    """Keys and values of all layers. Some who read them want keys as columns, others as rows."""

    key: Tensor  # [L, G, D, X] as columns, [L, G, X, D] as rows
    value_LGXD: Tensor
    columns: bool

    @classmethod
    def blank(cls, room: int, groups: int, like: Slots) -> Slots:
        """Empty slots like others, for so many G."""
        layers, _, _, size = like.value_LGXD.shape
        shape = (size, room) if like.columns else (room, size)
        # Slots that are not in use are looked at with weight 0, which makes NaN of what is not a number.
        zeros = like.value_LGXD.new_zeros
        return cls(zeros(layers, groups, *shape), zeros(layers, groups, room, size), like.columns)

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each."""
        return list(zip(self.key.unbind(), self.value_LGXD.unbind(), strict=True))

    @property
    def groups(self) -> int:
        return self.key.shape[1]

    def first(self, groups: int) -> Slots:
        """Those of the first sentences, where they are."""
        return Slots(self.key[:, :groups], self.value_LGXD[:, :groups], self.columns)

    def kept(self, kept_G: Tensor) -> Slots:
        """Those of some sentences."""
        return Slots(self.key.index_select(1, kept_G), self.value_LGXD.index_select(1, kept_G), self.columns)

    def replace(self, place_G: Tensor, newer: Slots, count: int) -> None:
        """Put the first `count` slots of others into these places; what lies behind them is not looked at."""
        mine, theirs = (first_slots(slots.key, slots.value_LGXD, count, self.columns) for slots in (self, newer))
        for part, given in zip(mine, theirs, strict=True):
            part.index_copy_(1, place_G, given)

    def widened(self, room: int) -> Slots:
        """The same with room for more."""
        spare = room - self.value_LGXD.shape[2]
        wider = (0, spare) if self.columns else (0, 0, 0, spare)
        return Slots(pad(self.key, wider), pad(self.value_LGXD, (0, 0, 0, spare)), self.columns)

    def picked(self, place_GX: Tensor) -> Slots:
        """Some slots of each sentence."""
        layers, groups, room, size = self.value_LGXD.shape
        # Whole rows are copied faster than numbers one by one.
        row_X = (place_GX + room * torch.arange(groups, device=place_GX.device)[:, None]).flatten()

        def rows(part: Tensor) -> Tensor:
            return part.reshape(layers, -1, size).index_select(1, row_X).view(layers, groups, -1, size)

        if self.columns:
            place_LGDX = place_GX[None, :, None, :].expand(layers, -1, size, -1)
            return Slots(self.key.gather(3, place_LGDX), rows(self.value_LGXD), True)
        return Slots(rows(self.key), rows(self.value_LGXD), False)


def first_slots(key: Tensor, value: Tensor, count: int, columns: bool) -> tuple[Tensor, Tensor]:
    """Keys and values of the first `count` slots, of a layer or of all, where they are."""
    return key.narrow(-1 if columns else -2, 0, count), value.narrow(-2, 0, count)


def fill_slots(key: Tensor, value_GXD: Tensor, place: Place, key_GRD: Tensor, value_GRD: Tensor, columns: bool) -> None:
    """Put keys and values of rows into the newest slots."""
    axis = 2 if columns else 1
    newest = key_GRD.transpose(1, 2) if columns else key_GRD
    if isinstance(place, int):
        key.narrow(axis, place, newest.shape[axis]).copy_(newest)
        value_GXD.narrow(1, place, value_GRD.shape[1]).copy_(value_GRD)
    else:
        key.index_copy_(axis, place, newest)
        value_GXD.index_copy_(1, place, value_GRD)


@dataclass
class DecoderState:
    """Encoded sources, and the slots of what was fed so far. Rows of one sentence are neighbours, equally many."""

    encoded_SFH: Tensor
    mask_SF: Tensor  # 1 for a token of the source, 0 for padding
    #: Tokens of each source.
    source_lengths: list[int]
    rows_each: int = 1
    #: Slots in use.
    used: int = 0
    #: What was fed, and the source, its positions in the place of slots; none before the first step.
    own: Slots | None = None
    source: Slots | None = None
    #: The position of the next token of each sentence.
    position_S: Tensor = field(init=False)
    #: Which slots each row looks at, [S, R, X].
    ancestor_SRX: Tensor = field(init=False)
    #: The position of the token of each slot.
    position_SX: Tensor = field(init=False)

    def __post_init__(self) -> None:
        device = self.mask_SF.device
        self.position_S = torch.zeros(self.sentences, dtype=torch.long, device=device)
        self.ancestor_SRX = torch.zeros(self.sentences, 1, _ROOM, dtype=torch.bool, device=device)
        self.position_SX = torch.zeros(self.sentences, _ROOM, dtype=torch.long, device=device)

    @property
    def sentences(self) -> int:
        return len(self.source_lengths)

    @property
    def width(self) -> int:
        """Source positions that are worth looking at; there may be room for more."""
        return max(self.source_lengths)

    @property
    def place(self) -> Place:
        return self.used - self.rows_each

    def begin(self, source: Slots) -> None:
        """What layers look at of the source, and room for what is going to be fed."""
        self.source = source
        self.own = Slots.blank(self.ancestor_SRX.shape[2], source.groups, source)

    def unfold(self, length: int) -> None:
        """Let the rows of a sentence be the positions of a whole target, each of which looks at those up to itself."""
        assert self.own is None
        self.rows_each = self.used = length
        before_TT = torch.ones(length, length, dtype=torch.bool, device=self.mask_SF.device).tril()
        self.ancestor_SRX = before_TT.expand(self.sentences, -1, -1).contiguous()

    def begin_step(self) -> None:
        """A slot for the next token of each row, which is its own ancestor."""
        rows = self.rows_each
        if self.used + rows > self.ancestor_SRX.shape[2]:
            self.make_room()
        place = slice(self.used, self.used + rows)
        self.ancestor_SRX[:, :, place] = torch.eye(rows, dtype=torch.bool, device=self.mask_SF.device)
        self.position_SX[:, place] = self.position_S[:, None]
        self.used += rows

    def end_step(self) -> None:
        """What follows stands one position further on."""
        self.position_S = self.position_S + 1

    def reorder(self, row_B: Tensor, kept: Sequence[int] | None = None) -> None:
        """Row i continues as row `row_B[i]`; rows may be repeated or left out.

        `kept` are the sentences that stay, ascending, where others leave with all of their rows.
        """
        if kept is not None and len(kept) < self.sentences:
            self._leave(kept)
        room = self.ancestor_SRX.shape[2]
        ancestor_BX = self.ancestor_SRX.view(-1, room).index_select(0, row_B)
        self.rows_each = len(row_B) // self.sentences
        self.ancestor_SRX = ancestor_BX.view(self.sentences, self.rows_each, room)

    def replace(self, places: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
        """Sentences leave their places to those that were chosen of a newer state, which have as many rows each."""
        self._widen(newer.width, newer.used)
        replace_sentences(self, places, newer, chosen)
        self._follow(places, newer, chosen)

    def _follow(self, places: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
        """What is known of those places on the host."""
        self.used = max(self.used, newer.used)
        for place, sentence in zip(places, chosen, strict=True):
            self.source_lengths[place] = newer.source_lengths[sentence]

    def _leave(self, kept: Sequence[int]) -> None:
        """All but these sentences leave; `ancestor_SRX` follows with the rows."""
        assert self.own is not None and self.source is not None
        (kept_S,), (kept_G,) = _numbers(self, [kept])
        self.own, self.source = self.own.kept(kept_G), self.source.kept(kept_G)
        self.mask_SF = self.mask_SF.index_select(0, kept_S)
        self.position_S = self.position_S.index_select(0, kept_S)
        self.position_SX = self.position_SX.index_select(0, kept_S)
        self.source_lengths = [self.source_lengths[sentence] for sentence in kept]

    def make_room(self) -> None:
        """Drop the slots that nobody looks at, and have room for some more."""
        assert self.own is not None
        live_SX = self.ancestor_SRX.any(dim=1)
        self.used = int(live_SX.sum(dim=1).max())
        # Slots in use are looked at, whether they hold anything or not: no more room than for a few steps.
        room = self.used + max(self.rows_each, _ROOM)
        self._widen(0, room)
        # Behind those in use stand some that nobody looks at.
        place_SX = (~self.ancestor_SRX.any(dim=1)).int().argsort(dim=1, stable=True)[:, :room]
        self.own = self.own.picked(place_SX.repeat_interleave(self.own.groups // self.sentences, dim=0))
        place_SRX = place_SX[:, None, :].expand(-1, self.ancestor_SRX.shape[1], -1)
        self.ancestor_SRX = self.ancestor_SRX.gather(2, place_SRX)
        self.position_SX = self.position_SX.gather(1, place_SX)

    def _widen(self, width: int, used: int) -> None:
        """Room for sources of `width` tokens and for so many slots."""
        assert self.own is not None and self.source is not None
        if width > self.mask_SF.shape[1]:
            self.mask_SF = pad(self.mask_SF, (0, width - self.mask_SF.shape[1]))
            self.source = self.source.widened(width)
        spare = used - self.ancestor_SRX.shape[2]
        if spare > 0:
            self.ancestor_SRX, self.position_SX = pad(self.ancestor_SRX, (0, spare)), pad(self.position_SX, (0, spare))
            self.own = self.own.widened(used)


class Seats(Protocol):
    """Where sentences are: a state, or a stage of fixed shape on which a state is."""

    mask_SF: Tensor
    ancestor_SRX: Tensor
    position_SX: Tensor
    position_S: Tensor

    @property
    def source(self) -> Slots | None: ...

    @property
    def own(self) -> Slots | None: ...


def replace_sentences(seats: Seats, places: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
    """Sentences of a newer state, for which there is room, take some places; what was there is not looked at."""
    assert seats.own and seats.source and newer.own and newer.source
    (place_S, chosen_S), (place_G, chosen_G) = _numbers(seats, [places, chosen])
    seats.source.replace(place_G, newer.source.kept(chosen_G), newer.width)
    seats.own.replace(place_G, newer.own.kept(chosen_G), newer.used)
    for mine, theirs, count in (
        (seats.mask_SF, newer.mask_SF, newer.width),
        (seats.ancestor_SRX, newer.ancestor_SRX, newer.used),
        (seats.position_SX, newer.position_SX, newer.used),
    ):
        mine.index_fill_(0, place_S, 0)  # what lies behind
        mine[..., :count].index_copy_(0, place_S, theirs[..., :count].index_select(0, chosen_S))
    seats.position_S.index_copy_(0, place_S, newer.position_S.index_select(0, chosen_S))


def _numbers(seats: Seats, sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Lists of sentences as numbers [N, S], and those of their keys and values [N, S * A]."""
    assert seats.source is not None
    device, heads = seats.mask_SF.device, seats.source.groups // len(seats.mask_SF)
    number_NS = torch.from_numpy(np.array(sentences)).to(device, non_blocking=True)
    return number_NS, (number_NS[..., None] * heads + torch.arange(heads, device=device)).flatten(1)
