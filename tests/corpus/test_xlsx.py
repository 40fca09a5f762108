"""XLSX workbooks: pairs of sheets, and filling in without touching anything else of the package."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus import LimitsConfig, unpacking
from nearmt.corpus.document import Filling, Unit
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xlsx import read_xlsx, xlsx_document
from nearmt.corpus.xlsx_cells import column_name
from nearmt.errors import InputError
from tests.corpus.files import fill_file, own_text, unchanged_or_refused, with_text, write_file

REQUEST = Request("de", "en")
SHEET = "xl/worksheets/sheet1.xml"
Rows = list[list[Any]]
TABLE: Rows = [
    ["Key", "German", "English", "Note"],
    [1, "Die Pumpe", None, "a"],
    [2, "Der Motor", "engine", None],
    [3, 42, None, None],
    [4, "Die Welle", "=B2", None],
]


def workbook(folder: Path, sheets: dict[str, Rows], name: str = "a.xlsx") -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)  # type: ignore[arg-type]
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(folder / name)
    return folder / name


def rows_of(path: Path, sheet: str) -> Rows:
    return [list(row) for row in openpyxl.load_workbook(path)[sheet].iter_rows(values_only=True)]


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def package(folder: Path, rows: str, shared: str = "", sheet: bytes | None = None) -> Path:
    """A workbook of one sheet, with the given XML of its rows, or of all of it."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

    def relations(**targets: str) -> str:
        return "".join(
            f'<Relationship Id="{name}" Type="{kind}/{target.split()[0]}" Target="{target.split()[1]}"/>'
            for name, target in targets.items()
        )

    content = {
        "_rels/.rels": f"<Relationships>{relations(r1='officeDocument /xl/workbook.xml')}</Relationships>",
        "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="One" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": "<Relationships>"
        + relations(r1="worksheet worksheets/sheet1.xml", r2="sharedStrings sharedStrings.xml")
        + "</Relationships>",
        SHEET: f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst>{shared}</sst>",
    }
    path = folder / "made.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in content.items():
            archive.writestr(member, sheet if sheet and member == SHEET else text)
    return path


def inline(column: str, text: str) -> str:
    return f'<c r="{column}" t="inlineStr"><is><t>{text}</t></is></c>'


def units(path: Path, request: Request = REQUEST) -> list[Unit]:
    return [unit for part in xlsx_document(path, request, Report(strict=True)).parts for unit in part.units]


def missing(unit: Unit) -> Filling | None:
    return None if unit.target else with_text(f"T {unit.source[0]}")(unit)


def test_missing_targets_are_filled_in(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"Texte": TABLE, "Rest": [["a", "b"]]})
    assert [(unit.source[0], unit.target, unit.line) for unit in units(path)] == [
        ("Die Pumpe", "", 2),
        ("Der Motor", "engine", 3),
    ]
    filled = fill_file(xlsx_document, path, missing, REQUEST)
    expected = [list(row) for row in TABLE]
    expected[1][2] = "T Die Pumpe"
    assert rows_of(filled, "Texte") == expected and rows_of(filled, "Rest") == [["a", "b"]]
    before, after = members(path), members(filled)
    assert list(before) == list(after)
    assert {name for name in before if before[name] != after[name]} == {SHEET}
    old, new = before[SHEET].decode(), after[SHEET].decode()
    cell = '<c r="C2" t="inlineStr"><is><t xml:space="preserve">T Die Pumpe</t></is></c>'
    assert new.replace(cell, "") == old


def test_formats_of_cells_stay(tmp_path: Path) -> None:
    rows = (
        f'<row r="1">{inline("A1", "de")}{inline("B1", "en")}</row>'
        f'<row r="7" spans="1:1" ht="20">{inline("A7", "x")}<c r="B7" s="4"/><c r="D7"><v>1</v></c></row>'
        f'<row r="8" spans="1:1">{inline("A8", "y")}</row>'
    )
    path = package(tmp_path, rows)
    text = members(fill_file(xlsx_document, path, missing, REQUEST))[SHEET].decode()
    assert '<c s="4" r="B7" t="inlineStr"><is><t xml:space="preserve">T x</t></is></c><c r="D7"><v>1</v></c>' in text
    assert '<row r="8" spans="1:2">' in text and '<row r="7" ht="20" spans="1:2">' in text


