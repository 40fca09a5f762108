"""LibreTranslate."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.service import Service
from tests.serve.dialects.conftest import MakeKey

HEADERS = {"X-Nearmt-Memory": "manual"}


def translate(client: TestClient, headers: dict[str, str] | None = None, **given: Any) -> Any:
    response = client.post("/translate", json={"source": "de", "target": "en", **given}, headers=headers or HEADERS)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_text_and_a_list_are_answered_alike(shared: TestClient) -> None:
    assert translate(shared, q="die pumpe prüfen") == {"translatedText": "check the pump"}
    found = translate(shared, q=["die welle reinigen", "die pumpe prüfen"])
    assert found == {"translatedText": ["clean the shaft", "check the pump"]}


def test_forms_are_read(shared: TestClient) -> None:
    form = {"q": "die pumpe prüfen", "source": "de", "target": "en"}
    response = shared.post("/translate", data=form, headers=HEADERS)
    assert response.json() == {"translatedText": "check the pump"}
    response = shared.post("/translate", data={**form, "q": ["die pumpe prüfen", "motor"]}, headers=HEADERS)
    assert response.json()["translatedText"][0] == "check the pump"


def test_the_memory_is_that_of_the_key(guarded: TestClient, make_key: MakeKey) -> None:
    with_memory, without = make_key("one"), make_key("two", default=None)
    assert translate(guarded, {"": ""}, q="die pumpe prüfen", api_key=with_memory)["translatedText"] == "check the pump"
    assert translate(guarded, {"": ""}, q="die pumpe prüfen", api_key=without)["translatedText"] != "check the pump"


def test_a_header_chooses_a_memory_or_none(guarded: TestClient, make_key: MakeKey) -> None:
    key = make_key()
    found = translate(guarded, {"X-Nearmt-Memory": "none"}, q="die pumpe prüfen", api_key=key)
    assert found["translatedText"] != "check the pump"


def test_the_language_is_detected(shared: TestClient) -> None:
    found = translate(shared, q="die pumpe prüfen", source="auto")
    assert found["detectedLanguage"]["language"] == "de"
    assert 0 <= found["detectedLanguage"]["confidence"] <= 100
    found = translate(shared, q=["die pumpe prüfen", "motor"], source="auto")
    assert [each["language"] for each in found["detectedLanguage"]] == ["de", "de"]


def test_alternatives_are_lists(shared: TestClient) -> None:
    assert isinstance(translate(shared, q="motor und welle", alternatives=2)["alternatives"], list)
    found = translate(shared, q=["motor und welle", "die pumpe"], alternatives="2")
    assert len(found["alternatives"]) == 2


def test_html_keeps_its_markup(shared: TestClient) -> None:
    found = translate(shared, q="<p>die pumpe prüfen</p><p class='a'>den deckel öffnen</p>", format="html")
    assert found["translatedText"] == "<p>check the pump</p><p class='a'>open the cover</p>"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "en", "target": "de"}, "de is not supported"),
        ({"format": "xml"}, "xml format is not supported"),
        ({"alternatives": "abc"}, "Invalid request: alternatives parameter is not a number"),
    ],
)
def test_wrong_requests_have_the_words_of_libretranslate(
    shared: TestClient, given: dict[str, Any], message: str
) -> None:
    body = {"q": "eins", "source": "de", "target": "en"} | given
    response = shared.post("/translate", json={name: value for name, value in body.items() if value is not None})
    assert (response.status_code, response.json()) == (400, {"error": message})


@pytest.mark.parametrize("body", [b"[1]", b'"x"', b"{", b'{"q": "\\ud800", "source": "de", "target": "en"}'])
def test_wrong_json_is_refused(shared: TestClient, body: bytes) -> None:
    response = shared.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()) == (400, {"error": "Invalid JSON format"})


def test_weblate_can_try_a_server_of_another_direction(shared: TestClient) -> None:
    """It sends this one request before its settings are saved; nothing else is answered so."""
    probe = {"q": ["test"], "source": "en", "target": "de", "api_key": ""}
    assert shared.post("/translate", json=probe).json() == {"translatedText": ["test"]}
    assert shared.post("/translate", json={**probe, "q": ["tests"]}).status_code == 400


def test_languages_say_what_is_supported(shared: TestClient) -> None:
    assert shared.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_detect(shared: TestClient) -> None:
    (first, *_) = shared.post("/detect", data={"q": "die pumpe und der motor"}).json()
    assert first["language"] == "de"
    assert 0 < first["confidence"] <= 100


def test_suggest_learns(guarded: TestClient, make_key: MakeKey, service: Service) -> None:
    key = make_key()
    suggestion = {"q": "der motor", "s": "the engine", "source": "de", "target": "en", "api_key": key}
    assert guarded.post("/suggest", data=suggestion).json() == {"success": True}
    assert translate(guarded, {"": ""}, q="der motor", api_key=key)["translatedText"] == "the engine"
    (match, *_) = service.matches(ANONYMOUS, "der motor", memories=["manual"])
    assert match.target == "the engine"


def test_suggest_needs_the_right_to_learn(guarded: TestClient, make_key: MakeKey) -> None:
    key = make_key(may="translate")
    suggestion = {"q": "der motor", "s": "the engine", "source": "de", "target": "en", "api_key": key}
    response = guarded.post("/suggest", data=suggestion)
    assert response.status_code == 403
    assert "may not learn" in response.json()["error"]


@pytest.mark.parametrize("key", [None, "", "nearmt_wrong"])
def test_unknown_keys_are_forbidden(guarded: TestClient, make_key: MakeKey, key: str | None) -> None:
    make_key()
    body = {"q": "eins", "source": "de", "target": "en"} | ({} if key is None else {"api_key": key})
    for path in ("/translate", "/suggest", "/detect"):
        response = guarded.post(path, json={**body, "s": "one"})
        assert response.status_code == 403
        assert list(response.json()) == ["error"]


def test_frontend_settings(client: TestClient, guarded: TestClient, make_key: MakeKey) -> None:
    found = client.get("/frontend/settings").json()
    assert found["language"]["source"]["code"] == "de"
    assert not found["keyRequired"]
    make_key()
    assert guarded.get("/frontend/settings").json()["keyRequired"]


def test_health(shared: TestClient) -> None:
    assert shared.get("/health").json() == {"status": "ok"}
