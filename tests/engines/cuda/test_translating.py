"""Translations with Triton kernels, in their interpreter or on a GPU, against those with torch on a CPU."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.contracts import Translation
from nearmt.datastore import Datastore, MaskedStore, PruneConfig, prune
from nearmt.datastore.search import indexing
from nearmt.decoding import BeamConfig
from nearmt.engines import choose
from nearmt.engines.cuda import cache as cuda_cache
from nearmt.engines.cuda import scoring as cuda_scoring
from nearmt.engines.cuda.cache import CudaCache
from nearmt.engines.cuda.clusters import ClusterIndex
from nearmt.engines.cuda.entries import CudaEntryTable
from nearmt.engines.cuda.scoring import CudaScoring
from nearmt.engines.reference.entries import EntryTable
from nearmt.engines.reference.scoring import ReferenceScoring
from nearmt.methods import ChunkMethod, KnnMethod
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.retrieval.retriever import ScheduledRetriever
from nearmt.steps import Request
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.engines.every_engine import GPU

# The interpreter computes with numpy, which warns where log 0 is meant; a GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.*")

BEAM = BeamConfig(beams=2, max_new_tokens=6)
TEXTS = [pair.source for pair in make_pairs(3, seed=5)]


class Engines:
    """One model and one datastore on disk, opened with Triton or without."""

    def __init__(self, models: dict[bool, TranslationModel], path: Path, patch: pytest.MonkeyPatch) -> None:
        self.models, self.path, self._patch = models, path, patch

    def opened(self, triton: bool) -> Datastore:
        self._patch.setattr(choose, "has_triton", lambda device: triton)
        store = Datastore.open(self.path, device=str(GPU if triton else "cpu"))
        assert type(store.snapshot().entries) is (CudaEntryTable if triton else EntryTable)
        return store

    def translate(
        self, triton: bool, store: Any, method: str, batch: int = 4, explain: bool = False, **settings: Any
    ) -> list[Translation]:
        # Agreement and loops would leave the neighbours of this random model little to say.
        settings = settings if method == "plain" else {"agreement": 0, "break-loops": False, **settings}
        translator = Translator(self.models[triton], store, method, settings, BEAM, batch)
        return translator.translate(TEXTS, explain=explain)


@pytest.fixture(scope="module")
def models(tiny_folder: Path) -> dict[bool, TranslationModel]:
    """With torch, and with Triton."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "has_kernels", lambda device: False)
        plain = load_model(ModelConfig(model=str(tiny_folder), device="cpu"))
        triton = load_model(ModelConfig(model=str(tiny_folder), device=str(GPU)))
    assert type(plain.seq2seq.scoring) is ReferenceScoring
    triton.seq2seq.scoring = CudaScoring(GPU, triton=True)
    return {False: plain, True: triton}


