"""Pruning by greedy merging (Martins et al. 2022): near entries with the same token become one with a larger weight.

Entries are visited in random order. Unmerged neighbours of an unmerged entry that have its token are merged into it:
they are removed from the index, and their weight is added to its own. Tokens, keys and pairs stay on disk, so chunks
remain complete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nearmt.config import Config, option
from nearmt.contracts import Progress
from nearmt.datastore.disk import Manifest, Segment, SegmentRecord
from nearmt.datastore.disk.files import WriterLock, writer_lock
from nearmt.datastore.edit.calibrating import calibrated
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.index_store import Indexing, check_index, index_store, release_rows
from nearmt.datastore.search.weights import with_weights, without_weights
from nearmt.datastore.upkeep.neighbours import cluster, group_equal_keys, nearest_groups, neighbours_of_entries
from nearmt.datastore.upkeep.reindex import sealed_alone
from nearmt.errors import DatastoreError
from nearmt.models import resolve_device
from nearmt.reduction import Reduction

_BLOCK = 100_000
#: Grouping, clustering, searching, listing and merging: each passes over all entries.
_PHASES = 5


@dataclass(frozen=True)
class PruneConfig(Config):
    """How a datastore is pruned."""

    neighbours: int = option(2, "nearest other entries that may be merged into an entry", low=1, high=64)
    seed: int = option(0, "of the random order in which entries are visited", low=0, high=2**63 - 1)
    index: str = option("auto", "exact, or a FAISS factory string such as IVF1024,SQ8 (default: by size)")
    device: str = option("auto", "where neighbours are searched: cpu, cuda, cuda:1, ..., or auto")


def prune(path: Path, config: PruneConfig | None = None, progress: Progress | None = None) -> Manifest:
    """Merge entries and index the kept ones. A pruned store is pruned again from all its entries."""
    config = config or PruneConfig()
    device = torch.device(resolve_device(config.device))
    indexing, before = Indexing(config.index), Manifest.load(path)
    check_index(indexing, before.columns)
    with sealed_alone(path, without_deleted=True) as lock:
        manifest, reduction = _checked(path)
        if not manifest.entries:
            raise DatastoreError(f"{path}: has no entries; there is nothing to prune")
        weight_N = _merged_weights(path, manifest, config, device, progress)
        how = {"neighbours": config.neighbours, "seed": config.seed}
        records, start = [], 0
        for record in manifest.segments:
            records.append(with_weights(path, record, weight_N[start : start + record.entries], how))
            start += record.entries
        records = index_store(path, manifest, records, indexing, before.segments)
        return _replaced(lock, manifest, reduction, records)


def unprune(path: Path, factory: str = "auto") -> Manifest:
    """Undo pruning: index all entries again."""
    check_index(Indexing(factory), Manifest.load(path).columns)
    with writer_lock(path) as lock:
        manifest, reduction = _checked(path)
        if not any(record.pruned for record in manifest.segments):
            raise DatastoreError(f"{path}: is not pruned; there is nothing to undo")
        whole = [without_weights(record) for record in manifest.segments]
        records = index_store(path, manifest, whole, Indexing(factory))
        return _replaced(lock, manifest, reduction, records)


def _replaced(lock: WriterLock, manifest: Manifest, reduction: Reduction, records: list[SegmentRecord]) -> Manifest:
    """Calibrate the store with these segments and replace its manifest."""
    before, manifest = manifest.segments, calibrated(lock.folder, manifest, reduction, records)
    lock.check()
    saved = manifest.save(lock.folder)
    release_rows(lock.folder, before, records)
    return saved


def _checked(path: Path) -> tuple[Manifest, Reduction]:
    manifest = Manifest.load(path)
    manifest.check_files(path)
    return manifest, Reduction.load(path / manifest.reduction_name, manifest.columns)


def _merged_weights(
    path: Path, manifest: Manifest, config: PruneConfig, device: torch.device, progress: Progress | None
) -> np.ndarray:
    """Number of entries merged into each, itself included; 0 for merged ones, [N]."""
    segments = [Segment(path / record.name, record, manifest.columns) for record in manifest.segments]
    entries = open_entries(segments, device)

    def phase(number: int) -> Callable[[int], None]:
        total = len(entries) * _PHASES
        return lambda done: progress(number * len(entries) + done, total) if progress else None

    groups = group_equal_keys(entries, manifest.columns, phase(0))
    clusters = cluster(entries, manifest.columns, groups, phase(1))
    near_UK = nearest_groups(entries, manifest.columns, groups, clusters, config.neighbours, phase(2))
    neighbour_NK = neighbours_of_entries(groups, near_UK, phase(3))
    token_N = np.concatenate([segment.token_N for segment in segments])
    return greedy_merge(neighbour_NK, token_N, visiting_order(len(entries), config.seed), phase(4))


def visiting_order(entries: int, seed: int) -> np.ndarray:
    return torch.randperm(entries, generator=torch.Generator().manual_seed(seed)).numpy()


def greedy_merge(
    neighbour_NK: np.ndarray, token_N: np.ndarray, order_N: np.ndarray, done: Callable[[int], None]
) -> np.ndarray:
    """Weights after merging, 0 for merged entries; neighbour -1 is padding."""
    # Entries without a neighbour of the same token are skipped at once; the sequential loop visits the rest.
    same_NK = (neighbour_NK >= 0) & (token_N[neighbour_NK] == token_N[:, None])
    order_N = order_N[same_NK.any(axis=1)[order_N]]
    weight = [1] * len(token_N)
    for start in range(0, len(order_N), _BLOCK):
        visited = order_N[start : start + _BLOCK]
        others_of = np.where(same_NK[visited], neighbour_NK[visited], -1).tolist()
        for entry, others in zip(visited.tolist(), others_of, strict=True):
            if weight[entry]:
                for other in others:
                    if other >= 0 and weight[other]:
                        weight[entry] += weight[other]
                        weight[other] = 0
        done(start + len(visited))
    return np.asarray(weight, dtype="<i4")
