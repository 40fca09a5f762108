"""The option `ends`: who may end a sentence, through whole translations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nearmt.config.methods import ENDS
from nearmt.contracts import Translation
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.engines.base import EndRule
from nearmt.engines.cpu.entries import CpuEntryTable
from nearmt.errors import ConfigError
from nearmt.methods import PRESETS, ChunkConfig, ChunkMethod, KnnConfig, chunk, knn, make_method
from nearmt.methods.knn import LIKELY_END
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import ModelConfig, Seq2SeqModel, TranslationModel, load_model
from nearmt.retrieval.source import LiveSource
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.kernels import needs_kernels
from tests.methods.test_adaptive import made_head, saved
from tests.methods.test_equivalences import assert_differ, assert_same, assert_same_texts, store_of
from tests.methods.test_guard import METHODS, search
from tests.requests import chunk_method
from tests.tiny import random_sources, tiny_model

BEAM = BeamConfig(beams=4, max_new_tokens=15)
TEXTS = [pair.source for pair in make_pairs(8, seed=5)]
#: What else can silence neighbours of a random model, which repeats itself.
OTHERS_OFF = {"agreement": 0, "break-loops": False}


def made(name: str, store: LiveSource, **settings: Any) -> RetrievingMethod:
    method, usual = METHODS[name]
    found = make_method(method, store, {**usual, **OTHERS_OFF, **settings})
    assert isinstance(found, RetrievingMethod)
    return found


def translate(
    model: TranslationModel, store: Datastore, name: str, explain: bool = False, **settings: Any
) -> list[Translation]:
    method, usual = METHODS[name]
    return Translator(model, store, method, {**usual, **OTHERS_OFF, **settings}, BEAM).translate(TEXTS, explain=explain)


@pytest.mark.parametrize("family", ["nllb", "mbart50"])
@pytest.mark.parametrize("name", METHODS)
def test_who_is_near_decides(name: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 3)), random_sources(3, count=8)
    store = store_of(model)
    assert model.eos_ids == [2] and 2 in store.token_N
    everybody = search(model, made(name, store, ends="all"), sources)
    near = search(model, made(name, store, ends="near"), sources)
    assert_differ(near, everybody)
    assert_same(search(model, made(name, store), sources), near)
    # If all neighbours are near, all keep their weights, bit for bit; if none is, only the model ends sentences.
    for module in (knn, chunk):
        monkeypatch.setattr(module, "END_RADIUS", 1e9)
    assert_same(search(model, made(name, store, ends="near"), sources), everybody)
    for module in (knn, chunk):
        monkeypatch.setattr(module, "END_RADIUS", 0.0)
    assert_differ(search(model, made(name, store, ends="near"), sources), everybody)


@pytest.mark.parametrize("name", METHODS)
def test_translations_are_longer_where_only_near_neighbours_end_them(
    name: str, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    near, everybody = (translate(tiny, tiny_store, name, ends=ends) for ends in ENDS)
    assert [t.text for t in near] != [t.text for t in everybody]
    assert sum(t.tokens for t in near) > sum(t.tokens for t in everybody)


@needs_kernels
@pytest.mark.parametrize("name", METHODS)
def test_it_is_the_same_with_kernels_and_without(
    name: str, tiny_folder: Path, tiny: TranslationModel, tiny_store: Datastore, request: pytest.FixtureRequest
) -> None:
    found = translate(tiny, tiny_store, name, ends="near")
    request.getfixturevalue("no_kernels")
    store = Datastore.open(tiny_store.path)
    assert isinstance(tiny_store.snapshot().entries, CpuEntryTable)
    assert not isinstance(store.snapshot().entries, CpuEntryTable)
    model = load_model(ModelConfig(model=str(tiny_folder), device="cpu", precision="fp32"))
    assert_same_texts(translate(model, store, name, ends="near"), found, 1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_an_explanation_tells_of_the_same_translation(name: str, tiny: TranslationModel, tiny_store: Datastore) -> None:
    """What keeps evidence is not what kernels do."""
    explained = translate(tiny, tiny_store, name, explain=True, ends="near")
    assert_same_texts(explained, translate(tiny, tiny_store, name, ends="near"), 1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_who_may_not_speak_is_no_witness(
    name: str, tiny: TranslationModel, tiny_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (knn, chunk):
        monkeypatch.setattr(module, "END_RADIUS", 0.0)
    (end,) = tiny.codec.subwords(tiny.seq2seq.eos_ids)
    unlikely = dict[str, set[str]]()
    for ends in ENDS:
        found = translate(tiny, tiny_store, name, explain=True, ends=ends)
        tokens = [token for translation in found for token in translation.provenance or ()]
        assert any(token.witnesses for token in tokens if token.token != end)
        # Any neighbour may predict an end that the model finds likely.
        is_unlikely = [token.token == end and token.model_probability < LIKELY_END for token in tokens]
        unlikely[ends] = {token.origin for token, counts in zip(tokens, is_unlikely, strict=True) if counts}
        assert all(bool(token.witnesses) == (token.origin != "model") for token in tokens)
    assert unlikely["near"] == {"model"} and unlikely["all"] - {"model"}


# What the option is where it is not given.


@pytest.mark.parametrize("name", METHODS)
def test_near_is_half_a_typical_distance(name: str, tiny_store: Datastore) -> None:
    """Squared where distances are: those of searches, and what is re-used or read on from them."""
    squared = 0.25 * tiny_store.snapshot().profile.search_scale
    near = made(name, tiny_store).end_rule
    assert near is not None and near.search == pytest.approx(squared)
    cached = name in ("chunk", "hypotheses", "beyond")
    assert near.cache == pytest.approx(squared**0.5 if cached else squared)
    assert made(name, tiny_store, ends="all").end_rule is None


@pytest.mark.parametrize("columns", [3, 8])
def test_near_is_measured_on_the_columns_that_the_cache_compares(columns: int, tiny_store: Datastore) -> None:
    method = ChunkMethod(tiny_store, ChunkConfig(cache_columns=columns))
    scale = tiny_store.snapshot().profile.scale(columns)
    assert scale < tiny_store.snapshot().profile.scale(tiny_store.snapshot().columns)
    assert method.end_rule == EndRule(0.25 * tiny_store.snapshot().profile.search_scale, 0.5 * scale, LIKELY_END)


@pytest.mark.parametrize("name", METHODS)
def test_the_signature_says_who_may(name: str, tiny_store: Datastore) -> None:
    assert "|ends:near|" in made(name, tiny_store).signature()
    for ends in ENDS:
        assert f"|ends:{ends}|" in made(name, tiny_store, ends=ends).signature()


@pytest.mark.parametrize("preset", PRESETS)
def test_strategies_of_the_paper_are_as_published(preset: str, tiny_store: Datastore) -> None:
    method = chunk_method(tiny_store, ChunkConfig.from_mapping(PRESETS[preset]))
    assert method.end_rule is None and "|ends:all|" in method.signature()
    given = chunk_method(tiny_store, ChunkConfig.from_mapping({**PRESETS[preset], "ends": "near"}))
    assert given.end_rule is not None


@pytest.mark.parametrize("name", ["knn", "efficient", "chunk", "in order"])
def test_a_network_has_learnt_what_ends_are_worth(
    name: str, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    """All may speak unless it is asked for."""
    path = saved(tmp_path / "net", {"search": made_head(4), "cache": made_head(4, seed=1)}, tiny)
    network: dict[str, Any] = {"adaptive": path, "adaptive-boost": 3.0, "guard": False}
    network |= {"cache-k": 4} if METHODS[name][0] == "chunk" else {}
    usual, near = made(name, tiny_store, **network), made(name, tiny_store, **network, ends="near")
    assert usual.end_rule is None and "|ends:all|" in usual.signature()
    assert near.end_rule == made(name, tiny_store).end_rule and "|ends:near|" in near.signature()
    found = translate(tiny, tiny_store, name, **network)
    assert_same_texts(found, translate(tiny, tiny_store, name, **network, ends="all"))
    assert [t.text for t in translate(tiny, tiny_store, name, **network, ends="near")] != [t.text for t in found]


@pytest.mark.parametrize("value", ["far", "", True, 0.5])
def test_other_values(value: Any) -> None:
    with pytest.raises(ConfigError, match="ends"):
        KnnConfig(ends=value)