@pytest.fixture
def engines(
    models: dict[bool, TranslationModel], tiny_store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Engines:
    shutil.copytree(tiny_store.path, tmp_path / "s")
    monkeypatch.setattr(choose, "has_kernels", lambda device: False)
    if GPU.type == "cpu":  # an interpreter is slow
        monkeypatch.setattr(cuda_cache, "_CAPACITY", 256)
        monkeypatch.setattr(cuda_scoring, "_BLOCK", 64)
    return Engines(models, tmp_path / "s", monkeypatch)


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    for mine, other in zip(found, expected, strict=True):
        assert (mine.text, mine.tokens, mine.steps, mine.searches) == (
            other.text,
            other.tokens,
            other.steps,
            other.searches,
        )
        assert mine.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_translations_are_those_of_torch(method: str, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed, real = list[int](), cuda_scoring.mix_neighbours
    monkeypatch.setattr(cuda_scoring, "mix_neighbours", lambda *given: mixed.append(1) or real(*given))  # type: ignore[func-returns-value]
    expected = engines.translate(False, engines.opened(False), method)
    assert not mixed
    assert_same(engines.translate(True, engines.opened(True), method), expected)
    assert mixed
    plain = engines.translate(False, None, "plain")
    assert [found.text for found in expected] != [found.text for found in plain]
    assert_same(engines.translate(True, None, "plain"), plain)


@pytest.mark.parametrize("method", [KnnMethod, ChunkMethod])
def test_methods_use_the_caches_of_the_store(method: Callable[[Datastore], Any], engines: Engines) -> None:
    store = engines.opened(True)
    request = Request((), [3], 9, GPU, ReferenceScoring())
    retriever = method(store).retriever(store.snapshot(), request)
    assert isinstance(retriever, ScheduledRetriever) and isinstance(retriever._cache, CudaCache)


def test_sentences_that_take_the_slots_of_others(engines: Engines) -> None:
    settings: dict[str, Any] = {"schedule": "every:3", "seeds": 3, "cache-k": 4}
    expected = engines.translate(False, engines.opened(False), "chunk", **settings)
    assert_same(engines.translate(True, engines.opened(True), "chunk", batch=2, **settings), expected)


def test_a_store_of_several_segments(engines: Engines) -> None:
    engines.opened(False).add(make_pairs(6, seed=31), engines.models[False])
    expected = engines.translate(False, engines.opened(False), "chunk", seeds=3)
    store = engines.opened(True)
    assert len(store.snapshot().entries.keys_by_segment) > 1
    assert_same(engines.translate(True, store, "chunk", seeds=3), expected)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_a_pruned_store(method: str, engines: Engines) -> None:
    prune(engines.path, PruneConfig(device="cpu"))
    expected = engines.translate(False, engines.opened(False), method)
    store = engines.opened(True)
    assert store.snapshot().weights(torch.tensor([0])) is not None and store.snapshot().capturable
    assert_same(engines.translate(True, store, method), expected)


def test_a_part_of_a_store(engines: Engines) -> None:
    """Where pairs are hidden, searches do not all issue the same work: caches are torch's."""
    expected = engines.translate(False, MaskedStore(engines.opened(False), range(20)), "chunk")
    store = MaskedStore(engines.opened(True), range(20))
    assert not store.snapshot().capturable
    assert_same(engines.translate(True, store, "chunk"), expected)


def test_a_store_that_is_searched_in_clusters(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = engines.translate(False, engines.opened(False), "chunk", schedule="every:5")
    monkeypatch.setattr(choose, "MANY", 1)
    # All blocks are probed: searches are exact.
    monkeypatch.setattr(indexing, "tune_clusters", lambda index: setattr(index, "probes", 1 << 20))
    store = engines.opened(True)
    assert [type(index) for index in store.snapshot()._searcher.indexes] == [ClusterIndex]
    assert_same(engines.translate(True, store, "chunk", schedule="every:5"), expected)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_explanations_are_those_of_torch(method: str, engines: Engines) -> None:
    settings: dict[str, Any] = {"schedule": "every:3", "seeds": 3} if method == "chunk" else {}
    expected = engines.translate(False, engines.opened(False), method, explain=True, **settings)
    found = engines.translate(True, engines.opened(True), method, explain=True, **settings)
    assert_same(found, expected)
    for mine, other in zip(found, expected, strict=True):
        assert mine.provenance is not None and other.provenance is not None
        for token, same in zip(mine.provenance, other.provenance, strict=True):
            assert (token.token, token.origin, token.searched) == (same.token, same.origin, same.searched)
            assert token.chunks == same.chunks
            assert token.probability == pytest.approx(same.probability, abs=1e-4)
            assert token.model_probability == pytest.approx(same.model_probability, abs=1e-4)
            assert [witness.pair_id for witness in token.witnesses] == [witness.pair_id for witness in same.witnesses]
            shares = [witness.share for witness in same.witnesses]
            assert [witness.share for witness in token.witnesses] == pytest.approx(shares, abs=1e-4)
    origins = {token.origin for mine in found for token in mine.provenance or ()}
    assert "search" in origins and ("cache" in origins) == (method == "chunk")


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_with_an_empty_store_the_model_is_alone(
    method: str, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Datastore.build(tmp_path / "empty", [], engines.models[False])
    monkeypatch.setattr(choose, "has_triton", lambda device: True)
    found = engines.translate(True, Datastore.open(tmp_path / "empty", device=str(GPU)), method)
    alone = engines.translate(True, None, "plain")
    assert [mine.text for mine in found] == [other.text for other in alone]
    assert [mine.score for mine in found] == pytest.approx([other.score for other in alone], abs=1e-5)
