"""A datastore in memory, for tests that need entries but no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from nearmt.config.schedule import GeometricSchedule
from nearmt.contracts import Neighbours
from nearmt.engines.cpu.nearest import EntryRows
from nearmt.engines.cuda.gathered import GatheredEntries, GatheredKeys
from nearmt.engines.reference.distances import first_of, squared_l2
from nearmt.retrieval.chunked import ChunkPlan
from nearmt.retrieval.neighbour_cache import CacheConfig
from nearmt.retrieval.source import EntrySource


class MemoryStore:
    """An EntrySource over given keys. It searches by comparing with every key."""

    identity = "memory"
    search_scale = 20.0

    def __init__(
        self,
        key_ND: Tensor,
        token_N: Tensor,
        ends: list[int],
        projection_HD: Tensor | None = None,
    ) -> None:
        assert (ends[-1] if ends else 0) == len(key_ND) == len(token_N)
        self.key_ND, self.token_N, self.ends = key_ND, token_N, ends
        self.projection_HD = torch.eye(key_ND.shape[1]) if projection_HD is None else projection_HD
        self.columns = key_ND.shape[1]
        self.likely_weight: float | None = 0.4

    #: Nothing for kernels on a CPU: what is done without them is what they are compared with.
    rows: EntryRows | None = None

    def snapshot(self) -> Self:
        return self

    @property
    def pair_count(self) -> int:
        return len(self.ends)

    def scale(self, columns: int) -> float:
        return float(self.search_scale**0.5)

    def __len__(self) -> int:
        return len(self.key_ND)

    def query(self, hidden_BH: Tensor) -> Tensor:
        return hidden_BH @ self.projection_HD

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        rows, found = len(query_BD), min(k, len(self))
        entry_BK = torch.full((rows, k), -1)
        distance_BK = torch.full((rows, k), torch.inf)
        squared_BN = (query_BD[:, None, :] - self.key_ND[None]).square().sum(dim=-1)
        best = squared_BN.topk(found, dim=1, largest=False)
        entry_BK[:, :found], distance_BK[:, :found] = best.indices, best.values
        return Neighbours(entry_BK, distance_BK)

    def tokens(self, entry: Tensor) -> Tensor:
        """What stands for entry -1 is arbitrary: here the last entry's token, so that giving it weight shows."""
        return self.token_N[entry] if len(self) else torch.zeros_like(entry)

    def weights(self, entry: Tensor) -> Tensor | None:
        return None

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return self.key_ND[entry_M, :columns]

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        entry_BX = candidate_BX.sort(dim=1).values
        return first_of(entry_BX, squared_l2(query_BE, self.key_ND[entry_BX, : query_BE.shape[1]]), k)

    knows_sources = True

    def similar(self, source: Sequence[int], count: int) -> Tensor:
        """It knows no sources: the sentence with the number of the first token, and those behind it."""
        first = source[0] % len(self.ends) if source and self.ends else 0
        start = self.ends[first - 1] if first else 0
        last = min(first + count, len(self.ends))
        return torch.arange(start, self.ends[last - 1] if last > first else start)

    def similar_each(self, sources: Sequence[Sequence[int]], count: int) -> Tensor:
        found = [self.similar(source, count) for source in sources]
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=-1)

    def trust_each(self, sources: Sequence[Sequence[int]], trusted: tuple[float, float] = (0.8, 1.0)) -> list[float]:
        return [1.0] * len(sources)

    gathered: GatheredEntries | None = None

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        entry_BKC = torch.full((*entry_BK.shape, size), -1)
        for row, entries in enumerate(entry_BK.tolist()):
            for place, entry in enumerate(entries):
                if entry >= 0:
                    end = min(end for end in self.ends if end > entry)
                    chunk = torch.arange(entry, min(entry + size, end))
                    entry_BKC[row, place, : len(chunk)] = chunk
        return entry_BKC


def random_store(
    seed: int, sentences: int, columns: int, vocabulary: int, states: int | None = None, longest: int = 9
) -> MemoryStore:
    """Sentences of 1 to `longest` tokens; states of another size than keys are projected at random."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (sentences,), generator=generator)
    ends = torch.cumsum(lengths, 0).tolist()
    entries = ends[-1] if ends else 0
    projection_HD = None
    if states is not None:
        projection_HD = torch.randn(states, columns, generator=generator) / states**0.5
    return MemoryStore(
        torch.randn(entries, columns, generator=generator),
        torch.randint(0, vocabulary, (entries,), generator=generator),
        ends,
        projection_HD,
    )


def gathered_from(store: MemoryStore, first: int | None = None, steady: bool = True) -> GatheredEntries:
    """What kernels read of a store; entries from `first` on came later than the others."""
    first = len(store) if first is None else first
    keys = GatheredKeys(store.key_ND[:first], store.key_ND[first:])
    return GatheredEntries(keys, store.token_N, store.weights(torch.arange(len(store))), steady)


def _is_an_entry_source(store: MemoryStore) -> EntrySource:
    """Checked by mypy."""
    return store


def usual_plan(columns: int) -> ChunkPlan:
    """A small one of the kind that kernels serve: caches of sentences, in which nothing is held twice."""
    return ChunkPlan(
        k=3,
        cache_k=4,
        schedule=GeometricSchedule(2, 4),
        chunk=3,
        varying_chunk=False,
        seeds=2,
        search_beams=100,
        in_order=False,
        cache=CacheConfig("source", "all", "remove", columns),
    )
