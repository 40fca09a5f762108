"""The .strings files of iOS: texts are replaced, keys and comments stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import LimitsConfig
from nearmt.corpus.apple_strings import strings_document
from nearmt.corpus.document import Unit
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from tests.corpus.files import fill_file, own_text, unchanged_or_refused, with_text, write_file

REQUEST = Request("de", "en")
FILE = r"""/* Title; "quoted" = "comment"; */
"title" = "Einstellungen";

// Buttons
"ok.button"="OK \"jetzt\"";  plain = Wert ;
'single' = 'a\'b';
"tab\n" /* inside */ = "eins\tzwei\nT\U00fcr \\n";
"alone";
"lines" = "a
b";
"""
TEXTS = ["Einstellungen", 'OK "jetzt"', "Wert", "a'b", "eins\tzwei\nTür \\n", "a\nb"]
PIECES = st.sampled_from(['"a"', "'b'", "c", "=", ";", " ", "\n", "/*", "*/", "//", '"', "\\", "ü", '"d" = "e";\n'])


def units(folder: Path, text: str | bytes, report: Report | None = None, request: Request = REQUEST) -> list[Unit]:
    document = strings_document(write_file(folder, text, "a.strings"), request, report or Report(strict=True))
    return [unit for part in document.parts for unit in part.units]


def test_texts_are_units(tmp_path: Path) -> None:
    found = units(tmp_path, FILE)
    assert [unit.source[0] for unit in found] == TEXTS
    assert [unit.line for unit in found] == [2, 5, 5, 6, 7, 9]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_bytes_and_encodings_stay(tmp_path: Path, encoding: str) -> None:
    path = write_file(tmp_path, FILE.replace("\n", "\r\n").encode(encoding), "a.strings")
    assert fill_file(strings_document, path, own_text, REQUEST).read_bytes() == path.read_bytes()
    filled = fill_file(strings_document, path, with_text("→"), REQUEST).read_bytes()
    assert filled.decode(encoding).count('"→"') == 6
    assert filled[:3] == path.read_bytes()[:3]


def test_only_texts_are_replaced(tmp_path: Path) -> None:
    path = write_file(tmp_path, FILE, "a.strings")
    filled = fill_file(strings_document, path, with_text('x "y"\n\\'), REQUEST).read_text(encoding="utf-8")
    new = r'"x \"y\"\n\\"'
    assert filled == (
        f'/* Title; "quoted" = "comment"; */\n"title" = {new};\n\n// Buttons\n"ok.button"={new};  plain = {new} ;\n'
        f"'single' = {new};\n" + rf'"tab\n" /* inside */ = {new};' + '\n"alone";\n"lines" = "x \\"y\\"\n\\\\";\n'
    )


@given(st.text(max_size=20))
def test_a_text_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write_file(tmp_path_factory.getbasetemp(), '"k" = "v";', "one.strings")
    filled = fill_file(strings_document, path, with_text(text), REQUEST)
    (unit,) = [u for part in strings_document(filled, REQUEST, Report(strict=True)).parts for u in part.units]
    assert unit.source == (text,)


@given(st.lists(PIECES, max_size=15).map("".join) | st.text(max_size=20))
def test_any_text_is_a_document_or_an_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write_file(tmp_path_factory.getbasetemp(), text.encode(), "any.strings")
    assert unchanged_or_refused(strings_document, path, REQUEST)


def test_a_broken_entry_does_not_affect_others(tmp_path: Path) -> None:
    report = Report()
    text = '"a" = "1"\n"b" = "2";\n"c" == "3";\n"d" = "\\U00";\n"e" = "\\UD83D\\UDE00";\n"f" = "\\311\\UD800";\n'
    assert [unit.source[0] for unit in units(tmp_path, text, report)] == ["2", "U00", "😀"]
    assert [problem.split("line ")[1][0] for problem in report.problems] == ["1", "3", "6"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"a" = "b";\n"c" = "d', "line 2: .*get a complete one"),
        ('"a" = "b";\n"c" = "d"', "line 2: .*get a complete one"),
        ('"a" = "b";\n/* more\n"c" = "d";\n', "line 2: .*get a complete one"),
        ("/* nothing */\n", "it has no entries"),
        ("bplist00abc", "compiled property list"),
        ('<?xml version="1.0"?><plist/>', "compiled property list"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        units(tmp_path, text)


def test_an_entry_that_is_too_large_is_kept(tmp_path: Path) -> None:
    report = Report()
    text = f'"a" = "{"x" * (1 << 20)}";\n"b" = "c";\n'
    assert len(units(tmp_path, text, report, Request(limits=LimitsConfig(max_unit=1)))) == 1
    assert "an entry of more than 1 MiB" in report.problems[0]


@pytest.mark.parametrize("piece", ['"a" = ', "/* ", "'", '\n"', "a = b\n", "\\"])
def test_hostile_files_take_linear_time(tmp_path: Path, piece: str) -> None:
    """With quadratic time this would not end."""
    path = write_file(tmp_path, '"a" = "b";\n' + piece * 200_000, "a.strings")
    assert unchanged_or_refused(strings_document, path, REQUEST)
