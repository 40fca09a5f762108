"""The neighbours' cache: all tokens of the retrieved chunks, at hand between searches (section 3.2.2).

M = {(f(x, y_<t+i), y_t+i) for 0 <= i < c, for every retrieved chunk y_t:(t+c-1)}

Two options span the paper's strategies. The *scope* says who shares a cache: each hypothesis, all
hypotheses of a source sentence, or the whole batch. The *retention* says what a new search of a
sentence does to its earlier chunks: replace them (`last`) or join them (`all`).

Shapes here: U holders (hypotheses or sentences), G caches (one a holder, or one for the batch),
R rows of a cache, M entries of a cache; -1 fills up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.retrieval.source import EntrySource

SCOPES = ("hypothesis", "source", "batch")
RETENTIONS = ("last", "all")
DUPLICATES = ("remove", "keep")


@dataclass(frozen=True)
class CacheConfig:
    """Who shares a cache, what it keeps, and on how many columns it compares."""

    scope: str
    retention: str
    duplicates: str
    columns: int


class NeighbourCache:
    """The caches of one request of `sentences` sentences."""

    def __init__(self, store: EntrySource, config: CacheConfig, sentences: int, device: torch.device) -> None:
        self._store, self._config = store, config
        # Hypotheses begin as one row a sentence; `reorder` lets them multiply.
        self._held_UM = torch.full((sentences, 0), -1, device=device)
        self._key_UME = torch.zeros((sentences, 0, config.columns), device=device)
        self._seed_UX = self._held_UM

    def seed(self, entry_UX: Tensor) -> None:
        """Entries that every sentence holds from the start, whatever is retrieved (-1: none)."""
        self._seed_UX = entry_UX

    def remember(self, rows: list[int], sources: list[int], entry_RX: Tensor) -> None:
        """Take in the chunk entries that these rows retrieved (-1: none)."""
        holders, new_GX = _by_holder(self._holders(rows, sources), entry_RX)
        kept_UX = self._held_UM if self._config.retention == "all" and self._held_UM.shape[1] else self._seed_UX
        new_GX = torch.cat([kept_UX[holders], new_GX], dim=1)
        new_GM = _compact(new_GX, self._config.duplicates == "remove")
        columns = self._config.columns
        key_GME = self._store.keys(new_GM.clamp(min=0).flatten(), columns).view(*new_GM.shape, columns)
        grow = new_GM.shape[1] - self._held_UM.shape[1]
        if grow > 0:
            self._held_UM = torch.nn.functional.pad(self._held_UM, (0, grow), value=-1)
            self._key_UME = torch.nn.functional.pad(self._key_UME, (0, 0, 0, grow))
        self._held_UM[holders] = -1
        self._held_UM[holders, : new_GM.shape[1]] = new_GM
        self._key_UME[holders, : new_GM.shape[1]] = key_GME

    def recall(self, rows: list[int], sources: list[int], query_XE: Tensor, k: int) -> Neighbours:
        """The k nearest cached entries of each of these rows, with their L2 distances (not squared)."""
        entry_GM, key_GME = self._caches(rows, sources)
        query_GRE = query_XE.view(len(entry_GM), -1, query_XE.shape[1])
        # Nominate by the expanded square (one matrix product), then measure by differences, which is
        # exact also where a distance is small.
        norm_GM = key_GME.square().sum(dim=-1).masked_fill(entry_GM < 0, torch.inf)
        squared_GRM = torch.baddbmm(norm_GM[:, None, :], query_GRE, key_GME.transpose(1, 2), alpha=-2.0)
        place_GRK = squared_GRM.topk(min(k, entry_GM.shape[1]), dim=-1, largest=False).indices
        cache_G11 = torch.arange(len(entry_GM), device=entry_GM.device)[:, None, None]
        entry_GRK = entry_GM[cache_G11, place_GRK]
        difference_GRKE = key_GME[cache_G11, place_GRK] - query_GRE[:, :, None, :]
        distance_GRK = difference_GRKE.square_().sum(dim=-1).sqrt_().masked_fill_(entry_GRK < 0, torch.inf)
        missing = k - entry_GRK.shape[2]
        return Neighbours(
            torch.nn.functional.pad(entry_GRK.flatten(0, 1), (0, missing), value=-1),
            torch.nn.functional.pad(distance_GRK.flatten(0, 1), (0, missing), value=torch.inf),
        )

    def reorder(self, row_B: Tensor) -> None:
        if self._config.scope == "hypothesis":
            self._held_UM, self._key_UME = self._held_UM[row_B], self._key_UME[row_B]
            self._seed_UX = self._seed_UX[row_B]

    def _holders(self, rows: list[int], sources: list[int]) -> list[int]:
        """Who holds what each row retrieves. Rows of one holder stand together; those that read are equally many."""
        return rows if self._config.scope == "hypothesis" else sources

    def _caches(self, rows: list[int], sources: list[int]) -> tuple[Tensor, Tensor]:
        """Entries [G, M] and keys [G, M, E] of the caches that these rows read, in the order of the rows."""
        if self._config.scope == "batch":
            return self._batch_cache()
        holders = list(dict.fromkeys(self._holders(rows, sources)))
        if holders == list(range(len(self._held_UM))):
            return self._held_UM, self._key_UME
        return self._held_UM[holders], self._key_UME[holders]

    def _batch_cache(self) -> tuple[Tensor, Tensor]:
        """What all sentences hold, as one cache."""
        entry_1M = self._held_UM.view(1, -1)
        if self._config.duplicates == "remove":
            place_1M = entry_1M.argsort(dim=1, descending=True)
            ordered_1M = entry_1M.gather(1, place_1M)
            ordered_1M = ordered_1M.masked_fill(_repeats(ordered_1M), -1)
            entry_1M = torch.full_like(entry_1M, -1).scatter(1, place_1M, ordered_1M)
        return entry_1M, self._key_UME.view(1, -1, self._config.columns)


def _by_holder(holder_of_row: list[int], entry_RX: Tensor) -> tuple[list[int], Tensor]:
    """The holders, and what the rows of each retrieved, side by side [G, X']; -1 fills up."""
    holders = list(dict.fromkeys(holder_of_row))
    rows_each = len(holder_of_row) // len(holders)
    if all(holder_of_row.count(holder) == rows_each for holder in holders):
        return holders, entry_RX.reshape(len(holders), -1)
    place = {holder: number for number, holder in enumerate(holders)}
    ranks = [holder_of_row[:row].count(holder) for row, holder in enumerate(holder_of_row)]
    entry_GRX = entry_RX.new_full((len(holders), max(ranks) + 1, entry_RX.shape[1]), -1)
    entry_GRX[[place[holder] for holder in holder_of_row], ranks] = entry_RX
    return holders, entry_GRX.flatten(1)


def _compact(entry_GX: Tensor, unique: bool) -> Tensor:
    """Each row's entries in descending order, trimmed to the longest row; repetitions go if asked."""
    entry_GX = entry_GX.sort(dim=1, descending=True).values
    if unique:
        entry_GX = entry_GX.masked_fill(_repeats(entry_GX), -1).sort(dim=1, descending=True).values
    width = int((entry_GX >= 0).sum(dim=1).max())
    return entry_GX[:, :width]


def _repeats(sorted_GX: Tensor) -> Tensor:
    """Where a sorted row repeats the entry before it."""
    return torch.nn.functional.pad(sorted_GX[:, 1:] == sorted_GX[:, :-1], (1, 0), value=False)
