"""The official Python client of ModernMT, unchanged; only the address is another one."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs_runner import SAMPLES
from tests.serve.dialects.clients.conftest import SOURCE, TARGET, RunningServer

if TYPE_CHECKING:
    from modernmt import ModernMT

pytestmark = pytest.mark.services


@pytest.fixture
def client(server: RunningServer) -> ModernMT:
    return make_client(server, server.key)


def make_client(server: RunningServer, key: str) -> ModernMT:
    from modernmt import ModernMT

    client = ModernMT(key)
    client._ModernMT__base_url = f"{server.address}/mmt"
    return client


def test_texts_and_lists(client: ModernMT) -> None:
    assert client.translate("de", "en", SOURCE).translation == TARGET
    several: list[Any] = client.translate("de", "en", [SOURCE, "Öffnen Sie das Hauptventil."])
    assert several[0].translation == TARGET
    assert "master valve" in several[1].translation
    assert client.translate(None, "en", SOURCE).detectedLanguage == "de"


def test_hints_choose_memories(server: RunningServer, client: ModernMT) -> None:
    (garden,) = (memory for memory in client.memories.list() if memory.name == "garden")
    assert client.translate("de", "en", SOURCE, hints=[garden.id]).translation == TARGET
    assert client.translate("de", "en", SOURCE, options={"priority": "background"}).translation == TARGET
    plain = make_client(server, server.plain_key)
    assert plain.memories.list() == []
    assert plain.translate("de", "en", SOURCE).translation != TARGET


def test_a_memory_learns_sentences_and_files(client: ModernMT, tmp_path: Path) -> None:
    memory = client.memories.create("mmt-test")
    assert client.memories.get(memory.id).name == "mmt-test"
    job = client.memories.add(memory.id, "de", "en", "Der Gartenzwerg schläft.", "The gnome is asleep.", tuid="t1")
    assert job.progress == 1
    source = "Der Gartenzwerg schläft."
    assert client.translate("de", "en", source, hints=[memory.id]).translation == "The gnome is asleep."
    client.memories.replace(memory.id, "t1", "de", "en", source, "The gnome sleeps.")
    assert client.translate("de", "en", source, hints=[memory.id]).translation == "The gnome sleeps."
    packed = tmp_path / "memory.tmx.gz"
    packed.write_bytes(gzip.compress((SAMPLES / "memory.tmx").read_bytes()))
    for job in (
        client.memories.import_tmx(memory.id, str(SAMPLES / "memory.tmx")),
        client.memories.import_tmx(memory.id, str(packed), compression="gzip"),
    ):
        while client.memories.get_import_status(job.id).progress < 1:
            time.sleep(0.2)
    assert client.translate("de", "en", SOURCE, hints=[memory.id]).translation == TARGET
    assert client.memories.delete(memory.id).id == memory.id


def test_glossaries(client: ModernMT, tmp_path: Path) -> None:
    memory = client.memories.create("terms: garden")
    table = tmp_path / "terms.csv"
    table.write_text("de,en\nHauptventil,chief valve\n", encoding="utf-8")
    client.memories.import_glossary(memory.id, str(table), "unidirectional")
    found = client.translate("de", "en", "Öffnen Sie das Hauptventil.", options={"glossaries": f"{memory.id}"})
    assert "chief valve" in found.translation
    client.memories.delete(memory.id)


def test_languages_detection_and_account(client: ModernMT) -> None:
    assert client.list_supported_languages() == ["de", "en"]
    assert client.detect_language(SOURCE).detectedLanguage == "de"
    assert client.me().name == "all"


def test_errors_have_types(server: RunningServer, client: ModernMT) -> None:
    from modernmt import ModernMTException

    with pytest.raises(ModernMTException) as found:
        make_client(server, "wrong").translate("de", "en", "eins")
    assert (found.value.status, found.value.type) == (401, "AuthException")
    with pytest.raises(ModernMTException) as found:
        client.memories.get(7)
    assert (found.value.status, found.value.type) == (404, "NotFoundException")
    with pytest.raises(ModernMTException) as found:
        client.translate("de", "fr", "eins")
    assert found.value.status == 400
