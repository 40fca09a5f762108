"""Memories with adapters: each has a model of its own, loaded for as long as it is used."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmt.datastore import BuildConfig, Datastore, rebuild
from nearmt.errors import ConfigError
from nearmt.models import TranslationModel
from nearmt.serve.config import ServeConfig
from nearmt.serve.errors import Conflict
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.memories import Memories
from nearmt.serve.models import Models
from nearmt.serve.service import MemoryUse, Service, TranslationRequest
from nearmt.translator import Translator
from tests.adapting import random_adapter
from tests.conftest import make_pairs

TEXTS = ["die pumpe prüfen", "motor und welle"]


@pytest.fixture
def memories(tiny: TranslationModel, tmp_path: Path) -> Memories:
    folder = tmp_path / "memories"
    for number in range(2):
        Datastore.build(folder / f"own-{number}", make_pairs(20), tiny.adapted(random_adapter(tiny, seed=number)))
    Datastore.build(folder / "plain", make_pairs(20), tiny)
    return Memories(folder, Models([tiny]))


def test_an_adapter_makes_a_model_of_its_own(tiny: TranslationModel, memories: Memories) -> None:
    first, second = memories.model("own-0"), memories.model("own-1")
    assert memories.model("plain") is tiny
    assert len({first.fingerprint, second.fingerprint, tiny.fingerprint}) == 3
    assert memories.model("own-0") is first and first.base is tiny
    assert memories.info("own-0").problem == ""


def test_it_is_kept_only_as_long_as_it_is_used(memories: Memories) -> None:
    with memories.using("own-0"):
        opened = memories.model("own-0").fingerprint
        gc.collect()
        assert list(memories._models._adapted.values())
    memories.close()
    gc.collect()
    assert not list(memories._models._adapted.values())
    with memories.using("own-0"):
        assert memories.model("own-0").fingerprint == opened


def test_a_damaged_adapter_is_a_conflict(memories: Memories) -> None:
    (path,) = (memories.folder / "own-0").glob("adapter-*")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Conflict, match="memory 'own-0': "), memories.using("own-0"):
        pass


@pytest.fixture
def service(tiny: TranslationModel, memories: Memories) -> Iterator[Service]:
    service = Service(ServeConfig(memories=str(memories.folder)), Models([tiny]))
    yield service
    service.close()


@pytest.mark.parametrize("name", ["own-0", "own-1", "plain"])
def test_requests_are_translated_with_it(tiny: TranslationModel, service: Service, name: str) -> None:
    store = Datastore.open(service.memories.folder / name)
    expected = Translator(tiny.adapted(store.adapter), store, "knn").translate(TEXTS)
    request = TranslationRequest(TEXTS, memories=[MemoryUse(name)], method="knn", exact=False)
    found = service.translate(ANONYMOUS, request).translations
    assert [each.text for each in found] == [each.text for each in expected]


def test_memories_with_different_adapters_are_refused_together(service: Service) -> None:
    for other in ("own-1", "plain"):
        request = TranslationRequest(TEXTS, memories=[MemoryUse("own-0"), MemoryUse(other)])
        with pytest.raises((ConfigError, Conflict), match="adapter") as error:
            service.translate(ANONYMOUS, request)
        assert "\n" not in str(error.value)


def test_a_memory_that_is_adapted_meanwhile_is_opened_again(tiny: TranslationModel, service: Service) -> None:
    request = TranslationRequest(TEXTS, memories=[MemoryUse("plain")], method="knn", exact=False)
    service.translate(ANONYMOUS, request)
    model = tiny.adapted(random_adapter(tiny, seed=5))
    rebuild(service.memories.folder / "plain", model, BuildConfig())
    with pytest.raises(Conflict):  # what was open is of another model
        service.translate(ANONYMOUS, request)
    expected = Translator(model, Datastore.open(service.memories.folder / "plain"), "knn").translate(TEXTS)
    assert [each.text for each in service.translate(ANONYMOUS, request).translations] == [e.text for e in expected]
