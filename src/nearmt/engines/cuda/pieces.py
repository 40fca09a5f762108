"""Approximate search on a GPU: many small cells, of which the nearest are looked through key by key.

Cells come from k-means over the keys. Large ones are cut, so that a *piece* holds at most 128 entries: all rows of
a search then do the same work, and nothing waits to be told how much there is.

Shapes: B queries, N keys, D columns, L pieces, P pieces that are probed, X places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.engines.cuda.gathered import COLUMNS, GatheredKeys
from nearmt.engines.reference.clusters import find_centres, nearest_centre
from nearmt.engines.reference.products import fast_products

#: Keys of a cell, on average, and of a piece, at most.
_CELL, PIECE = 128, 128
#: Keys for each cell from which its centre is made.
_TRAINED_ON = 8
#: Centres are filled up to a multiple of so many: only then a GPU reads them in whole vectors.
_ALIGNED = 16
#: Pieces that are probed: a setting is taken that finds enough.
PROBES = (32, 64, 128, 256, 512, 1024)


class Cells(NamedTuple):
    """Where keys are. Behind the last piece there may be some that hold nothing and are infinitely far."""

    pieces: int
    member_LX: Tensor  # the entries of each piece; -1 fills up
    centre_LD: Tensor  # of its cell
    norm_L: Tensor  # the centre's squared length

    @classmethod
    def of(cls, key_ND: Tensor) -> Cells:
        cells = max(1, len(key_ND) // _CELL)
        stride = max(1, len(key_ND) // (cells * _TRAINED_ON))
        with fast_products(key_ND.device):
            centre_CD = find_centres(key_ND[::stride].float(), cells)
            cell_N = _cells_of(key_ND, centre_CD)
        member_LX, cell_L = _cut(cell_N, cells)
        centre_LD, spare = centre_CD[cell_L], -len(cell_L) % _ALIGNED
        norm_L = centre_LD.square().sum(dim=1)
        return cls(
            len(cell_L),
            pad(member_LX, (0, 0, 0, spare), value=-1),
            pad(centre_LD, (0, 0, 0, spare)),
            pad(norm_L, (0, spare), value=torch.inf),
        )


class PieceIndex:
    """Nominates by exact distances in the probed pieces."""

    def __init__(self, key_ND: Tensor, tune: Callable[[PieceIndex], None] = lambda index: None) -> None:
        """Cells are made when they are needed; then `tune` chooses how many pieces are probed."""
        self._keys = GatheredKeys(key_ND, key_ND[:0])
        self._tune = tune
        self._cells: Cells | None = None
        self.probes = PROBES[2]

    @property
    def keys(self) -> Tensor:
        return self._keys.key_ND

    def cells(self) -> Cells:
        if self._cells is None:
            self._cells = Cells.of(self.keys)
            self._tune(self)
        return self._cells

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        device, cells = self.keys.device, self.cells()
        query = query_BD.to(device, torch.float32).contiguous()
        # Every piece has an entry: with as many pieces there are as many entries.
        probes = min(max(self.probes, count), cells.pieces)
        with fast_products(device):
            near_BL = torch.addmm(cells.norm_L, query, cells.centre_LD.T, alpha=-2.0)
        piece_BP = near_BL.topk(probes, dim=1, largest=False, sorted=False).indices
        entry_BX, squared_BX = self._look_through(query, piece_BP, cells.member_LX)
        if allowed_N is not None:
            squared_BX.masked_fill_(~allowed_N.to(device)[entry_BX.clamp(min=0)], torch.inf)
        found = squared_BX.topk(min(count, squared_BX.shape[1]), dim=1, largest=False, sorted=False)
        entry_BK = entry_BX.gather(1, found.indices)
        if allowed_N is not None:
            entry_BK = entry_BK.masked_fill(found.values.isinf(), -1)
        missing = count - entry_BK.shape[1]
        if missing:
            entry_BK = pad(entry_BK, (0, missing), value=-1)
        return entry_BK.to(query_BD.device)

    def _look_through(self, query_BD: Tensor, piece_BP: Tensor, member_LX: Tensor) -> tuple[Tensor, Tensor]:
        """All entries of some pieces and their squared distances, [B, P * X]; -1 and infinite where there is none."""
        from nearmt.engines.cuda.search_kernels import in_pieces

        rows, probes = piece_BP.shape
        entry_BX = torch.empty(rows, probes * PIECE, dtype=torch.long, device=query_BD.device)
        squared_BX = torch.empty(rows, probes * PIECE, device=query_BD.device)
        in_pieces[(rows, probes)](
            query_BD, *self._keys.arguments(), member_LX, piece_BP, probes, entry_BX, squared_BX,
            query_BD.shape[1], PLACES=PIECE, COLUMNS=COLUMNS, MORE=self._keys.more,
        )  # fmt: skip
        return entry_BX, squared_BX


def _cells_of(key_ND: Tensor, centre_CD: Tensor) -> Tensor:
    """The cell of each key; keys become fp32 some at a time."""
    return torch.cat([nearest_centre(part.float(), centre_CD) for part in key_ND.split(1 << 20)])


def _cut(cell_N: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """Entries by piece [L, X], each piece of one cell, and the cells of the pieces [L]."""
    order_N = cell_N.argsort(stable=True)
    count_C = torch.bincount(cell_N, minlength=cells)
    pieces_C = -(-count_C // PIECE)
    first_C, first_piece_C = count_C.cumsum(0) - count_C, pieces_C.cumsum(0) - pieces_C
    # Where each entry stands in its cell, in the order of cells.
    sorted_N = cell_N[order_N]
    place_N = torch.arange(len(cell_N), device=cell_N.device) - first_C[sorted_N]
    cell_L = torch.repeat_interleave(torch.arange(cells, device=cell_N.device), pieces_C)
    member_LX = torch.full((len(cell_L), PIECE), -1, dtype=torch.int32, device=cell_N.device)
    member_LX[first_piece_C[sorted_N] + place_N // PIECE, place_N % PIECE] = order_N.int()
    return member_LX, cell_L
