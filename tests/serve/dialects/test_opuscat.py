"""OPUS-CAT."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.dialects.conftest import MakeKey

PAIR = {"srcLangCode": "de", "trgLangCode": "en"}
QUERY = {**PAIR, "tokenCode": "0", "input": "die pumpe prüfen", "modelTag": "manual"}


def get(client: TestClient, action: str, **query: str) -> Any:
    response = client.get(f"/MTRestService/{action}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("service_name", ["MTRestService", "MtRestService"])
def test_json_is_what_plug_ins_read(shared: TestClient, service_name: str) -> None:
    found = shared.get(f"/{service_name}/TranslateJson", params=QUERY).json()
    assert found["translation"] == "check the pump"
    assert shared.post(f"/{service_name}/TranslatePost", params=QUERY).json() == {"translation": "check the pump"}


def test_words_are_aligned_for_tags(shared: TestClient) -> None:
    found = get(shared, "TranslateJson", **QUERY)
    assert found["segmentedSourceSentence"] == ["▁die", "▁pumpe", "▁prüfen"]
    assert found["segmentedTranslation"] == ["▁check", "▁the", "▁pump"]
    pairs = [pair.split("-") for pair in found["alignmentString"].split()]
    assert {target for _, target in pairs} == {"0", "1", "2"}
    forward, backward = found["segmentedAlignmentSourceToTarget"], found["segmentedAlignmentTargetToSource"]
    assert all(int(target) in forward[source] and int(source) in backward[target] for source, target in pairs)


def test_other_forms_of_answers(shared: TestClient) -> None:
    assert get(shared, "Translate", **QUERY) == "check the pump"
    assert shared.get("/MTRestService/TranslateStream", params=QUERY).text == "check the pump"
    texts = ["die pumpe prüfen", "die welle reinigen"]
    for body in (texts, {"input": texts, **PAIR, "modelTag": "manual"}):
        response = shared.post("/MTRestService/BatchTranslate", params=QUERY, json=body)
        assert response.json() == ["check the pump", "clean the shaft"]


def test_a_model_tag_is_a_memory(shared: TestClient) -> None:
    assert get(shared, "GetLanguagePairModelTags", tokenCode="0", **PAIR) == ["manual"]
    assert get(shared, "GetLanguagePairModelTags", srcLangCode="en", trgLangCode="de") == []
    assert get(shared, "TranslateJson", **QUERY | {"modelTag": ""})["translation"] != "check the pump"
    assert shared.get("/MTRestService/TranslateJson", params=QUERY | {"modelTag": "other"}).status_code == 404


def test_status_of_a_model(shared: TestClient) -> None:
    assert "is available" in get(shared, "CheckModelStatus", **PAIR)
    assert "manual is available" in get(shared, "CheckModelStatus", **PAIR, modelTag="manual")
    assert get(shared, "CheckModelStatus", srcLangCode="de", trgLangCode="fi") == "No model available for de-fi."


def test_pairs_are_listed(shared: TestClient) -> None:
    assert get(shared, "ListSupportedLanguagePairs") == ["de-en"]


def test_unsupported_languages_are_refused(shared: TestClient) -> None:
    response = shared.get("/MTRestService/TranslateJson", params=QUERY | {"trgLangCode": "fi"})
    assert (response.status_code, response.json()) == (400, {"Message": "target language 'fi' is not supported"})


def test_sentences_can_be_announced(shared: TestClient) -> None:
    path = "/MtRestService/PreOrderBatch"
    assert shared.post(path, params=QUERY, json=["eins", "zwei"]).status_code == 200
    assert shared.post(path, params=QUERY, json=[]).status_code == 400


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_stored_translations_are_learnt(client: TestClient, method: str) -> None:
    stored = {**PAIR, "source": "der motor", "target": "the engine", "modelTag": "manual"}
    assert client.request(method, "/MTRestService/StoreTranslation", params=stored).status_code == 200
    assert get(client, "Translate", **QUERY | {"input": "der motor"}) == "the engine"


def test_pages_of_others_cannot_store(shared: TestClient) -> None:
    """An image of a web page is a GET that sends no origin."""
    stored = {**PAIR, "source": "der motor", "target": "the engine", "modelTag": "manual"}
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    response = shared.get("/MTRestService/StoreTranslation", params=stored, headers=headers)
    assert response.status_code == 403


def test_the_token_is_a_key(guarded: TestClient, make_key: MakeKey) -> None:
    key = make_key()
    query = {**PAIR, "input": "die pumpe prüfen"}
    assert get(guarded, "Login", userName="key", password=key) == key
    assert get(guarded, "TranslateJson", **query, tokenCode=key)["translation"] == "check the pump"
    actions = ["TranslateJson", "Translate", "ListSupportedLanguagePairs", "GetLanguagePairModelTags"]
    for action in [*actions, "CheckModelStatus", "Login", "StoreTranslation", "TranslateStream"]:
        for token in ("0", "", "nearmt_wrong"):
            sent = {**query, "tokenCode": token, "password": token, "source": "a", "target": "b"}
            assert guarded.get(f"/MTRestService/{action}", params=sent).status_code == 401, action
    for action in ("BatchTranslate", "PreOrderBatch", "StoreTranslation", "TranslatePost"):
        sent = {**query, "source": "a", "target": "b"}
        body = ["eins"] if "Batch" in action else None
        assert guarded.post(f"/MTRestService/{action}", params=sent, json=body).status_code == 401, action
