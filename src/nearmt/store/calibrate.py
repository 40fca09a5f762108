"""Measuring a store on itself: how far neighbours are, and how many of them its index finds."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Index, Neighbours
from nearmt.datastore import Calibration, Segment
from nearmt.index import TorchIndex
from nearmt.index.faiss import FaissIndex
from nearmt.reduction import Reduction
from nearmt.store.entries import Entries
from nearmt.store.search import Searcher

QUERIES = 256
NEIGHBOURS = 8
#: Recall at which a more thorough (slower) setting of an index is no longer tried.
GOOD_RECALL = 0.98
# Sampled entries find themselves and their own sentence first; so many more are asked for.
_OWN_SENTENCE = 24


def calibrate(segments: list[Segment], reduction: Reduction, cache_columns: int) -> Calibration:
    """Distances of a sample of entries to their nearest in other sentences, by exact search."""
    entries = Entries(segments, torch.device("cpu"))
    fallback = _from_variance(reduction, cache_columns)
    if not len(entries):
        return fallback
    sample_Q = _sample(len(entries))
    query_QD = entries.keys(sample_Q, reduction.columns)
    exact = [TorchIndex(key_ND) for key_ND in entries.keys_by_segment]
    searcher = Searcher(entries, list[Index](exact), reduction.columns)
    found = _of_other_sentences(entries, sample_Q, searcher.search(query_QD, NEIGHBOURS + _OWN_SENTENCE))
    there_QK = ~torch.isinf(found.distance_BK)
    squared = found.distance_BK[there_QK]
    if not len(squared):
        return fallback
    own_QK = torch.arange(len(sample_Q))[:, None].expand_as(there_QK)[there_QK]
    cache_key_XE = entries.keys(found.entry_BK[there_QK], cache_columns)
    distance_X = (cache_key_XE - query_QD[own_QK, :cache_columns]).square().sum(dim=1).sqrt()
    # A store of repetitions has distances of zero, which are no unit for a temperature.
    return Calibration(
        search_scale=float(squared.median()) or fallback.search_scale,
        cache_scale=float(distance_X.median()) or fallback.cache_scale,
        queries=len(sample_Q),
        k=NEIGHBOURS,
    )


def tune_recall(index: FaissIndex, key_ND: Tensor) -> float:
    """Choose the fastest setting of an index with good recall@k against exact search; return that recall."""
    query_QD = key_ND[_sample(len(key_ND))].float()
    exact = TorchIndex(key_ND).nominate(query_QD, NEIGHBOURS, None)
    recall = 0.0
    for effort in index.efforts or [index.effort]:
        index.effort = effort
        recall = _recall(index.nominate(query_QD, NEIGHBOURS, None), exact, query_QD, key_ND)
        if recall >= GOOD_RECALL:
            break
    return recall


def _recall(nominated_QX: Tensor, exact_QK: Tensor, query_QD: Tensor, key_ND: Tensor) -> float:
    """Share of nominees among the k nearest that are no farther than the exact ones (ties count as found)."""

    def distances(entry: Tensor) -> Tensor:
        squared = (key_ND[entry.clamp(min=0)].float() - query_QD[:, None]).square().sum(dim=-1)
        return squared.masked_fill(entry < 0, torch.inf).sort(dim=1).values[:, : exact_QK.shape[1]]

    bound_Q1 = distances(exact_QK)[:, -1:] * (1 + 1e-5) + 1e-6
    return float((distances(nominated_QX) <= bound_Q1).float().mean())


def _sample(entries: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randperm(entries, generator=generator)[:QUERIES].sort().values


def _of_other_sentences(entries: Entries, sample_Q: Tensor, found: Neighbours) -> Neighbours:
    own_Q1 = entries.pair_numbers(sample_Q)[:, None]
    is_own = entries.pair_numbers(found.entry_BK.clamp(min=0)) == own_Q1
    distance = found.distance_BK.masked_fill(is_own | (found.entry_BK < 0), torch.inf)
    nearest = distance.argsort(dim=1, stable=True)[:, :NEIGHBOURS]
    return Neighbours(found.entry_BK.gather(1, nearest), distance.gather(1, nearest))


def _from_variance(reduction: Reduction, cache_columns: int) -> Calibration:
    """For a store with nothing to measure: the expected distance of two states of the fitting text, halved."""
    return Calibration(
        search_scale=float(reduction.variance_D.sum()),
        cache_scale=float(reduction.variance_D[:cache_columns].sum().sqrt()),
        queries=0,
        k=NEIGHBOURS,
    )
