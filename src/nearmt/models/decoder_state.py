"""What a decoder knows of the rows of one request. Nothing is copied when hypotheses are re-ordered.

Every token that was fed has a *slot*: its key and value in each layer. Slots belong to a sentence, not to a row:
which of them a row looks at, its ancestors, is a mask. Continuing a row twice or dropping it changes the mask
alone. Hypotheses of a sentence soon share most of their ancestors, so few slots are in use, and those that no row
looks at any more are dropped when room is needed.

Shapes: L layers, S sentences, R rows of each sentence, A heads, D of a head, X slots, F source positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

#: Slots of a sentence there is room for at first.
_ROOM = 64


@dataclass
class Slots:
    """Keys and values of all layers. Products of single precision read keys as columns, others as rows."""

    key: Tensor  # [L, S, A, D, X] as columns, [L, S, A, X, D] as rows
    value_LSAXD: Tensor
    columns: bool

    @classmethod
    def blank(cls, layers: int, sentences: int, heads: int, size: int, room: int, like: Tensor) -> Slots:
        columns = like.dtype == torch.float32
        shape = (size, room) if columns else (room, size)
        key = like.new_zeros(layers, sentences, heads, *shape)
        return cls(key, like.new_zeros(layers, sentences, heads, room, size), columns)

    def write(self, layer: int, start: int, key_SRAD: Tensor, value_SRAD: Tensor) -> None:
        """Put keys and values into as many slots, beginning with `start`."""
        place = slice(start, start + key_SRAD.shape[1])
        if self.columns:
            self.key[layer, :, :, :, place] = key_SRAD.permute(0, 2, 3, 1)
        else:
            self.key[layer, :, :, place] = key_SRAD.transpose(1, 2)
        self.value_LSAXD[layer, :, :, place] = value_SRAD.transpose(1, 2)

    def read(self, layer: int, count: int | None = None) -> tuple[Tensor, Tensor]:
        """The first `count` slots, or all: keys [S, A, D, X] or [S, A, X, D] and values [S, A, X, D]."""
        key = self.key[layer]
        return key[..., :count] if self.columns else key[:, :, :count], self.value_LSAXD[layer, :, :, :count]

    def sentences(self, kept_S: Tensor) -> Slots:
        """Those of some sentences."""
        return Slots(self.key.index_select(1, kept_S), self.value_LSAXD.index_select(1, kept_S), self.columns)

    def picked(self, place_SX: Tensor, room: int) -> Slots:
        """Some slots of each sentence, with room for `room` of them."""
        layers, sentences, heads, _, size = self.value_LSAXD.shape
        found = Slots.blank(layers, sentences, heads, size, room, self.value_LSAXD)
        width = place_SX.shape[1]
        place = place_SX.view(1, sentences, 1, width, 1).expand(layers, -1, heads, -1, size)
        torch.gather(self.value_LSAXD, 3, place, out=found.value_LSAXD[:, :, :, :width])
        if self.columns:
            torch.gather(self.key, 4, place.transpose(3, 4), out=found.key[..., :width])
        else:
            torch.gather(self.key, 3, place, out=found.key[:, :, :, :width])
        return found


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
    own: Slots | None = None
    #: Of the source, in the place of slots.
    source: Slots | None = None
    #: Which slots each row looks at, [S, R, X].
    ancestor_SRX: Tensor = field(init=False)
    #: The position of the token of each slot.
    position_SX: Tensor = field(init=False)

    def __post_init__(self) -> None:
        sentences, device = len(self.mask_SF), self.mask_SF.device
        self.ancestor_SRX = torch.zeros(sentences, 1, _ROOM, dtype=torch.bool, device=device)
        self.position_SX = torch.zeros(sentences, _ROOM, dtype=torch.long, device=device)

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

    def reorder(self, row_B: Tensor, sources_change: bool) -> None:
        """Row i continues as row `row_B[i]`; rows may be repeated or left out, with all rows of their sentence.

        Where sentences leave, or the first step fans out into several rows of each, the sources change.
        """
        sentences = len(self.mask_SF)
        if sources_change:
            kept_S = torch.unique_consecutive(row_B // self.rows_each)
            if len(kept_S) < sentences:
                self._leave(kept_S)
        room = self.ancestor_SRX.shape[2]
        ancestor_BX = self.ancestor_SRX.view(-1, room).index_select(0, row_B)
        self.rows_each = len(row_B) // len(self.mask_SF)
        self.ancestor_SRX = ancestor_BX.view(len(self.mask_SF), self.rows_each, room)

    def slots(self, like_SRAD: Tensor) -> Slots:
        """Of the tokens fed so far; made when the first key is known."""
        if self.own is None:
            assert self.source is not None
            sentences, _, heads, size = like_SRAD.shape
            self.own = Slots.blank(len(self.source.key), sentences, heads, size, self.ancestor_SRX.shape[2], like_SRAD)
        return self.own

    def _leave(self, kept_S: Tensor) -> None:
        """All but these sentences leave; `ancestor_SRX` follows with the rows."""
        assert self.own is not None and self.source is not None
        self.own, self.source = self.own.sentences(kept_S), self.source.sentences(kept_S)
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
        if self.own is not None:
            self.own = self.own.picked(place_SX, room)
        spare = room - self.used
        place_SRX = place_SX[:, None, :].expand(-1, self.ancestor_SRX.shape[1], -1)
        self.ancestor_SRX = torch.nn.functional.pad(self.ancestor_SRX.gather(2, place_SRX), (0, spare))
        self.position_SX = torch.nn.functional.pad(self.position_SX.gather(1, place_SX), (0, spare))
