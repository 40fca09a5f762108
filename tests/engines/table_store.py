"""A store whose entries are in the table of an engine; it compares queries with every key, in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import CachePlan, RowSearch, SentenceCache
from nearmt.engines.reference.distances import first_of
from tests.engines.every_engine import Engine
from tests.random_stores import random_store
from tests.toy_store import ToyStore


class TableStore(ToyStore):
    """The same entries as a toy store's, with keys rounded to fp16, in one segment or in several."""

    #: Whether every search issues the same work, as those of a whole store do.
    capturable = True

    def __init__(self, engine: Engine, store: ToyStore, sizes: Sequence[int] = ()) -> None:
        """Segments have these sizes; one more has the rest."""
        super().__init__(store.key_ND.half().float(), store.token_N, store.ends, store.projection_HD)
        self.engine = engine
        parts = self.key_ND.split([*sizes, len(self.key_ND) - sum(sizes)])
        self.table = engine.entries(parts, self.token_N.int(), self.ends)
        self._key_ND = self.key_ND.to(engine.device)

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        entry_BN = torch.arange(len(self), device=query_BD.device).expand(len(query_BD), -1)
        return first_of(entry_BN, (query_BD[:, None] - self._key_ND).square().sum(dim=2), k)

    def start_search(self, query_BD: Tensor, k: int) -> Callable[[], Neighbours]:
        return partial(self.search, query_BD, k)

    def row_search(self, k: int) -> RowSearch | None:
        return None

    def tokens(self, entry: Tensor) -> Tensor:
        return self.table.tokens(entry)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return self.table.keys(entry_M, columns)

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return self.table.chunks(entry_BK, size)

    def new_cache(self, plan: CachePlan, device: torch.device) -> SentenceCache:
        return self.table.new_cache(self, plan, device)


def table_store(
    engine: Engine, seed: int = 0, sentences: int = 20, columns: int = 48, sizes: Sequence[int] = ()
) -> TableStore:
    """Random sentences of 1 to 9 tokens."""
    return TableStore(engine, random_store(seed, sentences, columns, vocabulary=20), sizes)