def test_namespaces_with_a_prefix(tmp_path: Path) -> None:
    rows = '<x:row r="1"><x:c r="A1" t="inlineStr"><x:is><x:t>a</x:t></x:is></x:c></x:row>'
    filled = fill_file(xlsx_document, package(tmp_path, rows), missing, REQUEST)
    assert (
        '<x:c r="B1" t="inlineStr"><x:is><x:t xml:space="preserve">T a</x:t></x:is></x:c></x:row>'
        in members(filled)[SHEET].decode()
    )


def test_shared_strings(tmp_path: Path) -> None:
    shared = "<si><t>eins</t></si><si><r><t>zw</t></r><r><rPr><b/></rPr><t>ei</t></r><rPh><t>no</t></rPh></si>"
    cells = "".join(f'<row r="{n}"><c t="s"><v>{n - 1}</v></c></row>' for n in (1, 2, 3))
    assert [unit.source[0] for unit in units(package(tmp_path, cells, shared))] == ["eins", "zwei", ""]


@given(st.text(st.sampled_from('a _x0041\x00\x07\t\n\r<&>"ü😀]'), max_size=12))
def test_a_text_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = package(tmp_path_factory.getbasetemp(), f'<row r="1">{inline("A1", "a")}</row>')
    filled = fill_file(xlsx_document, path, with_text(text), REQUEST)
    assert [unit.target for unit in units(filled)] == [text]


CELL = st.none() | st.integers(0, 9) | st.booleans() | st.text(st.sampled_from("ab <&ü\n_x"), min_size=1, max_size=5)


@given(st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_bytes_stay(tmp_path_factory: pytest.TempPathFactory, rows: Rows, has_header: bool) -> None:
    table = [["x", "de", "en"] if has_header else ["a", "b"], *rows]
    path = workbook(tmp_path_factory.getbasetemp(), {"S": table}, "any.xlsx")
    assert fill_file(xlsx_document, path, lambda _: None, REQUEST).read_bytes() == path.read_bytes()
    kept = fill_file(xlsx_document, path, lambda unit: own_text(unit) if unit.target else None, REQUEST)
    before, after = rows_of(path, "S"), rows_of(kept, "S")
    column = 2 if has_header else 1
    for old, new in zip(before, after, strict=True):
        # A number becomes the text that shows it; a missing cell stays missing.
        changed = {number for number in range(len(old)) if old[number] != new[number]}
        assert changed <= {column} and all(str(int(old[number])) == new[number] for number in changed)


def test_sheets_that_name_both_languages_are_read(tmp_path: Path) -> None:
    path = workbook(
        tmp_path,
        {
            "Info": [["Projekt", "Pumpen"], ["Datum", "heute"]],
            "A": [[None], ["en", "de"], ["pump", "Pumpe"]],
            "B": [["de", "x", "en"], ["Motor", "m", "engine"], ["Welle", None, None]],
        },
    )
    report = Report()
    assert list(read_xlsx(path, REQUEST, report)) == [
        Pair("Pumpe", "pump", origin="a.xlsx"),
        Pair("Motor", "engine", origin="a.xlsx", metadata={"x": "m"}),
    ]
    assert report.units == 3 and report.skipped == {"untranslated": 1}
    assert [note.rpartition(": sheet ")[2] for note in report.notes] == [
        "'A': column B 'de' is the source, column A 'en' the target",
        "'B': column A 'de' is the source, column C 'en' the target",
    ]
    filled = fill_file(xlsx_document, path, missing, REQUEST)
    assert rows_of(filled, "B")[2] == ["Welle", None, "T Welle"] and rows_of(filled, "Info") == rows_of(path, "Info")


def test_without_a_header_the_first_sheet_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"A": [["Pumpe", "pump"]], "B": [["Motor", "engine"]]})
    report = Report()
    assert [pair.source for pair in read_xlsx(path, REQUEST, report)] == ["Pumpe"]
    assert "sheet 'A': no header; column A is the source, column B the target" in report.notes[0]
    half = workbook(tmp_path, {"A": [["de", "fr"], ["Pumpe", "pompe"]]}, "half.xlsx")
    with pytest.raises(InputError, match=r"half\.xlsx: the first row names the column 'de', but none for the target"):
        units(half)


