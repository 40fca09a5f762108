"""Apertium APy."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.dialects.conftest import MakeKey

HEADERS = {"X-Nearmt-Memory": "manual"}


@pytest.mark.parametrize("pair", ["de|en", "deu|eng", "de_AT|en_US"])
def test_a_pair_has_two_or_three_letters_and_regions(shared: TestClient, pair: str) -> None:
    query = {"q": "die pumpe prüfen", "langpair": pair, "markUnknown": "no"}
    response = shared.get("/apertium/translate", params=query, headers=HEADERS)
    found = {"translatedText": "check the pump"}
    assert response.json() == {"responseData": found, "responseDetails": None, "responseStatus": 200}
    assert shared.post("/apertium/translate", data=query, headers=HEADERS).json() == response.json()


@pytest.mark.parametrize(
    ("query", "explanation"),
    [
        ({"langpair": "de|en"}, "Missing argument q"),
        ({"q": "eins"}, "Missing argument langpair"),
        ({"q": "eins", "langpair": "de-en"}, "That pair is invalid, use e.g. deu|eng"),
        ({"q": "eins", "langpair": "de|fr"}, "That pair is not installed"),
        ({"q": "eins", "langpair": "en|de"}, "That pair is not installed"),
    ],
)
def test_wrong_requests_have_the_words_of_apertium(shared: TestClient, query: dict[str, str], explanation: str) -> None:
    response = shared.get("/apertium/translate", params=query)
    found = response.json()
    assert (response.status_code, found["code"], found["status"]) == (400, 400, "error")
    assert (found["message"], found["explanation"]) == ("Bad Request", explanation)
    # What OmegaT and Weblate read.
    assert (found["responseStatus"], found["responseDetails"]) == (400, explanation)


@pytest.mark.parametrize("path", ["listPairs", "list", "list?q=pairs"])
def test_pairs_are_listed(shared: TestClient, path: str) -> None:
    found = shared.get(f"/apertium/{path}").json()
    assert found["responseData"] == [{"sourceLanguage": "de", "targetLanguage": "en"}]


def test_there_are_no_analysers(shared: TestClient) -> None:
    assert shared.get("/apertium/list?q=analyzers").json() == {}


def test_languages_are_identified_and_named(shared: TestClient) -> None:
    found: dict[str, Any] = shared.get("/apertium/identifyLang", params={"q": "die pumpe und der motor"}).json()
    assert max(found, key=lambda code: found[code]) == "de"
    names = shared.get("/apertium/listLanguageNames", params={"locale": "en", "languages": "de fr"}).json()
    assert names == {"de": "German", "fr": "French"}
    assert shared.get("/apertium/listLanguageNames").json() == {"de": "German", "en": "English"}


def test_the_key_is_a_parameter(guarded: TestClient, make_key: MakeKey) -> None:
    key = make_key()
    query = {"q": "die pumpe prüfen", "langpair": "de|en"}
    found = guarded.get("/apertium/translate", params={**query, "key": key}).json()
    assert found["responseData"] == {"translatedText": "check the pump"}
    for wrong in ({}, {"key": "nearmt_wrong"}):
        for path in ("translate", "identifyLang", "listPairs", "list", "listLanguageNames"):
            response = guarded.get(f"/apertium/{path}", params=query | wrong)
            assert (response.status_code, response.json()["code"]) == (401, 401)
