"""DeepL: texts, languages, usage."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nearmt.serve.values import TranslationRequest
from tests.serve.dialects.conftest import MakeKey

MEMORY = {"translation_memory_id": "manual"}


def translate(client: TestClient, status: int = 200, headers: dict[str, str] | None = None, **given: Any) -> Any:
    """The translated texts, or the message of an error."""
    body = {"source_lang": "DE", "target_lang": "EN-US", **MEMORY, **given}
    response = client.post("/deepl/v2/translate", json=body, headers=headers)
    assert response.status_code == status, response.text
    found = response.json()
    return [each["text"] for each in found["translations"]] if status == 200 else found["message"]


def test_texts_are_translated_in_order(shared: TestClient) -> None:
    assert translate(shared, text=["die welle reinigen", "die pumpe prüfen"]) == ["clean the shaft", "check the pump"]
    assert translate(shared, text="die pumpe prüfen") == ["check the pump"]
    assert translate(shared, text=["die pumpe prüfen"], context="Ein Handbuch.") == ["check the pump"]


def test_answers_have_what_was_asked_for(shared: TestClient) -> None:
    body: dict[str, Any] = {"text": ["die pumpe prüfen"], "target_lang": "EN-GB", **MEMORY}
    (found,) = shared.post("/deepl/v2/translate", json=body).json()["translations"]
    assert found == {"detected_source_language": "DE", "text": "check the pump"}
    body |= {"show_billed_characters": True, "model_type": "prefer_quality_optimized"}
    (found,) = shared.post("/deepl/v2/translate", json=body).json()["translations"]
    assert (found["billed_characters"], found["model_type_used"]) == (16, "quality_optimized")


def test_forms_are_read(shared: TestClient) -> None:
    form = {"text": ["die pumpe prüfen", "motor"], "target_lang": "en-US", **MEMORY, "show_billed_characters": "1"}
    found = shared.post("/deepl/v2/translate", data=form).json()["translations"]
    assert found[0] == {"detected_source_language": "DE", "text": "check the pump", "billed_characters": 16}
    assert len(found) == 2


def test_a_memory_is_chosen_by_id_by_header_or_by_key(guarded: TestClient, make_key: MakeKey) -> None:
    def found(key: str, header: str | None = None, **given: str) -> Any:
        headers = {"Authorization": f"DeepL-Auth-Key {key}"} | ({"X-Nearmt-Memory": header} if header else {})
        body = {"text": ["die pumpe prüfen"], "target_lang": "EN-US", **given}
        response = guarded.post("/deepl/v2/translate", json=body, headers=headers)
        return response.json()["translations"][0]["text"] if response.status_code == 200 else response.status_code

    with_memory, without = make_key("one"), make_key("two", default=None)
    assert found(with_memory) == found(without, **MEMORY) == found(without, header="manual") == "check the pump"
    assert found(without) == found(with_memory, header="none") != "check the pump"
    assert found(with_memory, translation_memory_id="other") == 404


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Parameter 'text' not specified."),
        ({"text": ["eins"], "target_lang": None}, "Parameter 'target_lang' not specified."),
        ({"text": ["eins"], "target_lang": "FR"}, "Value for 'target_lang' not supported."),
        ({"text": ["eins"], "source_lang": "FR"}, "Value for 'source_lang' not supported."),
        ({"text": ["eins"], "formality": "more"}, "'formality' is not supported for given 'target_lang'."),
        ({"text": ["eins"], "style_id": "x"}, "Style rules are not supported."),
        ({"text": ["eins"], "custom_instructions": ["x"]}, "Custom instructions are not supported."),
        ({"text": ["eins"], "glossary_id": "x", "source_lang": None}, "A glossary needs 'source_lang'."),
    ],
)
def test_wrong_requests_have_the_words_of_deepl(shared: TestClient, given: dict[str, Any], message: str) -> None:
    assert translate(shared, 400, **given) == message


@pytest.mark.parametrize(
    "given",
    [{"tag_handling": "x"}, {"split_sentences": "2"}, {"translation_memory_threshold": 101}],
)
def test_wrong_values_are_named(shared: TestClient, given: dict[str, Any]) -> None:
    assert next(iter(given)) in translate(shared, 400, text=["eins"], **given)


@pytest.mark.parametrize("formality", ["default", "prefer_more", "prefer_less"])
def test_formality_may_be_preferred(shared: TestClient, formality: str) -> None:
    assert translate(shared, text=["die pumpe prüfen"], formality=formality) == ["check the pump"]


def test_weblate_can_try_a_server_of_another_direction(shared: TestClient) -> None:
    probe: dict[str, Any] = {"tag_handling": "xml", "ignore_tags": ["x"], "formality": "default"}
    probe["translation_memory_id"] = None
    assert translate(shared, text=["test"], source_lang="en", target_lang="de", **probe) == ["test"]
    assert translate(shared, 400, text=["tests"], source_lang="en", target_lang="de", **probe)


def test_placeholders_of_weblate_survive(shared: TestClient) -> None:
    text = '<x id="0"></x> die pumpe &quot;<x id="12"></x>&quot; prüfen'
    (found,) = translate(shared, text=[text], tag_handling="xml", ignore_tags=["x"])
    assert found.count('<x id="0"></x>') == found.count('<x id="12"></x>') == 1


def test_tags_are_kept(shared: TestClient) -> None:
    assert translate(shared, text=["<b>die pumpe prüfen</b>"], tag_handling="xml") == ["<b>check the pump</b>"]
    (found,) = translate(shared, text=["<i>die pumpe</i> prüfen"], tag_handling="xml")
    assert found.count("<i>") == found.count("</i>") == 1
    assert translate(shared, text=["<p>die pumpe prüfen</p><br>"], tag_handling="html") == ["<p>check the pump</p><br>"]


def test_ignored_tags_keep_their_text(shared: TestClient) -> None:
    for tags in (["k", "x"], "k,x"):
        (found,) = translate(shared, text=["motor <k>die pumpe</k>"], tag_handling="xml", ignore_tags=tags)
        assert "<k>die pumpe</k>" in found


def test_splitting_tags_end_a_text(shared: TestClient) -> None:
    text = "<s>die pumpe prüfen</s><s>die welle reinigen</s>"
    (found,) = translate(shared, text=[text], tag_handling="xml", splitting_tags=["s"])
    assert found == "<s>check the pump</s><s>clean the shaft</s>"


def test_parameters_become_those_of_the_service(client: TestClient, asked: list[TranslationRequest]) -> None:
    translate(client, text=["motor"], split_sentences="0", translation_memory_threshold=80)
    assert (asked[-1].split_sentences, asked[-1].settings) == (False, {"fuzzy": 0.8})
    translate(client, text=["motor"], split_sentences="nonewlines")
    assert (asked[-1].split_sentences, asked[-1].settings) == (True, {})


def test_markup_that_is_not_well_formed_is_refused(shared: TestClient) -> None:
    assert "not well-formed" in translate(shared, 400, text=["<b>eins"], tag_handling="xml")


def test_languages_of_version_2(shared: TestClient) -> None:
    assert shared.get("/deepl/v2/languages").json() == [{"language": "DE", "name": "German"}]
    targets = [
        {"language": "EN-GB", "name": "English (British)", "supports_formality": False},
        {"language": "EN-US", "name": "English (American)", "supports_formality": False},
    ]
    assert shared.get("/deepl/v2/languages?type=target").json() == targets
    # The official shared sends a form with GET.
    assert shared.request("GET", "/deepl/v2/languages", data={"type": "target"}).json() == targets
    assert shared.get("/deepl/v2/languages?type=x").status_code == 400


def test_languages_of_version_3(shared: TestClient) -> None:
    german, british, _ = shared.get("/deepl/v3/languages?resource=translate_text").json()
    assert (german["lang"], german["usable_as_source"], german["usable_as_target"]) == ("de", True, False)
    assert (british["lang"], british["name"]) == ("en-GB", "English (British)")
    assert "formality" not in british["features"]
    assert "tag_handling" in british["features"]
    assert shared.get("/deepl/v3/languages?resource=write").json() == []
    assert shared.get("/deepl/v3/languages").status_code == 400
    resources = shared.get("/deepl/v3/languages/resources").json()
    assert "translate_text" in [each["name"] for each in resources]


def test_pairs_of_glossaries_and_usage(shared: TestClient) -> None:
    pairs = shared.get("/deepl/v2/glossary-language-pairs").json()["supported_languages"]
    assert pairs == [{"source_lang": "de", "target_lang": "en"}]
    usage = shared.get("/deepl/v2/usage").json()
    assert usage["character_count"] < usage["character_limit"]


def test_a_wrong_key_is_forbidden(guarded: TestClient, make_key: MakeKey) -> None:
    make_key()
    for headers in ({}, {"Authorization": "DeepL-Auth-Key nearmt_wrong"}):
        for path in ("/v2/usage", "/v3/glossaries", "/v3/translation_memories"):
            response = guarded.get(f"/deepl{path}", headers=headers)
            assert (response.status_code, list(response.json())) == (403, ["message"])


def test_addresses_of_files_need_a_token(guarded: TestClient) -> None:
    for method in ("GET", "PUT"):
        response = guarded.request(method, "/deepl/v3/translation_memories/files/x")
        assert (response.status_code, list(response.json())) == (404, ["message"])