def test_a_compressed_workbook(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"A": TABLE})
    packed = write_file(tmp_path, gzip.compress(path.read_bytes()), "b.xlsx.gz")
    assert len(units(packed)) == 2
    filled = fill_file(xlsx_document, packed, missing, REQUEST)
    again = openpyxl.load_workbook(io.BytesIO(gzip.decompress(filled.read_bytes())))
    assert again["A"]["C2"].value == "T Die Pumpe"


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"no zip", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600])
def test_what_is_no_workbook(tmp_path: Path, data: bytes) -> None:
    path = write_file(tmp_path, data, "a.xlsx")
    with pytest.raises(InputError, match="is no workbook"):
        units(path)
    with pytest.raises(InputError, match="is no workbook"):
        list(read_xlsx(path, REQUEST, Report()))


def test_a_package_without_sheets(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(InputError, match="has no list of sheets"):
        units(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'<!DOCTYPE a [<!ENTITY e "x">]><worksheet><sheetData/></worksheet>', "declares the entity 'e'"),
        ("<worksheet/>".encode("utf-16"), "not XML in UTF-8"),
        (b"<worksheet><sheetData><row r='1'><c></row></sheetData></worksheet>", "broken XML"),
        (b"<worksheet><sheetData><row r='1'>", "broken XML"),
        (b"<worksheet>\xff</worksheet>", "broken XML"),
    ],
)
def test_hostile_sheets(tmp_path: Path, content: bytes, reason: str) -> None:
    path = package(tmp_path, "", sheet=content)
    with pytest.raises(InputError, match=reason) as caught:
        units(path)
    assert "\n" not in str(caught.value)


def test_a_broken_row_does_not_affect_others(tmp_path: Path) -> None:
    rows = f'<row r="1">{inline("A1", "a")}</row><row r="2"><c></row><row r="3">{inline("A3", "b")}</row>'
    path, report = package(tmp_path, rows), Report()
    document = xlsx_document(path, REQUEST, report)
    assert [unit.source for part in document.parts for unit in part.units] == [("a",), ("b",)]
    assert report.problem_count == 1 and f"made.xlsx/{SHEET}, line 1: broken XML" in report.problems[0]
    assert unchanged_or_refused(xlsx_document, path, REQUEST)


def test_cells_out_of_place(tmp_path: Path) -> None:
    cells = inline("ZZZ1", "far") + inline("x", "odd") + '<c r="C1" t="s"><v>-7</v></c><c r="C1" t="s"><v>9</v></c>'
    path = package(tmp_path, f'<row r="99999999999">{inline("A1", "a")}{cells}</row>')
    (unit,) = units(path)
    assert unit.source == ("a",) and unit.line == 1


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    path = package(tmp_path, "<row/>", sheet=b" " * (4 << 20))
    with pytest.raises(InputError, match="unpacks to more than 200 times its size"):
        units(path)
    with pytest.raises(InputError, match="unpacks to more than 200 times its size"):
        list(read_xlsx(path, REQUEST, Report()))
    monkeypatch.setattr(unpacking, "FREE_BYTES", 8 << 20)
    with pytest.raises(InputError, match="more than 1 MiB"):
        units(
            package(tmp_path, f'<row r="1">{inline("A1", "a" * (2 << 20))}</row>'),
            Request(limits=LimitsConfig(max_unit=1)),
        )


@pytest.mark.parametrize("position", [30, 200, 600])
def test_a_damaged_member(tmp_path: Path, position: int) -> None:
    data = bytearray(workbook(tmp_path, {"A": TABLE}).read_bytes())
    data[position : position + 60] = b"\xff" * 60
    path = write_file(tmp_path, bytes(data), "a.xlsx")
    assert unchanged_or_refused(xlsx_document, path, REQUEST)


@given(st.binary(max_size=80), st.integers(0, 4000))
def test_damage_is_an_error_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes, position: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = bytearray(package(folder, f'<row r="1">{inline("A1", "a")}</row>', "<si><t>a</t></si>").read_bytes())
    whole[position : position + len(data)] = data
    assert unchanged_or_refused(xlsx_document, write_file(folder, bytes(whole), "damaged.xlsx"), REQUEST)


def test_encrypted_members(tmp_path: Path) -> None:
    data = bytearray(package(tmp_path, "<row/>").read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 8] |= 1
    with pytest.raises(InputError, match="is encrypted"):
        units(write_file(tmp_path, bytes(data), "a.xlsx"))


def test_names_of_columns() -> None:
    assert [column_name(number) for number in (0, 25, 26, 701, 702, 16383)] == ["A", "Z", "AA", "ZZ", "AAA", "XFD"]
