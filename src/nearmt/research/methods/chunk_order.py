"""Reading the retrieved chunks in their order (section 3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.contracts import Neighbours


@dataclass
class ChunkReader:
    """Per row: the chunks of its last search, their distances, and how far they have been read.

    The j-th step after a search reads the j-th token of each chunk with the distances of the
    search. Chunks that have ended drop out; the others share the whole probability.
    """

    entry_BKC: Tensor
    distance_BK: Tensor
    read_B: Tensor

    @classmethod
    def blank(cls, rows: int, k: int, chunk: int, device: torch.device) -> ChunkReader:
        return cls(
            entry_BKC=torch.full((rows, k, chunk), -1, device=device),
            distance_BK=torch.full((rows, k), torch.inf, device=device),
            read_B=torch.zeros(rows, dtype=torch.long, device=device),
        )

    def replace(self, row_R: Tensor | slice, entry_RKC: Tensor, distance_RK: Tensor) -> None:
        """New chunks for some rows; their first token is read by the search step itself."""
        self.entry_BKC[row_R] = entry_RKC
        self.distance_BK[row_R] = distance_RK
        self.read_B[row_R] = 1

    def read(self, row_R: Tensor | slice) -> Neighbours:
        """The next entry of every chunk of these rows."""
        place_R = self.read_B[row_R]
        within_R = place_R < self.entry_BKC.shape[2]
        place_R11 = place_R.clamp(max=self.entry_BKC.shape[2] - 1)[:, None, None]
        entry_RK = self.entry_BKC[row_R].gather(2, place_R11.expand(-1, self.entry_BKC.shape[1], 1))[:, :, 0]
        entry_RK = torch.where(within_R[:, None], entry_RK, -1)
        self.read_B[row_R] += 1
        return Neighbours(entry_RK, torch.where(entry_RK >= 0, self.distance_BK[row_R], torch.inf))

    def reorder(self, row_B: Tensor) -> None:
        self.entry_BKC = self.entry_BKC[row_B]
        self.distance_BK = self.distance_BK[row_B]
        self.read_B = self.read_B[row_B]
