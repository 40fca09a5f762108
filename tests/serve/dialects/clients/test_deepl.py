"""The official Python client of DeepL, unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs_runner import SAMPLES
from tests.serve.dialects.clients.conftest import SOURCE, TARGET, RunningServer

if TYPE_CHECKING:
    from deepl import DeepLClient

pytestmark = pytest.mark.services


@pytest.fixture
def client(server: RunningServer) -> DeepLClient:
    from deepl import DeepLClient

    return DeepLClient(server.key, server_url=f"{server.address}/deepl/")


def test_texts(client: DeepLClient) -> None:
    found = client.translate_text(SOURCE, source_lang="DE", target_lang="EN-GB")
    assert not isinstance(found, list)
    assert (found.text, found.detected_source_lang, found.billed_characters) == (TARGET, "DE", len(SOURCE))
    several = client.translate_text(
        [SOURCE, "Öffnen Sie das Hauptventil."], target_lang="EN-US", context="Ein Garten.", formality="prefer_more"
    )
    assert isinstance(several, list)
    assert several[0].text == TARGET
    assert "master valve" in several[1].text


def test_tags(client: DeepLClient) -> None:
    source = '<p>Öffnen Sie das <b>Hauptventil</b> &amp; die <x id="1">Pumpe 3</x>.</p>'
    found = str(
        client.translate_text(source, target_lang="EN-US", tag_handling="xml", ignore_tags="x", split_sentences="0")
    )
    assert '<x id="1">Pumpe 3</x>' in found
    assert found.startswith("<p>") and found.endswith("</p>") and found.count("&amp;") == 1
    assert found.index("<b>") < found.index("valve") < found.index("</b>")
    found = str(
        client.translate_text("<p>Öffnen Sie das Hauptventil.</p><br>", target_lang="EN-US", tag_handling="html")
    )
    assert found.startswith("<p>") and found.endswith("</p><br>")


def test_sentences_are_split(client: DeepLClient) -> None:
    source = f"{SOURCE} {SOURCE}"
    assert str(client.translate_text(source, target_lang="EN-US")).count("moisture probe.") == 2


def test_languages_and_usage(client: DeepLClient) -> None:
    assert [language.code for language in client.get_source_languages()] == ["DE"]
    assert [language.code for language in client.get_target_languages()] == ["EN-GB", "EN-US"]
    (pair,) = client.get_glossary_languages()
    assert (pair.source_lang, pair.target_lang) == ("de", "en")
    assert client.get_usage().character.valid
    assert not client.get_usage().any_limit_reached


def test_glossaries_of_one_direction(client: DeepLClient) -> None:
    from deepl import GlossaryNotFoundException

    glossary = client.create_glossary("garden", "DE", "EN", {"Hauptventil": "chief valve"})
    assert glossary.glossary_id in [each.glossary_id for each in client.list_glossaries()]
    assert client.get_glossary(glossary.glossary_id).entry_count == 1
    assert client.get_glossary_entries(glossary) == {"Hauptventil": "chief valve"}
    found = client.translate_text_with_glossary("Öffnen Sie das Hauptventil.", glossary)
    assert "chief valve" in str(found)
    client.delete_glossary(glossary)
    with pytest.raises(GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)


def test_glossaries_of_several_directions(client: DeepLClient) -> None:
    from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries

    glossary = client.create_multilingual_glossary("garden", [Entries("DE", "EN", {"Hauptventil": "chief valve"})])
    assert glossary.glossary_id in [each.glossary_id for each in client.list_multilingual_glossaries()]
    assert client.update_multilingual_glossary_name(glossary, "terms").name == "terms"
    client.update_multilingual_glossary_dictionary(glossary, Entries("DE", "EN", {"Gießplan": "plan"}))
    entries = client.get_multilingual_glossary_entries(glossary, "DE", "EN").dictionaries[0].entries
    assert entries == "Hauptventil\tchief valve\nGießplan\tplan"
    found = client.translate_text(
        "Öffnen Sie das Hauptventil.",
        source_lang="DE",
        target_lang="EN-US",
        glossary=client.get_multilingual_glossary(glossary.glossary_id),
    )
    assert "chief valve" in str(found)
    replaced = client.replace_multilingual_glossary_dictionary(glossary, Entries("DE", "EN", {"Gießplan": "plan"}))
    assert replaced.entry_count == 1
    client.delete_multilingual_glossary_dictionary(glossary, source_lang="DE", target_lang="EN")
    client.delete_multilingual_glossary(glossary)


def test_memories(client: DeepLClient, tmp_path: Path) -> None:
    job = client.import_translation_memory_from_filepath(SAMPLES / "memory.tmx", display_name="deepl test")
    assert job.result is not None
    memory = client.get_translation_memory(str(job.result.translation_memory_id))
    assert memory.source_language == "de"
    assert memory.translation_memory_id in [
        each.translation_memory_id for each in client.list_translation_memories(page_size=25)
    ]
    page = client.list_translation_memory_segments(memory, filter_text="Feuchtefühler", page_size=2)
    assert len(page) == 2
    assert page.next_page_cursor is not None
    found = client.translate_text(
        SOURCE, target_lang="EN-US", translation_memory=memory, translation_memory_threshold=80
    )
    assert str(found) == TARGET
    exported = tmp_path / "exported.tmx"
    client.export_translation_memory_to_filepath(memory, exported)
    assert TARGET in exported.read_text(encoding="utf-8")
    client.delete_translation_memory(memory)
    assert memory.name not in [each.name for each in client.list_translation_memories(page_size=25)]


def test_documents(client: DeepLClient, tmp_path: Path) -> None:
    source, target = tmp_path / "page.html", tmp_path / "page.en.html"
    source.write_text(f"<html><body><p>{SOURCE}</p></body></html>", encoding="utf-8")
    status = client.translate_document_from_filepath(source, target, target_lang="EN-US")
    assert status.done
    assert target.read_text(encoding="utf-8") == f"<html><body><p>{TARGET}</p></body></html>"


def test_errors(server: RunningServer, client: DeepLClient) -> None:
    from deepl import AuthorizationException, DeepLClient, DeepLException

    with pytest.raises(AuthorizationException, match="not known"):
        DeepLClient("wrong", server_url=f"{server.address}/deepl/").get_usage()
    with pytest.raises(DeepLException, match="target_lang"):
        client.translate_text("eins", target_lang="FR")
    with pytest.raises(DeepLException, match="Not found"):
        client.translate_text("eins", target_lang="EN-US", translation_memory="other")
