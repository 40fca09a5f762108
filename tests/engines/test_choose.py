"""Which engine a component gets: kernels where they can be used, and the reference everywhere else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.engines import choose
from nearmt.engines.cpu.entries import CpuEntryTable
from nearmt.engines.cpu.exact_index import CpuExactIndex
from nearmt.engines.cpu.lists import FloatCentres, InvertedLists, RoundedCentres
from nearmt.engines.cpu.scoring import CpuScoring
from nearmt.engines.cuda.clusters import ClusterIndex
from nearmt.engines.cuda.entries import CudaEntryTable
from nearmt.engines.cuda.scoring import CudaScoring
from nearmt.engines.reference.clusters import TorchCentres, rounded
from nearmt.engines.reference.entries import EntryTable
from nearmt.engines.reference.exact_index import TorchIndex
from nearmt.engines.reference.scoring import ReferenceScoring
from tests.kernels import needs_kernels

CPU, META = torch.device("cpu"), torch.device("meta")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, for tensors on the CPU."""
    monkeypatch.setattr(choose, "has_triton", lambda device: True)
    monkeypatch.setattr(choose, "has_kernels", lambda device: False)


def test_triton_is_for_gpus() -> None:
    assert not choose.has_triton(CPU) and not choose.has_triton(META)
    assert choose.has_triton(torch.device("cuda", 0)) == choose.has_triton(torch.device("cuda", 1))


@needs_kernels
def test_kernels_are_for_cpus(request: pytest.FixtureRequest) -> None:
    assert choose.has_kernels(CPU) and not choose.has_kernels(META)
    request.getfixturevalue("no_kernels")
    assert not choose.has_kernels(CPU)


# Scoring.


@needs_kernels
def test_scoring_on_a_cpu(request: pytest.FixtureRequest) -> None:
    assert type(choose.scoring(CPU)) is CpuScoring
    request.getfixturevalue("no_kernels")
    assert type(choose.scoring(CPU)) is ReferenceScoring


def test_scoring_on_other_devices() -> None:
    assert type(choose.scoring(META)) is ReferenceScoring
    assert type(choose.scoring(torch.device("cuda"))) is CudaScoring


# Entries.


def table_of(keys: Sequence[Tensor]) -> EntryTable:
    count = sum(len(key_ND) for key_ND in keys)
    return choose.entry_table(keys, torch.zeros(count, dtype=torch.int32), torch.tensor([count]), None)


@needs_kernels
def test_entries_on_a_cpu(request: pytest.FixtureRequest) -> None:
    key_ND = torch.zeros(4, 6, dtype=torch.float16)
    assert type(table_of([key_ND])) is type(table_of([key_ND, key_ND])) is CpuEntryTable
    assert type(table_of([])) is EntryTable
    assert type(table_of([key_ND.float()])) is EntryTable
    assert type(table_of([key_ND, key_ND[:, ::2]])) is EntryTable
    request.getfixturevalue("no_kernels")
    assert type(table_of([key_ND])) is EntryTable


@pytest.mark.usefixtures("with_triton")
def test_entries_on_a_gpu() -> None:
    assert type(table_of([torch.zeros(4, 6, dtype=torch.float16)])) is CudaEntryTable
    assert type(table_of([])) is EntryTable


# Indexes without files.


@needs_kernels
def test_an_exact_index_on_a_cpu(request: pytest.FixtureRequest) -> None:
    key_ND = random(50, 8)
    assert type(choose.exact_index(key_ND)) is CpuExactIndex
    request.getfixturevalue("no_kernels")
    assert type(choose.exact_index(key_ND)) is TorchIndex


@pytest.mark.usefixtures("with_triton")
def test_many_keys_on_a_gpu_are_searched_in_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "MANY", 50)
    tuned = list[ClusterIndex]()
    index = choose.memory_index(random(50, 8), tuned.append)
    assert type(index) is ClusterIndex and not tuned
    index.nominate(random(1, 8), 3, None)
    assert tuned == [index]
    assert type(choose.memory_index(random(49, 8), tuned.append)) is TorchIndex


def test_many_keys_elsewhere_are_compared_with_all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "MANY", 50)
    assert isinstance(choose.memory_index(random(50, 8), lambda index: None), TorchIndex)


