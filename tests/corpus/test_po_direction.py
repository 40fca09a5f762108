"""Which way round catalogues are read, and catalogues of keys."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.corpus.labels import LabelsConfig
from nearmt.corpus.mo import read_mo
from nearmt.corpus.po import po_document, read_po
from nearmt.corpus.po_direction import is_symbolic
from nearmt.corpus.report import Report, Request
from nearmt.corpus.stop_words import hits
from nearmt.errors import ConfigError, InputError

DE_EN, EN_DE = Request("de", "en"), Request("en", "de")
#: English messages with their German translations.
SENTENCES = [
    ("The pump is not ready.", "Die Pumpe ist nicht bereit."),
    ("Open the valve and wait.", "Öffnen Sie das Ventil und warten Sie."),
    ("Do you want to delete this filter?", "Möchten Sie diesen Filter löschen?"),
    ("All of the values were saved.", "Alle Werte wurden gespeichert."),
]
TINY = [("Pump", "Pumpe")]
KEYS = [("pump.state.ready", "Bereit"), ("pump_state_off", "Aus"), ("saveButton", "Speichern"), ("cancel", "Abbrechen")]


def catalogue(folder: Path, messages: list[tuple[str, str]], *header: str, name: str = "app.po") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    head = "".join(f'"{field}\\n"\n' for field in header)
    entries = "".join(f'\nmsgid "{source}"\nmsgstr "{target}"\n' for source, target in messages)
    path.write_text(f'msgid ""\nmsgstr ""\n{head}{entries}', encoding="utf-8")
    return path


def swapped(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(target, source) for source, target in messages]


def read(path: Path, request: Request, report: Report | None = None) -> list[tuple[str, str]]:
    pairs: list[Pair] = list(read_po(path, request, report or Report(strict=True)))
    return [(pair.source, pair.target) for pair in pairs]


@pytest.mark.parametrize(
    "header",
    [
        "Language: de",
        "Language-Code: de_AT",
        "X-Language: de",
        "X-Poedit-Language: German",
        "Language-Team: German <team@example.org>",
        "Language-Team: Deutsch (https://example.org/projects/7/de/)",
        "Language-Team: <de@example.org>",
    ],
)
def test_the_header_names_the_language(header: str, tmp_path: Path) -> None:
    path = catalogue(tmp_path, TINY, header)
    assert read(path, DE_EN) == [("Pumpe", "Pump")]
    assert read(path, EN_DE) == [("Pump", "Pumpe")]


@pytest.mark.parametrize(
    "name",
    [
        *("de.po", "de_AT.po", "app.de.po", "app-de_DE.po", "app_de.po"),
        *("de/app.po", "de/LC_MESSAGES/app.po", "de_CH/LC_MESSAGES/app.po"),
    ],
)
def test_the_name_tells_the_language(name: str, tmp_path: Path) -> None:
    path = catalogue(tmp_path, TINY, "Language: ", name=name)
    assert read(path, DE_EN) == [("Pumpe", "Pump")]
    assert read(path, EN_DE) == [("Pump", "Pumpe")]


@pytest.mark.parametrize("messages", [SENTENCES, swapped(SENTENCES)], ids=["English msgid", "German msgid"])
def test_the_texts_tell_the_direction(messages: list[tuple[str, str]], tmp_path: Path) -> None:
    path = catalogue(tmp_path, messages)
    assert read(path, DE_EN) == swapped(SENTENCES)
    assert read(path, EN_DE) == SENTENCES


def test_a_catalogue_of_which_nothing_is_known_is_an_error(tmp_path: Path) -> None:
    path, report = catalogue(tmp_path, TINY), Report()
    assert read(path, DE_EN, report) == []
    (problem,) = report.problems
    assert "\n" not in problem and "add 'Language: en'" in problem and "file-languages" in problem
    with pytest.raises(InputError, match="its texts do not tell"):
        read(path, DE_EN)
    assert read(path, Request()) == TINY  # no direction is asked for


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_label_that_the_texts_contradict_is_an_error(language: str, tmp_path: Path) -> None:
    """German msgstr that are labelled as English, and the other way round."""
    messages = SENTENCES if language == "en" else swapped(SENTENCES)
    path, report = catalogue(tmp_path, messages * 2, f"Language: {language}"), Report()
    assert read(path, DE_EN, report) == []
    assert f"names '{language}' as its language" in report.problems[0] and "\n" not in report.problems[0]
    given = "en:de" if language == "en" else "de:en"
    assert given in report.problems[0]
    assert read(path, Request("de", "en", labels=LabelsConfig(given))) == swapped(SENTENCES) * 2


def test_texts_of_one_language_on_both_sides_are_no_translations(tmp_path: Path) -> None:
    """Catalogues like en_GB only adapt some messages."""
    report = Report(strict=True)
    longer = [(source, source.replace("Do you", "Would you")) for source, _ in SENTENCES]
    assert read(catalogue(tmp_path, longer * 2, "Language: en_GB"), DE_EN, report) == []
    assert (
        read(catalogue(tmp_path, [("Pump", "Pump"), ("Color", "Colour"), ("Off", "Off")], "Language: en_GB"), DE_EN)
        == []
    )
    assert report.skipped == {"catalogues of other languages": 1}


@pytest.mark.parametrize(("given", "expected"), [("en:de", ("Pumpe", "Pump")), ("de:en", ("Pump", "Pumpe"))])
def test_given_languages_overrule_the_file(given: str, expected: tuple[str, str], tmp_path: Path) -> None:
    for header in ("Language: fr", "Language: de", "X-Source-Language: it"):
        path = catalogue(tmp_path, TINY, header)
        assert read(path, Request("de", "en", labels=LabelsConfig(given))) == [expected]


@pytest.mark.parametrize("text", ["de", "de:", "de:en:fr", ":en", "de en", "../x:en", ""])
def test_languages_that_are_not_two_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="file-languages"):
        LabelsConfig(text)


def test_a_language_is_found_among_other_header_lines(tmp_path: Path) -> None:
    path = catalogue(tmp_path, TINY, "Language-Team: LANGUAGE <LL@li.org>", "Project-Id-Version: de", name="x/y.po")
    assert read(path, DE_EN, Report()) == []


# Keys


def test_keys_are_not_learnt(tmp_path: Path) -> None:
    report = Report(strict=True)
    path = catalogue(tmp_path, [*KEYS, ("The pump is off", "Die Pumpe ist aus")], "Language: de")
    assert read(path, DE_EN, report) == [("Die Pumpe ist aus", "The pump is off")]
    assert report.skipped == {"symbolic msgids": 4}
    assert read(catalogue(tmp_path, KEYS), DE_EN) == []  # needs no language


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["app.title", "app.save", "app.off"], True),
        (["SAVE_BUTTON", "ERROR_404", "CANCEL_ALL"], True),
        (["description_detailed", "title", "saveAll", "a_b"], True),
        (["app:title", "menu/file", "log-in"], True),
        (["Save", "Cancel", "Log in", "e-mail"], False),
        (["SAVE", "OK", "URL"], False),
        (["Save", "Cancel", "Delete", "manage.py", "settings.py"], False),
        (["app.title", "app.save"], False),
        ([], False),
    ],
)
def test_catalogues_of_keys_are_told_from_texts(sources: list[str], expected: bool) -> None:
    assert is_symbolic(sources) is expected


def test_compiled_catalogues_are_read_like_others(tmp_path: Path) -> None:
    def compiled(messages: list[tuple[str, str]]) -> Path:
        strings = [text.encode() + b"\0" for pair in zip(*messages, strict=True) for text in pair]
        offset, offsets = 28 + 8 * len(strings), []
        for text in strings:
            offsets += [len(text) - 1, offset]
            offset += len(text)
        head = struct.pack("<7I", 0x950412DE, 0, len(messages), 28, 28 + 8 * len(messages), 0, 0)
        path = tmp_path / "app.mo"
        path.write_bytes(head + struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(strings))
        return path

    for messages in (SENTENCES, swapped(SENTENCES)):
        found = list(read_mo(compiled(messages), DE_EN, Report(strict=True)))
        assert [(pair.source, pair.target) for pair in found] == swapped(SENTENCES)
    report = Report(strict=True)
    assert list(read_mo(compiled(KEYS), DE_EN, report)) == [] and report.skipped == {"symbolic msgids": 4}


# Documents


def test_a_document_that_is_the_wrong_way_round_is_refused(tmp_path: Path) -> None:
    untranslated = [(source, "") for source, _ in SENTENCES] * 2
    path = catalogue(tmp_path, untranslated)
    with pytest.raises(InputError, match="its msgid look like 'en', the model translates from 'de'"):
        po_document(path, DE_EN, Report())
    assert len(list(po_document(path, EN_DE, Report()).parts)) > 8
    given = Request("de", "en", labels=LabelsConfig("de:en"))
    assert len(list(po_document(path, given, Report()).parts)) > 8
    with pytest.raises(InputError, match="file-languages is en:de, the model translates de to en"):
        po_document(path, Request("de", "en", labels=LabelsConfig("en:de")), Report())


@pytest.mark.parametrize("name", ["fr/LC_MESSAGES/app.po", "app.po"])
def test_a_document_of_another_language_is_refused(name: str, tmp_path: Path) -> None:
    path = catalogue(tmp_path, TINY, *["X-Poedit-Language: French"] * (name == "app.po"), name=name)
    with pytest.raises(InputError, match="is a catalogue of 'fr', the model translates into 'en'"):
        po_document(path, DE_EN, Report())


def test_keys_of_a_document_are_left_alone(tmp_path: Path) -> None:
    report = Report()
    path = catalogue(tmp_path, [(key, "") for key, _ in KEYS] + [("Die Pumpe ist aus", "")], "Language: en")
    parts = list(po_document(path, DE_EN, report).parts)
    assert [unit.source for part in parts for unit in part.units] == [("Die Pumpe ist aus",)]
    assert "".join(part.raw for part in parts) == path.read_text(encoding="utf-8")
    assert report.problems == [f"{path}: 4 symbolic msgids are keys, not texts, and were left alone"]


# Words


@pytest.mark.parametrize(
    ("text", "first", "second", "expected"),
    [
        ("The pump is ready", "en", "de", (2, 0)),
        ("Die Pumpe ist über dem Ventil", "en", "de", (0, 4)),
        ("Pompe prête à l’emploi", "fr", "de", (2, 0)),
        ("Насос готов", "en", "ru", (0, 2)),
        ("Hello насос", "uk", "en_GB", (1, 1)),
        ("in an", "en", "de", (0, 0)),
        ("qwrt 123", "en", "de", (0, 0)),
        ("the", "en", "xx", (0, 0)),
    ],
)
def test_words_speak_for_a_language(text: str, first: str, second: str, expected: tuple[int, int]) -> None:
    assert hits([text], first, second) == expected
