"""Tables and the files of apps, from the command line: CSV, XLSX, JSON, ARB, .strings, .xcstrings."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.documents import Filler, document, fill_document
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line
from tests.corpus.test_xlsx import Rows, members, rows_of, workbook

FAST = ("--beams", "1", "--set", "max-new-tokens=6", "--device", "cpu")
CSV = 'id;de;en\r\n1;"die ""pumpe""; groß";\r\n2;der motor;engine\r\n'
ARB = '{\n  "@@locale": "de",\n  "pump": "die pumpe",\n  "@pump": {"description": "ein Teil"}\n}\n'
JSON = '{\n  "menu": {"open": "die pumpe öffnen", "size": 3},\n  "no": null\n}\n'
STRINGS = '/* ein Teil */\n"pump" = "die pumpe";\n'
XCSTRINGS = (
    '{\n  "sourceLanguage" : "de",\n  "strings" : {\n    "die pumpe" : {\n\n    },\n'
    '    "der motor" : {\n      "localizations" : {\n        "en" : {\n          "stringUnit" : {\n'
    '            "state" : "translated",\n            "value" : "engine"\n          }\n        }\n      }\n    }\n'
    '  },\n  "version" : "1.0"\n}'
)
#: A file, and what its output must begin with and end with.
FILES = {
    "a.csv": (CSV, 'id;de;en\r\n1;"die ""pumpe""; groß";', "\r\n2;der motor;engine\r\n"),
    "a.arb": (ARB, '{\n  "@@locale": "en",\n  "pump": "', '",\n  "@pump": {"description": "ein Teil"}\n}\n'),
    "a.json": (JSON, '{\n  "menu": {"open": "', '", "size": 3},\n  "no": null\n}\n'),
    "a.strings": (STRINGS, '/* ein Teil */\n"pump" = "', '";\n'),
    "a.ftl": ("# k\npump = die pumpe\n    .key = d\n", "# k\npump = ", "\n    .key = d\n"),
    "a.xcstrings": (XCSTRINGS, XCSTRINGS[:65], XCSTRINGS[XCSTRINGS.index('    "der motor"') :]),
}
TABLE: Rows = [["Key", "German", "English"], *([n, f"die pumpe {n}", None] for n in range(30)), [31, "motor", "engine"]]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return workbook(tmp_path, {"Texte": TABLE})


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_an_app_is_filled_in(nearmt: Nearmt, store: Path, tmp_path: Path, name: str) -> None:
    text, start, end = FILES[name]
    path, out = tmp_path / name, tmp_path / f"out-{name}"
    path.write_bytes(text.encode())
    result = nearmt("translate", path, "--datastore", store, "--output", out, *FAST)
    assert result.code == 0, result.err
    assert "translated: 1" in result.err
    filled = out.read_bytes().decode()
    assert filled.startswith(start) and filled.endswith(end) and filled != text
    shown = nearmt("translate", path, "--datastore", store, *FAST)
    assert shown.out.replace("\r\n", "\n") == filled.replace("\r\n", "\n")
    units = [
        json.loads(line) for line in nearmt("translate", path, "--datastore", store, "--json", *FAST).out.splitlines()
    ]
    assert units[0]["origin"] == "machine" and units[0]["source"].startswith("die ")
    if name == "a.xcstrings":
        entry = json.loads(filled)["strings"]["die pumpe"]["localizations"]["en"]["stringUnit"]
        assert entry == {"state": "needs_review", "value": units[0]["text"]}


def test_the_columns_are_stated(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV, encoding="utf-8")
    result = nearmt("translate", path, "--datastore", store, *FAST)
    stated = "a.csv: separated by semicolons, column 2 'de' is the source, column 3 'en' the target"
    assert result.err.count(stated) == 1
    row = list(csv.reader(io.StringIO(result.out), delimiter=";"))[1]
    assert row[:2] == ["1", 'die "pumpe"; groß'] and row[2]
    assert stated in " ".join(nearmt("inspect", path, "--source-lang", "de", "--target-lang", "en").out.split())
    assert json.loads(nearmt("inspect", path, "--json").out)["notes"]


def test_tables_are_memories(nearmt: Nearmt, tiny_folder: Path, tmp_path: Path, book: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV, encoding="utf-8")
    model = ("--model", tiny_folder, "--source-lang", "de", "--target-lang", "en", "--device", "cpu")
    result = nearmt("build", path, book, *model, "--out", tmp_path / "s")
    assert result.code == 0, result.err
    assert "a.xlsx: sheet 'Texte': column B 'German' is the source" in result.err and "31 untranslated" in result.err
    pairs = [(pair.source, pair.target, pair.origin) for pair in Datastore.open(tmp_path / "s").pairs()]
    assert pairs == [("der motor", "engine", "a.csv"), ("motor", "engine", "a.xlsx")]
    assert list(read_pairs(book, source_lang="de", target_lang="en")) == [
        Pair("motor", "engine", origin="a.xlsx", metadata={"Key": "31"})
    ]


def test_a_workbook_is_filled_in(nearmt: Nearmt, store: Path, tmp_path: Path, book: Path) -> None:
    out = tmp_path / "b.xlsx"
    result = nearmt("translate", book, "--datastore", store, "--output", out, *FAST)
    assert result.code == 0, result.err
    assert "translated: 30, unchanged: 1" in result.err
    found = rows_of(out, "Texte")
    assert all(row[2] for row in found[1:]) and [row[:2] for row in found] == [row[:2] for row in TABLE]
    before, after = members(book), members(out)
    assert [name for name in before if before[name] != after[name]] == ["xl/worksheets/sheet1.xml"]
    # Nothing is left to do: the file comes back as it is.
    assert nearmt("translate", out, "--datastore", store, "--output", tmp_path / "c.xlsx", *FAST).code == 0
    assert (tmp_path / "c.xlsx").read_bytes() == out.read_bytes()


def test_a_workbook_from_python(tiny: TranslationModel, tmp_path: Path, book: Path) -> None:
    summary = fill_document(book, tmp_path / "b.xlsx", Translator(tiny))
    assert summary.counts == {"machine": 30, "kept": 1}
    assert openpyxl.load_workbook(tmp_path / "b.xlsx")["Texte"]["C2"].value


def test_a_workbook_through_pipes(
    nearmt: Nearmt, store: Path, tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nearmt("translate", book, "--datastore", store, "--output", tmp_path / "b.xlsx", *FAST).code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(book.read_bytes())))
    piped = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", piped)
    assert nearmt("translate", "-", "--format", "xlsx", "--datastore", store, *FAST).code == 0
    (tmp_path / "c.xlsx").write_bytes(piped.buffer.getvalue())  # type: ignore[attr-defined]
    assert rows_of(tmp_path / "c.xlsx", "Texte") == rows_of(tmp_path / "b.xlsx", "Texte")


def test_a_workbook_is_not_shown_on_a_terminal(
    nearmt: Nearmt, store: Path, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    result = nearmt("translate", book, "--datastore", store, *FAST)
    assert_one_line(result, 2, "the format xlsx is no text; give --output FILE, or --json")
    assert nearmt("translate", book, "--datastore", store, "--json", *FAST).out.count("\n") == 31


def test_an_interrupted_workbook_is_continued(
    nearmt: Nearmt, store: Path, tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_WINDOW_BATCHES", 1)
    run = ("translate", book, "--datastore", store, *FAST, "--output")
    whole = nearmt(*run, tmp_path / "whole.xlsx")
    real, windows = Filler.fill, iter(range(100))

    def fill(self: Filler, *arguments: Any) -> Any:
        if next(windows) == 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Filler, "fill", fill)
        out = tmp_path / "out.xlsx"
        assert nearmt(*run, out).code == 130 and not out.exists()
    last = nearmt(*run, out, "--resume")
    assert (last.code, last.err) == (0, whole.err)
    assert members(out) == members(tmp_path / "whole.xlsx")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.xlsx", b"PK\x03\x04broken", "is no workbook"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "save it as XLSX or CSV"),
        ("a.csv", b"key,de,fr\n1,Pumpe,pompe\n", "but none for the target language"),
        ("a.csv", b"die Pumpe\n", "has no columns"),
        ("a.arb", b'{"@@locale": "fr"}', "is in 'fr', the model translates from 'de'"),
        ("a.json", b'{"a": "b",}', "line 1: not JSON"),
        ("a.strings", b"bplist00", "compiled property list"),
        ("a.xcstrings", b"{}", "is no string catalogue"),
    ],
)
def test_what_is_refused(nearmt: Nearmt, store: Path, tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(data)
    out = tmp_path / "out"
    assert_one_line(nearmt("translate", tmp_path / name, "--datastore", store, "--output", out, *FAST), 1, reason)
    assert not out.exists()
