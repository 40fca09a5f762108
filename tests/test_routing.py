"""What a memory knows nothing about is translated by the model without the memory's adapter."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel
from nearmt.scheduler import Scheduler, SchedulerConfig, Ticket
from nearmt.translator import Translator
from tests.adapting import random_adapter
from tests.conftest import make_pairs

BEAM = BeamConfig(beams=3, max_new_tokens=12)
#: Words that no pair of the memory has.
STRANGE = ["immer immer immer", "vor vor nach nach", "nicht immer vor nach"]


def known_pairs() -> list[Pair]:
    found = [
        pair for pair in make_pairs(400, seed=60) if not {"immer", "vor", "nach", "nicht"} & set(pair.source.split())
    ]
    return found[:40]


@pytest.fixture(scope="module")
def adapted(tiny: TranslationModel) -> TranslationModel:
    return tiny.adapted(random_adapter(tiny, size=0.4, pairs=known_pairs()))


@pytest.fixture(scope="module")
def store(adapted: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    return Datastore.build(tmp_path_factory.mktemp("routed") / "store", known_pairs(), adapted)


def results(translator: Translator, texts: Sequence[str], **how: Any) -> list[tuple[str, float]]:
    return [(found.text, found.score) for found in translator.translate(list(texts), **how)]


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_foreign_sentences_are_those_of_the_model_alone_and_the_order_stays(
    tiny: TranslationModel, adapted: TranslationModel, store: Datastore, method: str
) -> None:
    known = [pair.source for pair in known_pairs()[:3]]
    mixed = [text for both in zip(STRANGE, known, strict=True) for text in both]
    translator = Translator(adapted, store, method, beam=BEAM, batch_size=2)
    found = results(translator, mixed)
    alone = results(Translator(tiny, beam=BEAM, batch_size=2), STRANGE)
    assert found[::2] == alone
    adapter_alone = results(Translator(adapted, beam=BEAM, batch_size=2), STRANGE)
    assert alone != adapter_alone
    everywhere = Translator(dataclasses.replace(adapted, adapter=None), store, method, beam=BEAM, batch_size=2)
    assert found[1::2] == results(everywhere, known)
    assert translator.translate(mixed)[0].searches == 0 < translator.translate(mixed)[1].searches


def test_without_the_guard_all_sentences_are_the_adapters(adapted: TranslationModel, store: Datastore) -> None:
    translator = Translator(adapted, store, "knn", {"guard": False, "lambda": 0.0}, BEAM)
    assert results(translator, STRANGE) == results(Translator(adapted, beam=BEAM), STRANGE)


def test_a_model_without_adapter_translates_all_itself(tiny: TranslationModel, tiny_store: Datastore) -> None:
    translator = Translator(tiny, tiny_store, "chunk", beam=BEAM)
    assert [(each is translator, count) for each, count in translator._translators([])] == [(True, [])]


def test_explanations_marks_and_alternatives_come_from_either_model(
    tiny: TranslationModel, adapted: TranslationModel, store: Datastore
) -> None:
    texts = [STRANGE[0], known_pairs()[0].source]
    translator = Translator(adapted, store, "knn", beam=BEAM)
    foreign, known = translator.translate(texts, explain=True)
    assert foreign.provenance is not None and {token.origin for token in foreign.provenance} == {"model"}
    assert known.provenance is not None and any(token.witnesses for token in known.provenance)
    (other,) = Translator(tiny, beam=BEAM).translate([STRANGE[0]], alternatives=2)
    assert translator.translate(texts, alternatives=2)[0].alternatives == other.alternatives


def test_requests_that_share_batches_are_routed_too(adapted: TranslationModel, store: Datastore) -> None:
    texts = [*STRANGE, *(pair.source for pair in known_pairs()[:4])]
    translator = Translator(adapted, store, "knn", beam=BEAM)
    scheduler = Scheduler(SchedulerConfig(slots=3, workers=2))
    try:
        shared = translator.decoding_with(scheduler.decoder(Ticket()))
        assert results(shared, texts) == results(translator, texts)
    finally:
        scheduler.close()


def test_foreign_is_what_has_little_in_common_with_the_memory(
    adapted: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Translator(adapted, store, "knn").method
    assert isinstance(method, RetrievingMethod)
    ids = [adapted.codec.source_ids(text) for text in (STRANGE[0], known_pairs()[0].source)]
    assert method.foreign(ids, 1.0) == [True, False] and method.foreign([], 1.0) == []
    usual = store.snapshot().similar(ids, 0)
    for familiarity, gain, foreign in ((0.79, 2.0, True), (0.81, 0.9, False), (1.09, 0.0, True), (1.11, 0.4, False)):
        similar = dataclasses.replace(usual, familiarity=[familiarity])
        monkeypatch.setattr(type(store.snapshot()), "similar", lambda *given, found=similar: found)
        assert method.foreign(ids[:1], gain) == [foreign]


def test_the_other_model_is_loaded_only_when_it_is_needed(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator(tiny.config, str(store.path), "knn", beam=BEAM)
    loaded: list[object] = []

    def load(*given: object) -> TranslationModel:
        loaded.append(given)
        return tiny

    monkeypatch.setattr("nearmt.models.load_model", load)
    translator.translate([known_pairs()[0].source])
    assert loaded == []
    translator.translate(STRANGE)
    translator.translate(STRANGE)
    assert len(loaded) == 1
