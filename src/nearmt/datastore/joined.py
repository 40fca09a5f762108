"""Several datastores searched as one: for example a customer's memory on top of a domain's.

The segments of all stores are concatenated as if they belonged to one store, and each query covers all of them: the k
nearest entries, the most similar sources, the guard. For exact matches, later stores take precedence. A store's weight
multiplies exp(-d / T) of its neighbours (equation 2); it does not change which neighbours are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from nearmt.datastore.disk import Calibration, Manifest
from nearmt.datastore.live_store import StoreView
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.datastore.store import Datastore
from nearmt.errors import ConfigError, DatastoreError

# Lower bound of a weight: small enough to be outweighed by any other neighbour, and not 0.
_LEAST = 1e-30


class JoinedStore(StoreView):
    """Datastores with their weights, searched together; each can still be edited on its own."""

    def __init__(self, stores: Iterable[Datastore | tuple[Datastore, float]]) -> None:
        """Later stores take precedence over earlier ones. A store of weight 0 is left out."""
        weighted = [store if isinstance(store, tuple) else (store, 1.0) for store in stores]
        for store, weight in weighted:
            if not (isfinite(weight) and weight >= 0):
                raise ConfigError(f"{store.path}: weight {weight:g}: must be a number of at least 0")
        self.stores = [(store, float(weight)) for store, weight in weighted if weight > 0]
        if not self.stores:
            raise ConfigError("no datastore with a weight above 0: nothing to search")
        super().__init__([store for store, _ in self.stores])
        self._joined: tuple[list[Snapshot], Snapshot] | None = None
        self.snapshot()

    def snapshot(self) -> Snapshot:
        """The present content of all stores; the snapshot of a single store is used as is, whatever its weight."""
        found = [store.snapshot() for store, _ in self.stores]
        known = [] if self._joined is None else self._joined[0]
        if self._joined is None or any(now is not then for now, then in zip(found, known, strict=True)):
            stores = [store for store, _ in self.stores]
            check_alike([(str(s.path), s.manifest, len(now)) for s, now in zip(stores, found, strict=True)])
            weights = [weight for _, weight in self.stores]
            joined = found[0] if len(found) == 1 else JoinedSnapshot(list(zip(found, weights, strict=True)))
            self._joined = found, joined
        return self._joined[1]


class JoinedSnapshot(Snapshot):
    """Snapshots concatenated, with entries and pairs numbered throughout."""

    def __init__(self, members: Sequence[tuple[Snapshot, float]]) -> None:
        first = max((snapshot for snapshot, _ in members), key=len)
        if len({snapshot.device for snapshot, _ in members}) > 1:
            raise ConfigError("datastores that are searched together must be opened on the same device")
        seen = [np.ones(len(s.pair_lengths()), bool) if s.seen_P is None else s.seen_P for s, _ in members]
        super().__init__(
            identity="+".join(f"{snapshot.identity}*{weight:g}" for snapshot, weight in members),
            parts=[part for snapshot, _ in members for part in snapshot._parts],
            reduction=first.reduction,
            calibration=_mean([snapshot for snapshot, _ in members], first.calibration),
            cache_columns=first._cache_columns,
            device=first.device,
            seen_P=np.concatenate(seen),
        )
        sizes = [len(snapshot) for snapshot, _ in members]
        self._end_M = torch.tensor(sizes, device=self.device).cumsum(0)
        self._weight_M = torch.tensor([weight for _, weight in members], device=self.device)
        self._weighted = any(weight != 1 for _, weight in members)
        # No weight may become 0, which means merged into another entry (see `Entries.weights`).
        self._weight_M = self._weight_M.clamp(min=_LEAST)

    def weights(self, entry: Tensor) -> Tensor | None:
        """The weight of each entry's store, times its own weight in a pruned store; 1 for entry -1."""
        stands_for = super().weights(entry)
        if not self._weighted:
            return stands_for
        member = torch.bucketize(entry.to(self.device), self._end_M, right=True)
        weight = self._weight_M[member.clamp(max=len(self._end_M) - 1)].to(entry.device)
        if stands_for is not None:
            # An entry that was merged into another counts once where a chunk contains it.
            weight = weight * stands_for.clamp(min=1.0)
        return torch.where(entry < 0, 1.0, weight)


def _mean(members: Sequence[Snapshot], like: Calibration) -> Calibration:
    """Average the calibrations of stores, weighted by the number of entries each was measured on.

    Most neighbours come from the largest store, so its distances count most. Stores that were empty, and values
    that could not be measured, are left out. Single additions do not change the result.
    """
    measured = [snapshot.calibration for snapshot in members]

    def mean(value: Callable[[Calibration], float | None]) -> float | None:
        known = [(found, each.entries) for each in measured if (found := value(each)) is not None]
        total = sum(size for _, size in known)
        # Equal values are kept exactly, without rounding.
        if len({found for found, size in known if size}) == 1:
            return next(found for found, size in known if size)
        return sum(found * size for found, size in known) / total if total else None

    return replace(
        like,
        search_scale=mean(lambda each: each.search_scale) or like.search_scale,
        cache_scale=mean(lambda each: each.cache_scale) or like.cache_scale,
        likely_weight=mean(lambda each: each.likely_weight),
        agreement=mean(lambda each: each.agreement),
        familiar=mean(lambda each: each.familiar),
        recall=mean(lambda each: each.recall),
        entries=sum(each.entries for each in measured),
    )


def check_alike(stores: Sequence[tuple[str, Manifest, int]]) -> None:
    """Refuse stores (name, manifest, entries) whose keys are not comparable; the error names the difference."""
    if not stores:
        return
    # A store without entries has no keys: it is compatible with every reduction.
    (first, mine, _), *others = sorted(stores, key=lambda store: store[2] == 0)
    again = f"`nearmt reindex DIR --model {mine.model}` encodes the pairs of a store again"
    for name, manifest, entries in others:
        both = f"{first} and {name}: cannot be searched together"
        languages = [f"{m.source_lang} to {m.target_lang}" for m in (mine, manifest)]
        if languages[0] != languages[1]:
            raise DatastoreError(f"{both}: one translates {languages[0]}, the other {languages[1]}")
        if (mine.adapter or manifest.adapter) and manifest.fingerprint != mine.fingerprint:
            adapters = [each.adapter.identity if each.adapter else "none" for each in (mine, manifest)]
            raise DatastoreError(
                f"{both}: their models have different adapters ({adapters[0]} and {adapters[1]}); use one of them, or "
                "take the adapters out with `nearmt adapt DIR --remove`"
            )
        if manifest.fingerprint != mine.fingerprint:
            models = f"'{mine.model}' ({mine.fingerprint}) and '{manifest.model}' ({manifest.fingerprint})"
            raise DatastoreError(f"{both}: built with models {models}; {again}")
        if manifest.key_layer != mine.key_layer:
            layers = f"'{mine.key_layer}' and '{manifest.key_layer}'"
            raise DatastoreError(f"{both}: keys of layers {layers}; {again}")
        if manifest.reduction != mine.reduction and entries:
            raise DatastoreError(
                f"{both}: their keys are reduced differently ({mine.reduction}, {manifest.reduction}); "
                f"build one with --reduction-of {first}"
            )
