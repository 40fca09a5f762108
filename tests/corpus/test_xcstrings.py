"""String catalogues of Xcode: the target language is filled in, everything else stays byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import LimitsConfig
from nearmt.corpus.document import Filling, FillingOrigin, Unit
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xcstrings import xcstrings_document
from nearmt.errors import InputError
from tests.corpus.files import fill_file, own_text, unchanged_or_refused, with_text, write_file
from tests.corpus.test_json_text import VALUES

REQUEST = Request("de", "en")


def unit_of(value: str, state: str = "translated") -> dict[str, Any]:
    return {"stringUnit": {"state": state, "value": value}}


def plural(**forms: str) -> dict[str, Any]:
    return {"variations": {"plural": {form: unit_of(text) for form, text in forms.items()}}}


def catalogue(**entries: Any) -> str:
    """A catalogue in the layout of Xcode."""
    whole = {"sourceLanguage": "de", "strings": entries, "version": "1.0"}
    return json.dumps(whole, ensure_ascii=False, indent=2, separators=(",", " : ")).replace("{}", "{\n\n    }")


def written(folder: Path, **entries: Any) -> Path:
    return write_file(folder, catalogue(**entries), "Localizable.xcstrings")


def units(path: Path, report: Report | None = None, request: Request = REQUEST) -> list[Unit]:
    document = xcstrings_document(path, request, report or Report(strict=True))
    return [unit for part in document.parts for unit in part.units]


def filled(path: Path, text: str = "T", origin: FillingOrigin = FillingOrigin.MACHINE) -> str:
    choose = with_text(text, origin)
    missing = fill_file(xcstrings_document, path, lambda unit: None if unit.target else choose(unit), REQUEST)
    return missing.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"localizations": {"en": unit_of("T", "needs_review")}}),
        (
            {"extractionState": "manual", "localizations": {"fr": unit_of("F")}},
            {"extractionState": "manual", "localizations": {"en": unit_of("T", "needs_review"), "fr": unit_of("F")}},
        ),
        (
            {"comment": "c", "shouldTranslate": True},
            {"comment": "c", "localizations": {"en": unit_of("T", "needs_review")}, "shouldTranslate": True},
        ),
        (
            {"localizations": {"ar": unit_of("A"), "de": unit_of("Text")}},
            {"localizations": {"ar": unit_of("A"), "de": unit_of("Text"), "en": unit_of("T", "needs_review")}},
        ),
        (
            {"localizations": {"de": plural(one="Datei", other="Dateien")}},
            {
                "localizations": {
                    "de": plural(one="Datei", other="Dateien"),
                    "en": {
                        "variations": {
                            "plural": {"one": unit_of("T", "needs_review"), "other": unit_of("T", "needs_review")}
                        }
                    },
                }
            },
        ),
        (
            {"localizations": {"en": unit_of("", "new")}},
            {"localizations": {"en": unit_of("T", "needs_review")}},
        ),
        ({"localizations": {"en": unit_of("done")}}, {"localizations": {"en": unit_of("done")}}),
    ],
)
def test_a_localization_is_filled_in_as_xcode_would_write_it(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    path = written(tmp_path, Anfang=before, Rest={"shouldTranslate": False})
    assert filled(path) == catalogue(Anfang=after, Rest={"shouldTranslate": False})


def test_substitutions_and_devices_are_mirrored(tmp_path: Path) -> None:
    source = {
        "stringUnit": {"state": "translated", "value": "%#@n@ gefunden"},
        "substitutions": {
            "n": {"argNum": 1, "formatSpecifier": "lld", **plural(one="%arg Datei", other="%arg Dateien")}
        },
    }
    devices = {"variations": {"device": {"iphone": unit_of("Tippen"), "other": plural(other="Klicken")}}}
    path = written(tmp_path, a={"localizations": {"de": source}}, b={"localizations": {"de": devices}})
    texts = ["%#@n@ gefunden", "%arg Datei", "%arg Dateien", "Tippen", "Klicken"]
    assert [unit.source[0] for unit in units(path)] == texts
    entries = json.loads(filled(path))["strings"]
    en = entries["a"]["localizations"]["en"]
    assert en["substitutions"]["n"]["argNum"] == 1 and en["stringUnit"]["value"] == "T"
    assert en["substitutions"]["n"]["variations"]["plural"]["one"] == unit_of("T", "needs_review")
    device = entries["b"]["localizations"]["en"]["variations"]["device"]
    assert device["other"]["variations"]["plural"]["other"] == unit_of("T", "needs_review")
    assert entries["a"]["localizations"]["de"] == source


def test_plural_forms_that_the_source_lacks(tmp_path: Path) -> None:
    """Xcode writes the categories of the target language; they are like `other`."""
    target = {"variations": {"plural": {"few": unit_of("", "new"), "one": unit_of("x"), "other": unit_of("", "new")}}}
    path = written(tmp_path, a={"localizations": {"de": plural(one="eins", other="viele"), "en": target}})
    assert [(unit.source[0], unit.target) for unit in units(path)] == [("viele", ""), ("eins", "x"), ("viele", "")]
    found = json.loads(filled(path))["strings"]["a"]["localizations"]["en"]["variations"]["plural"]
    assert found == {"few": unit_of("T", "needs_review"), "one": unit_of("x"), "other": unit_of("T", "needs_review")}


def test_what_is_not_to_be_translated(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        a={"shouldTranslate": False},
        b={"extractionState": "stale"},
        c={"extractionState": "manual"},
        d={"localizations": {"de": unit_of("Text"), "en": unit_of("text")}},
    )
    assert [(unit.source[0], unit.target, unit.line) for unit in units(path)] == [("c", "", 10), ("Text", "text", 13)]


@pytest.mark.parametrize(
    ("origin", "state"),
    [
        (FillingOrigin.MACHINE, "needs_review"),
        (FillingOrigin.COPY, "needs_review"),
        (FillingOrigin.MEMORY, "translated"),
    ],
)
def test_states(tmp_path: Path, origin: FillingOrigin, state: str) -> None:
    path = written(tmp_path, a={})
    assert (
        json.loads(filled(path, origin=origin))["strings"]["a"]["localizations"]["en"]["stringUnit"]["state"] == state
    )


def test_other_layouts(tmp_path: Path) -> None:
    whole = {"version": "1.0", "sourceLanguage": "de", "strings": {"a": {}, "b": {"localizations": {}}}}
    expected = json.loads(json.dumps(whole))
    for entry in ("a", "b"):
        expected["strings"][entry]["localizations"] = {"en": unit_of("ü", "needs_review")}
    for text, end in ((json.dumps(whole), ""), (json.dumps(whole, indent="\t").replace("\n", "\r\n"), "\r\n")):
        path = write_file(tmp_path, text + end, "other.xcstrings")
        new = fill_file(xcstrings_document, path, with_text("ü"), REQUEST).read_bytes().decode()
        assert json.loads(new) == expected and new.endswith("}" + end)
        assert new.count("\n") == new.count("\r\n") and ("\n" in new) == bool(end)
        assert not end or '\r\n\t\t\t"localizations": {\r\n\t\t\t\t"en": {\r\n' in new


def test_the_code_of_the_target_is_that_of_other_entries(tmp_path: Path) -> None:
    path = written(tmp_path, a={}, b={"localizations": {"en-GB": unit_of("x")}})
    assert '"en-GB" : {' in filled(path).partition('"b"')[0]


NAMES = st.sampled_from(
    ["localizations", "de", "en", "stringUnit", "variations", "plural", "one", "value", "state", "x"]
)
ENTRIES = st.recursive(VALUES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=15)


@given(st.dictionaries(st.text(max_size=4), ENTRIES, max_size=3), st.sampled_from([None, 2]), st.booleans())
def test_bytes_stay(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps({"sourceLanguage": "de", "strings": entries}, indent=indent, ensure_ascii=ascii_only)
    path = write_file(tmp_path_factory.getbasetemp(), text, "any.xcstrings")
    assert unchanged_or_refused(xcstrings_document, path, REQUEST)
    assert unchanged_or_refused(xcstrings_document, path, Request())

    def fill(unit: Unit) -> Filling | None:
        return own_text(unit) if unit.source[0] else None

    # What is filled in is there when the file is read again, and other languages are as before.
    document = xcstrings_document(path, REQUEST, Report())
    again = path.with_name("again.xcstrings")
    again.write_text(
        "".join(part.filled([fill(unit) for unit in part.units]) for part in document.parts), encoding="utf-8"
    )
    strings = json.loads(again.read_text(encoding="utf-8"))["strings"]
    assert list(strings) == list(entries)
    for unit in units(again, Report()):
        assert unit.target or not unit.source[0]


def test_a_bad_entry_does_not_affect_others(tmp_path: Path) -> None:
    half = catalogue(a={"localizations": {"de": unit_of("HALF")}}, b=3, c={}, d={"localizations": []})
    text = half.replace("HALF", "\\ud800")
    report = Report()
    path = write_file(tmp_path, text, "a.xcstrings")
    assert [unit.source[0] for unit in units(path, report)] == ["c"]
    assert [problem.split(": ")[1][:5] for problem in report.problems] == ["a str", "not a", "not a"]
    long = written(tmp_path, a={"comment": "x" * (1 << 20)}, b={})
    report = Report()
    assert len(units(long, report, Request("de", "en", limits=LimitsConfig(max_unit=1)))) == 1
    assert "an entry of more than 1 MiB" in report.problems[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"strings": {}}', "is no string catalogue"),
        ('{"sourceLanguage": "de", "strings": []}', "is no string catalogue"),
        ("[]", "is no string catalogue"),
        ('{"sourceLanguage": "fr", "strings": {}}', "is written in 'fr', the model translates from 'de'"),
        ('{"sourceLanguage": "de", "strings": {"a": ', "get a complete one"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        units(write_file(tmp_path, text, "a.xcstrings"))
