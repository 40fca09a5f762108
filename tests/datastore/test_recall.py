"""The tuning of clusters until recall is good enough."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.datastore.search import recall
from nearmt.datastore.search.recall import GOOD_RECALL, tune_clusters
from nearmt.engines.choose import exact_index
from nearmt.engines.cuda.clusters import PROBES, ClusterIndex
from tests.index.test_contract import as_sets, brute_force, made_keys


class Rationed(ClusterIndex):
    """Exact from this number of probes on; with fewer, it finds the first entries."""

    needs = 0
    tried: list[int]

    def __init__(self, key_ND: Tensor) -> None:
        super().__init__(key_ND)
        self._exact, self.tried = exact_index(key_ND), []

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        self.tried.append(self.probes)
        if self.probes >= self.needs:
            return self._exact.nominate(query_BD, count, allowed_N)
        return torch.arange(count).expand(len(query_BD), -1)


@pytest.mark.parametrize("needs", [0, 33, 256, 1024, 5000])
def test_the_fewest_probes_that_find_enough_are_taken(needs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the most, where none finds enough."""
    monkeypatch.setattr(Rationed, "needs", needs)
    index = Rationed(torch.from_numpy(made_keys(600)))
    tune_clusters(index)
    assert index.probes == next((probes for probes in PROBES if probes >= needs), PROBES[-1])
    assert index.tried == [probes for probes in PROBES if probes <= index.probes]


def test_ties_and_other_orders_count_as_found() -> None:
    class Backwards(Rationed):
        def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
            return super().nominate(query_BD, count + 3, allowed_N).flip(1)

    index = Backwards(torch.from_numpy(np.repeat(made_keys(60), 5, axis=0)))
    tune_clusters(index)
    assert index.probes == PROBES[0]


def test_what_is_tuned_finds_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "QUERIES", 5)
    key = made_keys(500)
    index = ClusterIndex(torch.from_numpy(key), tune_clusters)
    query_BD = torch.from_numpy(key[::200].astype(np.float32)) + 0.1
    found, expected = as_sets(index.nominate(query_BD, 8, None)), as_sets(brute_force(query_BD, key, 8))
    hits = sum(len(mine & near) for mine, near in zip(found, expected, strict=True))
    assert hits / (8 * len(query_BD)) >= GOOD_RECALL
