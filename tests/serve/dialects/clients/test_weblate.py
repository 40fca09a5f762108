"""Weblate's own classes for machine translation, unchanged, in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.serve.dialects.clients.conftest import SOURCE, TARGET, RunningServer
from tools.service_clients import weblate_python

SCRIPT = Path(__file__).with_name("weblate_client.py")
VALVE = "Öffnen Sie das Hauptventil."
MARKED = 'Der <b>Gießplan</b> "%(name)s" hat {count} Einträge & %d Fehler.'

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def found(server: RunningServer) -> Any:
    """What each class gets."""
    command = [str(weblate_python()), str(SCRIPT), server.address, server.key, VALVE, SOURCE, MARKED]
    environment = {"DJANGO_SETTINGS_MODULE": "weblate_settings", "PYTHONPATH": str(SCRIPT.parent)}
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["libretranslate", "deepl", "modernmt", "apertium"])
def test_a_class_translates_with_the_memory(found: Any, name: str) -> None:
    ((text, _),) = found[name][SOURCE]
    assert text == TARGET
    ((text, _),) = found[name][VALVE]
    assert "master valve" in text


@pytest.mark.parametrize("name", ["libretranslate", "deepl", "modernmt", "apertium"])
def test_placeholders_survive(found: Any, name: str) -> None:
    ((text, _),) = found[name][MARKED]
    for placeholder in ("%(name)s", "{count}", "%d", "<b>", "</b>"):
        assert text.count(placeholder) == 1, text
    assert "[X" not in text and "<x" not in text and "&amp;" not in text


def test_matches_of_the_memory_have_their_quality(found: Any) -> None:
    assert [TARGET, 100] in found["tmserver"][SOURCE]
    assert all(quality >= 10 for _, quality in found["tmserver"][SOURCE])


@pytest.mark.parametrize("name", ["libretranslate", "deepl", "modernmt"])
def test_a_wrong_key_is_seen_when_settings_are_saved(found: Any, name: str) -> None:
    assert "40" in found["refused"][name]


def test_glossaries(found: Any) -> None:
    assert "chief valve" in found["glossary"]
    assert "chief valve" in found["memory glossary"]


def test_an_error_has_its_message(found: Any) -> None:
    assert "characters" in found["too large"]
