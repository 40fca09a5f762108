"""The paper's neighbours' caches (section 3.2.2), in plain torch.

Two options span the paper's strategies. The *scope* says who shares a cache: each hypothesis, all hypotheses of a
source sentence, or the whole batch. The *retention* says what a new search does to the chunks of the earlier ones:
replace them (`last`) or join them (`all`).

Shapes: U owners (hypotheses or sentences), G caches (one an owner, or one for the batch), R rows of a cache, M entries
of a cache; -1 is padding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.contracts import Neighbours
from nearmt.engines.reference.cache import CacheSlots, CacheStore, nominees, repeats
from nearmt.engines.reference.distances import first_of, squared_l2
from nearmt.engines.reference.rows import on_device


@dataclass(frozen=True)
class PaperCacheConfig:
    """Who shares a cache, what it keeps, and how many columns it compares."""

    scope: str
    retention: str
    duplicates: str
    columns: int


class PaperCache:
    """The caches of one request. A sentence gets its cache when it begins and frees it when it is finished."""

    def __init__(self, store: CacheStore, config: PaperCacheConfig, sentences: int, device: torch.device) -> None:
        self._store, self._config = store, config
        # Hypotheses begin as one row a sentence; `reorder` lets them multiply.
        owners = sentences if config.scope == "hypothesis" else 0
        self._entry_UM = torch.full((owners, 0), -1, device=device)
        self._key_UME = torch.zeros((owners, 0, config.columns), device=device)
        #: How many entries each owner has, and how many of them are seeds, which stay.
        self._count, self._seeds = [0] * owners, [0] * owners
        self._slots = CacheSlots()

    def seed(self, rows: Sequence[int], sentences: Sequence[int], entry_RX: Tensor) -> None:
        """Entries (-1: none) that these rows, one a sentence, have from the start, whatever is retrieved."""
        owners = self._owners(rows, sentences)
        self._append(owners, entry_RX)
        for owner in owners:
            self._seeds[owner] = self._count[owner]

    def remember(self, rows: Sequence[int], sentences: Sequence[int], entry_RX: Tensor) -> None:
        """Take in the chunk entries (-1: none) that these rows retrieved."""
        owners, entry_GX = _by_owner(self._owners(rows, sentences), entry_RX)
        if self._config.retention == "last":
            for owner in owners:
                self._cut(owner, self._seeds[owner])
        self._append(owners, entry_GX)

    def held(self, rows: Sequence[int], sentences: Sequence[int]) -> list[int]:
        """How many entries the cache has that each of these rows reads."""
        if self._config.scope == "batch":
            return [sum(self._count)] * len(rows)
        return [self._count[owner] for owner in self._owners(rows, sentences)]

    def release(self, sentences: Sequence[int]) -> None:
        """These sentences are finished. What a batch shares stays."""
        if self._config.scope == "source":
            for owner in self._slots.release(sentences):
                self._seeds[owner] = 0
                self._cut(owner, 0)

    def reorder(self, row_B: Tensor) -> None:
        if self._config.scope == "hypothesis":
            self._entry_UM, self._key_UME = self._entry_UM[row_B], self._key_UME[row_B]
            rows = row_B.tolist()
            self._count, self._seeds = [self._count[row] for row in rows], [self._seeds[row] for row in rows]

    def recall(self, rows: Sequence[int], sentences: Sequence[int], query_XE: Tensor, k: int) -> Neighbours:
        """The k nearest cached entries of each of these rows with their L2 distances, not squared."""
        entry_GM, key_GME = self._caches(rows, sentences)
        query_GRE = query_XE.unflatten(0, (len(entry_GM), -1))
        norm_GM = key_GME.square().sum(dim=2).masked_fill(entry_GM < 0, torch.inf)
        # Nominate by |k|^2 - 2 q k, then measure by differences, which is exact also where a distance is small.
        squared_GRM = torch.baddbmm(norm_GM[:, None], query_GRE, key_GME.transpose(1, 2), alpha=-2.0)
        place_GRX = squared_GRM.topk(min(nominees(k), squared_GRM.shape[2]), dim=-1, largest=False).indices
        cache_G11 = torch.arange(len(entry_GM), device=entry_GM.device)[:, None, None]
        entry_GRX, order_GRX = entry_GM[cache_G11, place_GRX].sort(dim=2)
        key_RXE = key_GME[cache_G11, place_GRX.gather(2, order_GRX)].flatten(0, 1)
        found = first_of(entry_GRX.flatten(0, 1), squared_l2(query_XE, key_RXE), k)
        return Neighbours(found.entry_BK, found.distance_BK.sqrt_())

    def _caches(self, rows: Sequence[int], sentences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Entries and keys of the caches that these rows read, in their order."""
        if self._config.scope == "batch":
            entry_1M = self._entry_UM.view(1, -1)
            if self._config.duplicates == "remove":
                entry_1M = entry_1M.masked_fill(repeats(entry_1M), -1)
            return entry_1M, self._key_UME.flatten(0, 1)[None]
        owner_G = on_device(list(dict.fromkeys(self._owners(rows, sentences))), self._entry_UM.device)
        return self._entry_UM[owner_G], self._key_UME[owner_G]

    def _owners(self, rows: Sequence[int], sentences: Sequence[int]) -> list[int]:
        """Who owns what each row retrieves. Rows of one owner are adjacent."""
        if self._config.scope == "hypothesis":
            return list(rows)
        owners = self._slots.assign(sentences)
        more = self._slots.count - len(self._count)
        if more:
            self._count, self._seeds = self._count + [0] * more, self._seeds + [0] * more
            self._entry_UM = pad(self._entry_UM, (0, 0, 0, more), value=-1)
            self._key_UME = pad(self._key_UME, (0, 0, 0, 0, 0, more))
        return owners

    def _cut(self, owner: int, end: int) -> None:
        """Drop the entries from `end` on."""
        self._count[owner] = end
        self._entry_UM[owner, end:] = -1

    def _append(self, owners: Sequence[int], entry_GX: Tensor) -> None:
        """Append entries; those that an owner has already only if duplicates are kept."""
        fresh_GX = entry_GX >= 0
        if self._config.duplicates == "remove":
            width = max(self._count[owner] for owner in owners)
            known_GX = torch.cat([self._entry_UM[list(owners), :width], entry_GX], dim=1)
            fresh_GX &= ~repeats(known_GX)[:, width:]
        fresh = entry_GX[fresh_GX].split(fresh_GX.sum(dim=1).tolist())
        more = max(self._count[owner] + len(entry_X) for owner, entry_X in zip(owners, fresh, strict=True))
        more -= self._entry_UM.shape[1]
        if more > 0:
            self._entry_UM = pad(self._entry_UM, (0, more), value=-1)
            self._key_UME = pad(self._key_UME, (0, 0, 0, more))
        keys = self._store.keys(torch.cat(list(fresh)), self._config.columns).split([len(part) for part in fresh])
        for owner, entry_X, key_XE in zip(owners, fresh, keys, strict=True):
            span = slice(self._count[owner], self._count[owner] + len(entry_X))
            self._entry_UM[owner, span], self._key_UME[owner, span] = entry_X, key_XE
            self._count[owner] = span.stop


def _by_owner(owner_of_row: list[int], entry_RX: Tensor) -> tuple[list[int], Tensor]:
    """The owners, and what the rows of each retrieved, one row after the other, [G, X']; -1 is padding."""
    rows_of = Counter(owner_of_row)
    owners, most = list(rows_of), max(rows_of.values())
    entry_GRX = entry_RX.new_full((len(owners), most, entry_RX.shape[1]), -1)
    number_of = {owner: number for number, owner in enumerate(owners)}
    ranks = [owner_of_row[:row].count(owner) for row, owner in enumerate(owner_of_row)]
    entry_GRX[[number_of[owner] for owner in owner_of_row], ranks] = entry_RX
    return owners, entry_GRX.flatten(1)
