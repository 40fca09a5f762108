"""What a decoder knows of the rows of one request. Nothing is copied when hypotheses are re-ordered.

Every token that was fed has a *slot*: its key and value in each layer. Slots belong to a sentence, not to a row:
which of them a row looks at, its ancestors, is a mask. Continuing a row twice or dropping it changes the mask
alone. Hypotheses of a sentence soon share most of their ancestors, so few slots are in use, and those that no row
looks at any more are dropped when room is needed.

Shapes: S sentences, R rows of each sentence, A heads, G = S * A, D of a head, X slots, F source positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

#: Slots of a sentence there is room for at first.
_ROOM = 64


@dataclass
class Slots:
    """Keys and values of one layer. Products of single precision read keys as columns, others as rows."""

    key: Tensor  # [G, D, X] as columns, [G, X, D] as rows
    value_GXD: Tensor

    @classmethod
    def blank(cls, room: int, like_GRD: Tensor) -> Slots:
        heads, _, size = like_GRD.shape
        shape = (size, room) if as_columns(like_GRD) else (room, size)
        # Slots that are not in use are looked at with weight 0, which makes NaN of what is not a number.
        return cls(like_GRD.new_zeros(heads, *shape), like_GRD.new_zeros(heads, room, size))

    def write(self, start: int, key_GRD: Tensor, value_GRD: Tensor) -> None:
        """Put keys and values into as many slots, beginning with `start`."""
        rows = key_GRD.shape[1]
        if as_columns(key_GRD):
            self.key.narrow(2, start, rows).copy_(key_GRD.transpose(1, 2))
        else:
            self.key.narrow(1, start, rows).copy_(key_GRD)
        self.value_GXD.narrow(1, start, rows).copy_(value_GRD)

    def read(self, count: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `count` slots."""
        key = self.key.narrow(2 if as_columns(self.key) else 1, 0, count)
        return key, self.value_GXD.narrow(1, 0, count)

    def kept(self, kept_G: Tensor) -> Slots:
        """Those of some sentences."""
        return Slots(self.key.index_select(0, kept_G), self.value_GXD.index_select(0, kept_G))

    def picked(self, place_GX: Tensor, room: int) -> Slots:
        """Some slots of each sentence, with room for `room` of them."""
        size, spare = self.value_GXD.shape[2], room - place_GX.shape[1]
        place_GXD = place_GX[:, :, None].expand(-1, -1, size)
        value_GXD = pad(self.value_GXD.gather(1, place_GXD), (0, 0, 0, spare))
        if as_columns(self.key):
            return Slots(pad(self.key.gather(2, place_GXD.transpose(1, 2)), (0, spare)), value_GXD)
        return Slots(pad(self.key.gather(1, place_GXD), (0, 0, 0, spare)), value_GXD)


def as_columns(key: Tensor) -> bool:
    """Whether keys like these are columns."""
    return key.dtype == torch.float32


@dataclass
class DecoderState:
    """Encoded sources, and the slots of what was fed so far. Rows of one sentence are neighbours, equally many."""

    encoded_SFH: Tensor
    mask_SF: Tensor  # 1 for a token of the source, 0 for padding
    rows_each: int = 1
    #: Tokens that each row was fed.
    length: int = 0
    #: Slots in use.
    used: int = 0
    #: Of each layer: what was fed.
    own: list[Slots] = field(default_factory=list)
    #: Of each layer: the source, its positions in the place of slots.
    source: list[Slots] = field(default_factory=list)
    #: Which slots each row looks at, [S, R, X].
    ancestor_SRX: Tensor = field(init=False)
    #: The position of the token of each slot.
    position_SX: Tensor = field(init=False)

    def __post_init__(self) -> None:
        device = self.mask_SF.device
        self.ancestor_SRX = torch.zeros(self.sentences, 1, _ROOM, dtype=torch.bool, device=device)
        self.position_SX = torch.zeros(self.sentences, _ROOM, dtype=torch.long, device=device)

    @property
    def sentences(self) -> int:
        return len(self.mask_SF)

    def begin_step(self) -> None:
        """A slot for the next token of each row, which is its own ancestor."""
        rows = self.rows_each
        if self.used + rows > self.ancestor_SRX.shape[2]:
            self._make_room(rows)
        place = slice(self.used, self.used + rows)
        self.ancestor_SRX[:, :, place] = torch.eye(rows, dtype=torch.bool, device=self.mask_SF.device)
        self.position_SX[:, place] = self.length
        self.used += rows
        self.length += 1

    def write(self, layer: int, key_GRD: Tensor, value_GRD: Tensor) -> tuple[Tensor, Tensor]:
        """Fill the newest slots of a layer; the keys and values of all that are in use."""
        if layer == len(self.own):
            self.own.append(Slots.blank(self.ancestor_SRX.shape[2], key_GRD))
        slots = self.own[layer]
        slots.write(self.used - self.rows_each, key_GRD, value_GRD)
        return slots.read(self.used)

    def reorder(self, row_B: Tensor, sources_change: bool) -> None:
        """Row i continues as row `row_B[i]`; rows may be repeated or left out, with all rows of their sentence.

        Where sentences leave, or the first step fans out into several rows of each, the sources change.
        """
        if sources_change:
            kept_S = torch.unique_consecutive(row_B // self.rows_each)
            if len(kept_S) < self.sentences:
                self._leave(kept_S)
        room = self.ancestor_SRX.shape[2]
        ancestor_BX = self.ancestor_SRX.view(-1, room).index_select(0, row_B)
        self.rows_each = len(row_B) // self.sentences
        self.ancestor_SRX = ancestor_BX.view(self.sentences, self.rows_each, room)

    def _leave(self, kept_S: Tensor) -> None:
        """All but these sentences leave; `ancestor_SRX` follows with the rows."""
        heads = len(self.source[0].key) // self.sentences
        kept_G = (kept_S[:, None] * heads + torch.arange(heads, device=kept_S.device)).flatten()
        self.own = [slots.kept(kept_G) for slots in self.own]
        self.source = [slots.kept(kept_G) for slots in self.source]
        self.encoded_SFH, self.mask_SF = self.encoded_SFH.index_select(0, kept_S), self.mask_SF.index_select(0, kept_S)
        self.position_SX = self.position_SX.index_select(0, kept_S)

    def _make_room(self, rows: int) -> None:
        """Drop the slots that nobody looks at; where that leaves little room, make more."""
        live_SX = self.ancestor_SRX[:, :, : self.used].any(dim=1)
        self.used = int(live_SX.sum(dim=1).max())
        place_SX = (~live_SX).int().argsort(dim=1, stable=True)[:, : self.used]
        room = self.ancestor_SRX.shape[2]
        while self.used + rows > 0.75 * room:
            room *= 2
        if self.own:
            place_GX = place_SX.repeat_interleave(len(self.own[0].key) // self.sentences, dim=0)
            self.own = [slots.picked(place_GX, room) for slots in self.own]
        spare = room - self.used
        place_SRX = place_SX[:, None, :].expand(-1, self.ancestor_SRX.shape[1], -1)
        self.ancestor_SRX = pad(self.ancestor_SRX.gather(2, place_SRX), (0, spare))
        self.position_SX = pad(self.position_SX.gather(1, place_SX), (0, spare))
