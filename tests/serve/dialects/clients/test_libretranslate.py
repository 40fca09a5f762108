"""The official Python client of LibreTranslate, unchanged."""

from __future__ import annotations

import json
import urllib.request
from urllib.error import HTTPError

import pytest

from tests.serve.dialects.clients.conftest import SOURCE, TARGET, RunningServer

pytestmark = pytest.mark.services


def test_texts_languages_and_detection(server: RunningServer) -> None:
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(server.address, server.key)
    assert client.translate(SOURCE, "de", "en") == TARGET
    assert client.translate(SOURCE, "auto", "en") == TARGET
    assert {language["code"]: language["targets"] for language in client.languages()} == {"de": ["en"], "en": []}
    assert client.detect(SOURCE)[0]["language"] == "de"


def test_a_key_without_a_memory_has_the_model_alone(server: RunningServer) -> None:
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(server.address, server.plain_key)
    found = client.translate(SOURCE, "de", "en")
    assert found and found != TARGET


def test_a_wrong_key_is_refused(server: RunningServer) -> None:
    from libretranslatepy import LibreTranslateAPI

    with pytest.raises(HTTPError) as found:
        LibreTranslateAPI(server.address, "wrong").translate(SOURCE, "de", "en")
    assert found.value.code == 403
    assert "error" in json.load(found.value)


def test_a_suggestion_is_used_at_once(server: RunningServer) -> None:
    from libretranslatepy import LibreTranslateAPI

    source, target = "Der Gartenzwerg hält die Gießkanne.", "The garden gnome is holding the can."
    body = json.dumps({"q": source, "s": target, "source": "de", "target": "en", "api_key": server.key}).encode()
    request = urllib.request.Request(f"{server.address}/suggest", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        assert json.load(response) == {"success": True}
    assert LibreTranslateAPI(server.address, server.key).translate(source, "de", "en") == target