# Clusters.


@needs_kernels
@pytest.mark.parametrize(
    ("columns", "whole_numbers", "kind"),
    [(8, True, RoundedCentres), (8, False, FloatCentres), (6, True, TorchCentres), (6, False, FloatCentres)],
)
def test_centres_are_searched_by_kernels(
    columns: int, whole_numbers: bool, kind: type, request: pytest.FixtureRequest
) -> None:
    centre_CD = random(20, columns)
    assert type(choose.centre_search(centre_CD, whole_numbers)) is kind
    request.getfixturevalue("no_kernels")
    assert type(choose.centre_search(centre_CD, whole_numbers)) is TorchCentres


@pytest.mark.parametrize("columns", [8, 6])
@pytest.mark.parametrize("whole_numbers", [False, True])
@pytest.mark.parametrize("kernels", [False, True])
def test_the_nearest_centres_come_first(
    columns: int, whole_numbers: bool, kernels: bool, request: pytest.FixtureRequest
) -> None:
    if not kernels:
        request.getfixturevalue("no_kernels")
    centre_CD, query_BD = 100 * random(30, columns), 100 * random(5, columns, seed=1)
    if whole_numbers:
        centre_CD, query_BD = rounded(centre_CD), rounded(query_BD)
    squared_BC = torch.cdist(query_BD.double(), centre_CD.double()).square()
    distance_BK, cluster_BK = choose.centre_search(centre_CD, whole_numbers).nearest(query_BD, 4)
    expected = squared_BC.sort(dim=1)
    # Half of an odd squared length is rounded down: that takes 1 of a squared distance of whole numbers.
    off = 1.01 if whole_numbers else 0.1
    assert (distance_BK - expected.values[:, :4]).abs().max() <= off
    assert (squared_BC.gather(1, cluster_BK) - distance_BK).abs().max() <= off
    assert all(len(set(row)) == 4 for row in cluster_BK.tolist())


@needs_kernels
def test_inverted_lists_are_read_where_kernels_are(request: pytest.FixtureRequest) -> None:
    asked = list[str]()

    def codes() -> list[np.ndarray]:
        asked.append("codes")
        return [np.zeros(8, np.uint8), np.zeros(0, np.uint8)]

    def entries() -> list[np.ndarray]:
        asked.append("entries")
        return [np.array([3, 1]), np.zeros(0, np.int64)]

    assert isinstance(choose.inverted_lists(codes, entries, 4), InvertedLists)
    assert asked == ["codes", "entries"]
    request.getfixturevalue("no_kernels")
    assert choose.inverted_lists(codes, entries, 4) is None and asked == ["codes", "entries"]


@pytest.mark.parametrize("columns", [8, 6])
@pytest.mark.parametrize("kernels", [False, True])
def test_keys_are_assigned_to_the_nearest_rounded_centres(
    columns: int, kernels: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are compared in several parts."""
    if not kernels:
        request.getfixturevalue("no_kernels")
    monkeypatch.setattr(choose, "_TOGETHER", 30)
    key_XD, centre_CD = 100 * random(100, columns), 100 * random(12, columns, seed=1)
    squared_XC = torch.cdist(rounded(key_XD).double(), rounded(centre_CD).double()).square()
    cluster_X = choose.assign_rounded(key_XD, centre_CD)
    assert cluster_X.shape == (100,)
    assert (squared_XC.gather(1, cluster_X[:, None])[:, 0] - squared_XC.amin(dim=1)).max() <= 1.01


# Linear maps.


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("rows", [1, 7])
def test_affine_maps(kernels: bool, rows: int, request: pytest.FixtureRequest) -> None:
    if not kernels:
        request.getfixturevalue("no_kernels")
    weight_OI, bias_O, row_BI = random(9, 20), random(9, seed=1), random(rows, 20, seed=2)
    expected_BO = row_BI.double() @ weight_OI.double().T + bias_O.double()
    found_BO = choose.affine(weight_OI, bias_O)(row_BI)
    torch.testing.assert_close(found_BO.double(), expected_BO, rtol=1e-5, atol=1e-5)
