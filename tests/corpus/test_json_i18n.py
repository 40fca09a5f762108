"""JSON and ARB files of texts: their strings are units, everything else stays byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import LimitsConfig
from nearmt.corpus.document import FillingOrigin, Unit
from nearmt.corpus.json_i18n import arb_document, json_document
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from tests.corpus.files import OpenDocument, fill_file, own_text, unchanged_or_refused, with_text, write_file
from tests.corpus.test_json_text import VALUES

REQUEST = Request("de", "en")
I18NEXT = """{
  "title" : "Einstellungen",
  "count_one": "{{count}} Datei",	"count_other": "{{count}} Dateien",
  "nested": {"deep": ["$t(title) öffnen", 3, null, ""], "on": true},
  "slash": "a\\/b \\u00fc"
}
"""


def units(path: Path, opener: OpenDocument = json_document, request: Request = REQUEST) -> list[Unit]:
    return [unit for part in opener(path, request, Report(strict=True)).parts for unit in part.units]


def test_every_string_is_a_unit(tmp_path: Path) -> None:
    found = units(write_file(tmp_path, I18NEXT, "de.json"))
    assert [(unit.source[0], unit.line) for unit in found] == [
        ("Einstellungen", 2),
        ("{{count}} Datei", 3),
        ("{{count}} Dateien", 3),
        ("$t(title) öffnen", 4),
        ("", 4),
        ("a/b ü", 5),
    ]


def test_only_strings_are_replaced(tmp_path: Path) -> None:
    path = write_file(tmp_path, I18NEXT, "de.json")
    filled = fill_file(json_document, path, with_text('say "x"\nü'), REQUEST).read_text(encoding="utf-8")
    new = '"say \\"x\\"\\nü"'
    assert filled == (
        f'{{\n  "title" : {new},\n  "count_one": {new},\t"count_other": {new},\n'
        f'  "nested": {{"deep": [{new}, 3, null, {new}], "on": true}},\n  "slash": {new}\n}}\n'
    )


def test_a_file_in_ascii_stays_in_ascii(tmp_path: Path) -> None:
    path = write_file(tmp_path, '{"a": "T\\u00fcr", "b": "x"}', "de.json")
    assert fill_file(json_document, path, with_text("ä😀"), REQUEST).read_bytes() == (
        b'{"a": "\\u00e4\\ud83d\\ude00", "b": "\\u00e4\\ud83d\\ude00"}'
    )


@given(VALUES, st.sampled_from([None, 2, "\t"]), st.booleans(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_bytes_stay(
    tmp_path_factory: pytest.TempPathFactory, value: Any, indent: Any, ascii_only: bool, encoding: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    path = write_file(tmp_path_factory.getbasetemp(), text.encode(encoding), "any.json")
    for opener in (json_document, arb_document):
        assert fill_file(opener, path, lambda _: None, Request()).read_bytes() == path.read_bytes()
        assert fill_file(opener, path, own_text, Request()).read_bytes() == path.read_bytes()


@given(st.binary(max_size=40) | st.text(st.sampled_from('{}[]:,"\\ua1 \n'), max_size=20).map(str.encode))
def test_any_bytes_are_a_document_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = write_file(tmp_path_factory.getbasetemp(), data, "bytes.json")
    assert unchanged_or_refused(json_document, path, REQUEST)
    assert unchanged_or_refused(arb_document, path, REQUEST)


def test_strings_that_cannot_be_read_are_kept(tmp_path: Path) -> None:
    data = b'{"a": "\\ud800", "b": "gr\xfcn", "c": "' + b"x" * (1 << 20) + b'", "d": "ok"}'
    path = write_file(tmp_path, data, "de.json")
    report = Report()
    parts = list(json_document(path, Request(limits=LimitsConfig(max_unit=1)), report).parts)
    assert [unit.source for part in parts for unit in part.units] == [("ok",)]
    assert "".join(part.raw for part in parts).encode("utf-8", "surrogateescape") == data
    assert report.problem_count == 3 and "a string of more than 1 MiB" in report.problems[2]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, b" " * (17 << 20), "de.json")
    with pytest.raises(InputError, match="more than 16 MiB"):
        units(path, request=Request(limits=LimitsConfig(max_unit=1)))


ARB = """{
  "@@locale": "de",
  "@@x-note": "von Hand",
  "greeting": "Hallo {name}",
  "@greeting": {"description": "Gruß", "placeholders": {"name": {"type": "String", "example": "Eva"}}},
  "files": "{count, plural, =1{eine Datei} other{{count} Dateien}}"
}
"""


def test_metadata_of_arb_stay(tmp_path: Path) -> None:
    path = write_file(tmp_path, ARB, "app_de.arb")
    assert [unit.source[0] for unit in units(path, arb_document)] == [
        "Hallo {name}",
        "{count, plural, =1{eine Datei} other{{count} Dateien}}",
    ]
    filled = fill_file(arb_document, path, with_text("T", FillingOrigin.COPY), REQUEST).read_text(encoding="utf-8")
    lines, before = filled.splitlines(), ARB.splitlines()
    assert [number for number in range(len(lines)) if lines[number] != before[number]] == [1, 3, 5]
    assert lines[1] == '  "@@locale": "en",'


def test_the_language_of_angular_files_is_set(tmp_path: Path) -> None:
    content = '{"locale": "de-AT", "translations": {"1": "Hallo", "locale": "de"}}'
    path = write_file(tmp_path, content, "messages.de.json")
    assert [unit.source for unit in units(path)] == [("Hallo",), ("de",)]
    filled = fill_file(json_document, path, with_text("T"), REQUEST).read_text(encoding="utf-8")
    assert filled == '{"locale": "en", "translations": {"1": "T", "locale": "T"}}'
    path = write_file(tmp_path, '{"locale": "Sprache"}', "app.json")
    assert [unit.source for unit in units(path)] == [("Sprache",)]


def test_an_arb_of_another_language_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, ARB.replace('"de"', '"fr_CA"'), "app.arb")
    with pytest.raises(InputError, match=r"line 2: is in 'fr_CA', the model translates from 'de'"):
        units(path, arb_document)
    assert len(units(path, arb_document, Request())) == 2
