"""Weblate's own classes for machine translation, unchanged. Runs in Weblate's environment; prints what it gets as JSON.

Each class saves its settings as a person would (with Weblate's request in another direction), lists languages, and
translates units whose placeholders it replaces by marks of its own.
"""

# mypy: ignore-errors
# ruff: noqa: E402
from __future__ import annotations

import json
import sys
from unittest.mock import MagicMock

# C libraries that draw pictures; no translation needs them.
for _name in ("cairo", "gi", "gi.repository"):
    sys.modules[_name] = MagicMock()

import django

django.setup()

from django.core.exceptions import ValidationError
from weblate.checks.tests.test_checks import MockLanguage, MockUnit
from weblate.machinery.apertium import ApertiumAPYTranslation
from weblate.machinery.base import MachineTranslationError
from weblate.machinery.deepl import DeepLTranslation
from weblate.machinery.libretranslate import LibreTranslateTranslation
from weblate.machinery.modernmt import ModernMTTranslation
from weblate.machinery.tmserver import TMServerTranslation

FLAGS = "python-format,python-brace-format,xml-text"


def unit_of(text: str) -> MockUnit:
    unit = MockUnit(code="en", source=text, flags=FLAGS)
    unit.translation.component.source_language = MockLanguage("de")
    # What Weblate's database would tell.
    unit.plural_map = [text]
    return unit


def tried(kind: type, settings: dict, texts: list[str]) -> dict:
    """What a class gets: translations by text, with their quality; and whether its settings can be saved."""
    machine = kind(settings)
    machine.delete_cache()
    machine.validate_settings()
    source, target = machine.get_languages(MockLanguage("de"), MockLanguage("en"))
    found = machine._translate(source, target, [(text, unit_of(text)) for text in texts], threshold=10)
    return {text: [(item["text"], item["quality"]) for item in items] for text, items in found.items()}


def refused(kind: type, settings: dict) -> str:
    """What a wrong key gives when settings are saved."""
    try:
        kind(settings).validate_settings()
    except ValidationError as error:
        return str(error)
    return ""


def with_glossary(settings: dict, text: str) -> str:
    """A translation with a glossary that Weblate sends."""
    machine = DeepLTranslation(settings)
    machine.delete_cache()
    machine.create_glossary("DE", "EN", "weblate:1:DE:EN:0123", "Hauptventil\tchief valve")
    glossaries = machine.get_glossaries(use_cache=False)
    machine.get_glossary_id = lambda *_: glossaries["weblate:1:DE:EN:0123"]
    found = machine.download_multiple_translations("DE", "EN", [(text, unit_of(text))])
    machine.delete_glossary(glossaries["weblate:1:DE:EN:0123"])
    return found[text][0]["text"]


def with_memory_glossary(settings: dict, text: str) -> str:
    """The same for ModernMT, where glossaries are memories."""
    machine = ModernMTTranslation(settings)
    machine.delete_cache()
    machine.create_glossary("de", "en", "weblate:1:de:en:0123", "Hauptventil\tchief valve")
    glossaries = machine.get_glossaries(use_cache=False)
    machine.get_glossary_id = lambda *_: glossaries["weblate:1:de:en:0123"]
    (found,) = machine.download_translations("de", "en", text, unit_of(text), None)
    machine.delete_oldest_glossary()
    return found["text"]


def main(address: str, key: str, *texts: str) -> None:
    host = address.removeprefix("http://")
    settings = {
        "libretranslate": (LibreTranslateTranslation, {"url": address, "key": key}),
        "deepl": (DeepLTranslation, {"url": f"{address}/deepl/v2/", "key": key}),
        "modernmt": (ModernMTTranslation, {"url": f"{address}/mmt/", "key": key}),
        "apertium": (ApertiumAPYTranslation, {"url": f"http://key:{key}@{host}/apertium"}),
        "tmserver": (TMServerTranslation, {"url": f"http://key:{key}@{host}/tmserver"}),
    }
    found = {name: tried(kind, given, list(texts)) for name, (kind, given) in settings.items()}
    found["refused"] = {
        name: refused(settings[name][0], settings[name][1] | {"key": "wrong"})
        for name in ("libretranslate", "deepl", "modernmt")
    }
    found["glossary"] = with_glossary(settings["deepl"][1], texts[0])
    found["memory glossary"] = with_memory_glossary(settings["modernmt"][1], texts[0])
    try:
        tried(*settings["libretranslate"], ["x" * 2_000_000])
    except MachineTranslationError as error:
        found["too large"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
