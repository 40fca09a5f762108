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
from nearmt.index.distances import squared_l2
from nearmt.retrieval.source import EntrySource

SCOPES = ("hypothesis", "source", "batch")
RETENTIONS = ("last", "all")
DUPLICATES = ("remove", "keep")
# The most telling columns nominate: held beside the entries, they are read at every step. Of so many times k
# nominees the stored keys are fetched and compared on all cache columns.
_NOMINATING = 64
_NOMINEES = 8


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
        self._nominating = min(_NOMINATING, config.columns)
        self._key_UMN = torch.zeros((sentences, 0, self._nominating), device=device)
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
        key_GMN = self._store.keys(new_GM.clamp(min=0).flatten(), self._nominating)
        key_GMN = key_GMN.view(*new_GM.shape, self._nominating)
        grow = new_GM.shape[1] - self._held_UM.shape[1]
        if grow > 0:
            self._held_UM = torch.nn.functional.pad(self._held_UM, (0, grow), value=-1)
            self._key_UMN = torch.nn.functional.pad(self._key_UMN, (0, 0, 0, grow))
        self._held_UM[holders] = -1
        self._held_UM[holders, : new_GM.shape[1]] = new_GM
        self._key_UMN[holders, : new_GM.shape[1]] = key_GMN

    def recall(self, rows: list[int], sources: list[int], query_XE: Tensor, k: int) -> Neighbours:
        """The k nearest cached entries of each of these rows, with their L2 distances (not squared)."""
        entry_GM, key_GMN = self._caches(rows, sources)
        query_GRE = query_XE.view(len(entry_GM), -1, query_XE.shape[1])
        # Nominate by the expanded square on the first columns (one matrix product), then measure by differences
        # on all of them, which is exact also where a distance is small.
        norm_GM = key_GMN.square().sum(dim=-1).masked_fill(entry_GM < 0, torch.inf)
        query_GRN = query_GRE[:, :, : key_GMN.shape[2]]
        squared_GRM = torch.baddbmm(norm_GM[:, None, :], query_GRN, key_GMN.transpose(1, 2), alpha=-2.0)
        place_GRX = squared_GRM.topk(min(k * _NOMINEES, entry_GM.shape[1]), dim=-1, largest=False).indices
        entry_GRX = entry_GM[:, None, :].expand(-1, place_GRX.shape[1], -1).gather(2, place_GRX)
        # In corpus order, so that equal distances are always ordered alike.
        entry_RX, query_RE = entry_GRX.flatten(0, 1).sort(dim=1).values, query_GRE.flatten(0, 1)
        columns = self._config.columns
        key_RXE = self._store.keys(entry_RX.clamp(min=0).flatten(), columns).view(*entry_RX.shape, columns)
        distance_RX = squared_l2(query_RE, key_RXE).sqrt_().masked_fill_(entry_RX < 0, torch.inf)
        order_RK = distance_RX.argsort(dim=1, stable=True)[:, :k]
        missing = k - order_RK.shape[1]
        return Neighbours(
            torch.nn.functional.pad(entry_RX.gather(1, order_RK), (0, missing), value=-1),
            torch.nn.functional.pad(distance_RX.gather(1, order_RK), (0, missing), value=torch.inf),
        )

    def reorder(self, row_B: Tensor) -> None:
        if self._config.scope == "hypothesis":
            self._held_UM, self._key_UMN = self._held_UM[row_B], self._key_UMN[row_B]
            self._seed_UX = self._seed_UX[row_B]

    def _holders(self, rows: list[int], sources: list[int]) -> list[int]:
        """Who holds what each row retrieves. Rows of one holder stand together; those that read are equally many."""
        return rows if self._config.scope == "hypothesis" else sources

    def _caches(self, rows: list[int], sources: list[int]) -> tuple[Tensor, Tensor]:
        """Entries [G, M] and nominating keys [G, M, N] of the caches that these rows read, in the order of the rows."""
        if self._config.scope == "batch":
            return self._batch_cache()
        holders = list(dict.fromkeys(self._holders(rows, sources)))
        if holders == list(range(len(self._held_UM))):
            return self._held_UM, self._key_UMN
        return self._held_UM[holders], self._key_UMN[holders]

    def _batch_cache(self) -> tuple[Tensor, Tensor]:
        """What all sentences hold, as one cache."""
        entry_1M = self._held_UM.view(1, -1)
        if self._config.duplicates == "remove":
            place_1M = entry_1M.argsort(dim=1, descending=True)
            ordered_1M = entry_1M.gather(1, place_1M)
            ordered_1M = ordered_1M.masked_fill(_repeats(ordered_1M), -1)
            entry_1M = torch.full_like(entry_1M, -1).scatter(1, place_1M, ordered_1M)
        return entry_1M, self._key_UMN.view(1, -1, self._nominating)


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
