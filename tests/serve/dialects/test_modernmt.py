"""ModernMT."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nearmt.serve.dialects.modernmt.ids import number_of
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.service import Service
from nearmt.serve.values import MemoryUse, TranslationRequest
from tests.serve.dialects.conftest import MakeKey, targets

MANUAL = number_of("manual")


def send(client: TestClient, method: str, path: str, status: int = 200, **request: Any) -> Any:
    """The data of an answer, or the type of an error."""
    response = client.request(method, f"/mmt{path}", **request)
    found = response.json()
    assert (response.status_code, found["status"]) == (status, status), response.text
    return found["data"] if status == 200 else found["error"]["type"]


def translate(client: TestClient, **query: Any) -> Any:
    return send(client, "GET", "/translate", params={"source": "de", "target": "en", **query})


def test_a_text_and_a_list_are_answered_alike(shared: TestClient) -> None:
    found = translate(shared, q="die pumpe prüfen", hints=MANUAL)
    assert found == {"translation": "check the pump", "characters": 16, "billedCharacters": 16}
    several = translate(shared, q=["die pumpe prüfen", "die welle reinigen"], hints=MANUAL)
    assert [each["translation"] for each in several] == ["check the pump", "clean the shaft"]


def test_a_method_can_stand_in_a_header(shared: TestClient) -> None:
    body = {"source": "de", "target": "en", "q": "die pumpe prüfen", "hints": f"{MANUAL}"}
    found = send(shared, "POST", "/translate", json=body, headers={"X-HTTP-Method-Override": "get"})
    assert found["translation"] == "check the pump"
    assert shared.post("/mmt/translate", json=body).status_code == 405
    other = shared.post("/api/v1/translate", json={"texts": ["eins"]}, headers={"X-HTTP-Method-Override": "GET"})
    assert other.status_code == 200


@pytest.mark.parametrize("hints", [MANUAL, str(MANUAL), "manual", ["manual"], f"{MANUAL},manual"])
def test_hints_are_numbers_or_names(shared: TestClient, hints: Any) -> None:
    assert translate(shared, q="die pumpe prüfen", hints=hints)["translation"] == "check the pump"


def test_a_context_vector_gives_memories_weights(client: TestClient, asked: list[TranslationRequest]) -> None:
    vector = f"{MANUAL}:0.5"
    assert translate(client, q="die pumpe prüfen", context_vector=vector)["translation"] == "check the pump"
    assert asked[-1].memories == (MemoryUse("manual", 0.5),)
    wrong = {"source": "de", "target": "en", "q": "eins", "context_vector": f"{MANUAL}:x"}
    assert send(client, "GET", "/translate", 400, params=wrong) == "ApiException"


def test_without_hints_the_default_memory_counts(guarded: TestClient, make_key: MakeKey) -> None:
    headers = {"MMT-ApiKey": make_key()}
    query = {"source": "de", "target": "en", "q": "die pumpe prüfen"}
    assert send(guarded, "GET", "/translate", params=query, headers=headers)["translation"] == "check the pump"


def test_detection_and_alternatives(shared: TestClient) -> None:
    found = send(shared, "GET", "/translate", params={"target": "en", "q": "die pumpe und der motor"})
    assert found["detectedLanguage"] == "de"
    assert isinstance(translate(shared, q="motor", alt_translations=2)["altTranslations"], list)
    assert send(shared, "GET", "/translate/detect", params={"q": "die pumpe und der motor"}) == {
        "billedCharacters": 23,
        "detectedLanguage": "de",
    }
    several = send(shared, "GET", "/translate/detect", params={"q": ["die pumpe", "der motor"]})
    assert [each["detectedLanguage"] for each in several] == ["de", "de"]


def test_background_work_is_bulk(client: TestClient, asked: list[TranslationRequest]) -> None:
    translate(client, q="motor", priority="background")
    translate(client, q="motor", priority="normal")
    assert [request.bulk for request in asked] == [True, False]


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ({"q": "eins"}, 400, "ApiException"),
        ({"target": "en"}, 400, "ApiException"),
        ({"q": "eins", "source": "de", "target": "fr"}, 400, "ApiException"),
        ({"q": "eins", "source": "de", "target": "en", "hints": "7"}, 404, "NotFoundException"),
        ({"q": "eins", "source": "de", "target": "en", "glossaries": "7"}, 404, "NotFoundException"),
        ({"q": "eins", "source": "de", "target": "en", "format": "application/x"}, 400, "ApiException"),
    ],
)
def test_wrong_requests(shared: TestClient, query: dict[str, str], status: int, kind: str) -> None:
    assert send(shared, "GET", "/translate", status, params=query) == kind


def test_weblate_can_try_a_server_of_another_direction(shared: TestClient) -> None:
    found = send(shared, "GET", "/translate", params={"q": "test", "source": "en", "target": "de"})
    assert found["translation"] == "test"


def test_languages(shared: TestClient) -> None:
    assert send(shared, "GET", "/translate/languages") == ["de", "en"]
    assert send(shared, "GET", "/languages") == {"de": ["en"]}


def test_an_account_has_a_name(shared: TestClient) -> None:
    found = send(shared, "GET", "/users/me")
    assert found["name"] == ANONYMOUS.name
    assert found["billingPeriod"]["amount"] == 0


def test_memories_have_numbers_that_stay(client: TestClient) -> None:
    (found,) = send(client, "GET", "/memories")
    assert (found["id"], found["name"], found["key"]) == (MANUAL, "manual", "manual")
    assert send(client, "GET", f"/memories/{MANUAL}") == send(client, "GET", "/memories/manual") == found
    assert 0 < MANUAL < 1 << 53
    assert send(client, "GET", "/memories/7", 404) == "NotFoundException"


def test_a_memory_is_made_kept_and_deleted(client: TestClient) -> None:
    made = send(client, "POST", "/memories", json={"name": "customer", "description": "of a customer"})
    assert {each["name"] for each in send(client, "GET", "/memories")} == {"manual", "customer"}
    path = f"/memories/{made['id']}"
    assert send(client, "PUT", path, json={"name": "customer"}) == made
    assert send(client, "PUT", path, 400, json={"name": "other"}) == "ApiException"
    assert send(client, "POST", "/memories", 400, json={"name": " "}) == "ApiException"
    assert send(client, "DELETE", path) == made
    assert send(client, "GET", path, 404) == "NotFoundException"


def content(**changes: str) -> dict[str, str]:
    return {"source": "de", "target": "en", "sentence": "der motor", "translation": "the engine", **changes}


def test_content_is_learnt_and_replaced(client: TestClient) -> None:
    path = f"/memories/{MANUAL}/content"
    job = send(client, "POST", path, data=content(tuid="m1"))
    assert (job["memory"], job["size"], job["progress"]) == (MANUAL, 1, 1.0)
    assert send(client, "GET", f"/import-jobs/{job['id']}") == job
    assert translate(client, q="der motor", hints=MANUAL)["translation"] == "the engine"
    send(client, "PUT", path, json=content(tuid="m1", translation="the motor"))
    assert translate(client, q="der motor", hints=MANUAL)["translation"] == "the motor"
    assert send(client, "PUT", path, 400, json=content()) == "ApiException"


def test_glossaries_of_weblate(client: TestClient, asked: list[TranslationRequest]) -> None:
    """Its names cannot be names of memories; it uploads a table in a second request."""
    name = "weblate:1:de:en:0123456789abcdef"
    made = send(client, "POST", "/memories", data={"name": name})
    assert send(client, "POST", "/memories", data={"name": name}) == made
    table = b"de,en\nschraube,bolt\n"
    path = f"/memories/{made['id']}/glossary"
    send(client, "POST", path, data={"type": "unidirectional"}, files={"csv": ("terms.csv", table)})
    assert name in [each["name"] for each in send(client, "GET", "/memories")]
    translate(client, q="die schraube reinigen", glossaries=made["id"])
    assert targets(asked[-1]) == {"schraube": "bolt"}
    send(client, "DELETE", f"/memories/{made['id']}")
    assert name not in [each["name"] for each in send(client, "GET", "/memories")]


def test_terms_are_added_to_the_glossary_of_a_memory(client: TestClient, service: Service) -> None:
    terms = [{"term": "schraube", "language": "de"}, {"term": "bolt", "language": "en"}]
    path = f"/memories/{MANUAL}/glossary"
    job = send(client, "POST", path, json={"terms": terms, "type": "equivalent", "tuid": "t1"})
    assert job["size"] == 2
    (glossary,) = service.glossaries.all(ANONYMOUS)
    assert {direction: [term.target for term in terms] for direction, terms in glossary.terms.items()} == {
        ("de", "en"): ["bolt"],
        ("en", "de"): ["schraube"],
    }
    terms[1]["term"] = "screw"
    send(client, "PUT", path, json={"terms": terms, "type": "unidirectional", "tuid": "t1"})
    (glossary,) = service.glossaries.all(ANONYMOUS)
    assert [term.target for term in glossary.terms["de", "en"]] == ["screw"]
    assert send(client, "POST", path, 400, json={"terms": terms, "type": "x"}) == "ApiException"


def test_a_wrong_key_has_a_type(guarded: TestClient, make_key: MakeKey) -> None:
    make_key()
    for headers in ({}, {"MMT-ApiKey": "nearmt_wrong"}):
        for method, path in (("GET", "/users/me"), ("GET", "/memories"), ("POST", "/memories/manual/content")):
            assert send(guarded, method, path, 401, headers=headers) == "AuthException"


def test_others_memories_are_not_there(guarded: TestClient, make_key: MakeKey) -> None:
    headers = {"MMT-ApiKey": make_key(memories="another", default=None)}
    assert send(guarded, "GET", "/memories", headers=headers) == []
    for method in ("GET", "DELETE"):
        assert send(guarded, method, f"/memories/{MANUAL}", 404, headers=headers) == "NotFoundException"
    query = {"q": "eins", "source": "de", "target": "en", "hints": MANUAL}
    assert send(guarded, "GET", "/translate", 404, params=query, headers=headers) == "NotFoundException"
    path = f"/memories/{MANUAL}/content"
    assert send(guarded, "POST", path, 404, json=content(), headers=headers) == "NotFoundException"
