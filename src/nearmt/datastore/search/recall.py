"""Recall of an index: measured, tuned to, and too low."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.base import Index
from nearmt.engines.choose import exact_index
from nearmt.engines.cuda.clusters import PROBES, ClusterIndex
from nearmt.engines.reference.distances import squared_l2
from nearmt.index.faiss import FaissIndex

QUERIES = 256
NEIGHBOURS = 8
#: Recall at which a more thorough (slower) setting of an index is no longer tried. With .96 kNN-MT lost 0.27 BLEU
#: on Koran's test set against exact search, with .98 0.17.
GOOD_RECALL = 0.975
#: Recall below which an index should be made anew.
STALE_RECALL = 0.9
#: An index trained when there were less than this share of today's entries does not know them.
STALE_SHARE = 0.25


def tune_recall(searcher: Searcher, indexes: Sequence[FaissIndex]) -> float:
    """Choose the fastest setting of these indexes at which a store is searched well; return the recall."""
    query_QD = _own_queries(searcher, QUERIES)
    exact_QK = _exact_distances(searcher, query_QD, NEIGHBOURS)
    recall = 0.0
    for effort in indexes[0].efforts or [indexes[0].effort]:
        for index in indexes:
            index.effort = effort
        recall = share_found(searcher.search(query_QD, NEIGHBOURS).distance_BK, exact_QK)
        if recall >= GOOD_RECALL:
            break
    return recall


def tune_clusters(index: ClusterIndex) -> None:
    """Choose the fewest probed blocks of an index on a GPU that reach a good recall."""
    key_ND = index.keys
    query_QD = key_ND[sample(len(key_ND), QUERIES).to(key_ND.device)].float()

    def distances(found_QX: Tensor) -> Tensor:
        return squared_l2(query_QD, key_ND[found_QX].float()).sort(dim=1).values[:, :NEIGHBOURS]

    exact_QK = distances(exact_index(key_ND).nominate(query_QD, NEIGHBOURS, None))
    for index.probes in PROBES:
        if share_found(distances(index.nominate(query_QD, NEIGHBOURS, None)), exact_QK) >= GOOD_RECALL:
            break


def measure_recall(
    searcher: Searcher, allowed_N: Tensor | None = None, queries: int = QUERIES, k: int = NEIGHBOURS
) -> float:
    """Share of the k nearest of a sample of entries that are found, against exact search of all segments."""
    query_QD = _own_queries(searcher, queries)
    if not len(query_QD):
        return 1.0
    exact_QK = _exact_distances(searcher, query_QD, k, allowed_N)
    return share_found(searcher.search(query_QD, k, allowed_N).distance_BK, exact_QK)


def staleness(path: object, recall: float | None, trained: int | None, entries: int) -> str | None:
    """Why the index of a store is stale, if it is.

    `recall` is what was measured (None: search is exact), `trained` the entries there were when the
    quantiser was trained (None: there is none).
    """
    if recall is not None and recall < STALE_RECALL:
        return f"the index finds {recall:.2f} of the nearest neighbours; run `nearmt reindex {path}`"
    if trained is not None and trained < STALE_SHARE * entries:
        return f"the index was trained on {trained} entries, there are {entries} now; run `nearmt reindex {path}`"
    return None


def _own_queries(searcher: Searcher, count: int) -> Tensor:
    """Keys of a sample of entries that can be found."""
    entries = searcher.entries
    entry_Q = sample(entries.kept, count).to(entries.device)
    if entries.kept_N is not None:
        entry_Q = entries.kept_N.nonzero().flatten()[entry_Q]
    return entries.keys(entry_Q, searcher.columns)


def _exact_distances(searcher: Searcher, query_QD: Tensor, k: int, allowed_N: Tensor | None = None) -> Tensor:
    indexes: list[Index] = [exact_index(key_ND) for key_ND in searcher.entries.keys_by_segment]
    exact = Searcher(searcher.entries, indexes, searcher.columns)
    return exact.search(query_QD, k, searcher.live(allowed_N)).distance_BK


def share_found(found_QK: Tensor, exact_QK: Tensor) -> float:
    """Share of what was found that is no farther than the exact ones (ties count as found)."""
    bound_Q1 = exact_QK[:, -1:] * (1 + 1e-5) + 1e-6
    return float((found_QK <= bound_Q1).float().mean())


def sample(count: int, size: int, seed: int = 0) -> Tensor:
    """Up to `size` different numbers below `count`, the same ones every time, ascending."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:size].sort().values
