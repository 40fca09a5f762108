"""Which of several models translates a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nearmt.errors import ConfigError
from nearmt.serve.errors import Conflict
from nearmt.serve.models import Models


def model(source: str, target: str, fingerprint: str = "f") -> Any:
    return SimpleNamespace(language_pair=(source, target), fingerprint=fingerprint, name=f"{source}-{target}")


def manifest(source: str, target: str, fingerprint: str = "f") -> Any:
    return SimpleNamespace(source_lang=source, target_lang=target, fingerprint=fingerprint, model="m", adapter=None)


MODELS = Models([model("de", "en"), model("fr", "en"), model("en", "deu_Latn"), model("de-AT", "en", "g")])


@pytest.mark.parametrize(
    ("source", "target", "texts", "found"),
    [
        ("de", "en", [], "de-en"),
        ("DE_ch", "en-US", [], "de-en"),
        ("fr", None, [], "fr-en"),
        (None, "de", [], "en-deu_Latn"),
        (None, "en", ["le moteur est sur la pompe"], "fr-en"),
        (None, "en", ["der Motor", "ist auf der Pumpe"], "de-en"),
        (None, None, ["the motor is on the pump"], "en-deu_Latn"),
        (None, "en", ["123"], "de-en"),
    ],
)
def test_languages_that_are_left_open_are_told_by_the_texts(
    source: str | None, target: str | None, texts: list[str], found: str
) -> None:
    assert MODELS.find(source, target, texts).name == found


def test_unknown_directions_are_refused_and_known_ones_named() -> None:
    assert MODELS.directions() == [("de", "en"), ("fr", "en"), ("en", "de")]
    with pytest.raises(ConfigError, match="no model translates fr to de; known: de to en, fr to en, en to de"):
        MODELS.find("fr", "de")
    with pytest.raises(ConfigError, match="no model"):
        Models([])


def test_a_memory_goes_with_its_model() -> None:
    assert MODELS.of("mine", manifest("de-AT", "en", "g")).name == "de-AT-en"
    for other in (manifest("de", "en", "x"), manifest("en", "de")):
        with pytest.raises(Conflict, match="memory 'mine': was built with model 'm'"):
            MODELS.of("mine", other)
