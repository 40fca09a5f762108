"""CSV tables: records, columns, pairs, and filling in."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.columns import Columns, HalfHeader, columns_of
from nearmt.corpus.csv import csv_document, read_csv
from nearmt.corpus.csv_records import MOST_COLUMNS, records
from nearmt.corpus.document import Unit
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from tests.corpus.files import fill_file, own_text, unchanged_or_refused, with_text, write_file

REQUEST = Request("de", "en")
#: What fields are made of.
SOUP = st.text(st.sampled_from('ab ,;\t"\n\r\ufeffü='), max_size=8)
FIELD = st.text(st.sampled_from('ab ,;\t"\nüx'), max_size=6)


def read(folder: Path, text: str | bytes, request: Request = REQUEST) -> tuple[list[Pair], Report]:
    report = Report()
    return list(read_csv(write_file(folder, text, "a.csv"), request, report)), report


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def units(folder: Path, text: str | bytes, request: Request = REQUEST) -> list[Unit]:
    document = csv_document(write_file(folder, text, "a.csv"), request, Report(strict=True))
    return [unit for part in document.parts for unit in part.units]


class TestRecords:
    @given(st.lists(st.lists(FIELD, min_size=2, max_size=4), min_size=1, max_size=6), st.sampled_from(",;\t"))
    def test_fields_are_those_of_the_standard_library(self, rows: list[list[str]], delimiter: str) -> None:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter).writerows(rows)
        found = list(records([out.getvalue()], delimiter))
        assert [[record.text(column) for column in range(len(record.spans))] for record in found] == rows
        assert not any(record.problem for record in found)

    @given(st.lists(SOUP, max_size=12), st.integers(1, 5))
    def test_records_are_the_text_however_it_comes(self, parts: list[str], size: int) -> None:
        text = "".join(parts)
        whole = list(records([text], ","))
        chunked = list(records([text[start : start + size] for start in range(0, len(text), size)], ","))
        assert whole == chunked and "".join(record.raw for record in whole) == text
        lines = [record.line for record in whole]
        assert lines == sorted(set(lines))

    @given(FIELD, st.integers(0, 4), st.sampled_from(["\n", "\r\n", ""]))
    def test_a_replaced_field_is_read_again(self, text: str, column: int, end: str) -> None:
        (record,) = records([f'a,"b ""c"""{end}'], ",")
        (again,) = records([record.with_text(column, text, ",")], ",")
        assert again.text(column) == text and again.raw.endswith(end)
        assert all(again.text(other) == record.text(other) for other in range(5) if other != column)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ('"a"b,c\n', "text after a closing quotation mark"),
            ("," * MOST_COLUMNS + "\n", "more than 16,384 columns"),
            ('a,"b', "ends in the middle of a quoted field; get a complete one"),
        ],
    )
    def test_a_broken_record_has_a_problem_and_others_are_read(self, line: str, problem: str) -> None:
        first, broken, *rest = records(["a,b\n", line, "c,d\n"] if line.endswith("\n") else ["a,b\n", line], ",")
        assert problem in broken.problem and not first.problem
        assert [record.text(1) for record in rest] == ["d"] * line.endswith("\n")

    def test_a_quotation_mark_inside_a_field_is_text(self) -> None:
        (record,) = records(['5" Rohr,5" pipe\n'], ",")
        assert [record.text(0), record.text(1)] == ['5" Rohr', '5" pipe']


class TestColumns:
    @pytest.mark.parametrize(
        ("row", "source", "target"),
        [
            (["de", "en"], 0, 1),
            (["key", "EN", "de-AT"], 2, 1),
            (["id", "German", "English (US)"], 1, 2),
            (["id", "English", "Deutsch"], 2, 1),
            (["Text (de)", "Text [en-GB]"], 0, 1),
            (["Key", "Source", "Target"], 1, 2),
            (["source", "en"], 0, 1),
            (["\ufeffde ", " en_US"], 0, 1),
            (["en-US", "en", "de-CH", "de"], 3, 1),
        ],
    )
    def test_a_header_names_the_columns(self, row: list[str], source: int, target: int) -> None:
        found = columns_of(row, REQUEST)
        assert isinstance(found, Columns) and (found.source, found.target) == (source, target)

    @pytest.mark.parametrize("row", [["Die Pumpe", "The pump"], ["Source"], ["", ""], ["Original", "Translation"], []])
    def test_other_rows_are_no_header(self, row: list[str]) -> None:
        assert columns_of(row, REQUEST) is None

    def test_half_a_header_is_an_error(self, tmp_path: Path) -> None:
        assert columns_of(["key", "de", "fr"], REQUEST) == HalfHeader("de", "target language")
        with pytest.raises(InputError, match=r"a\.csv: the first row names the column 'en', but none for the source"):
            units(tmp_path, "key,en\n1,x\n")

    def test_without_languages_the_first_two_named_ones_count(self) -> None:
        found = columns_of(["id", "de", "en", "fr"], Request())
        assert found == Columns(1, 2, ("id", "de", "en", "fr"))
        assert columns_of(["id", "no"], Request()) is None

    def test_a_code_that_is_also_a_word(self) -> None:
        found = columns_of(["ID", "en", "id"], Request("en", "id"))
        assert isinstance(found, Columns) and found.target == 2


class TestMemory:
    def test_pairs_and_metadata(self, tmp_path: Path) -> None:
        text = 'key;de;en;note\r\n1;Die Pumpe;The pump;\r\n2;"a ""b""\nc";"d;e";x\r\n\r\n3;leer;;\r\n'
        pairs, report = read(tmp_path, text)
        assert pairs == [
            Pair("Die Pumpe", "The pump", origin="a.csv", metadata={"key": "1"}),
            Pair('a "b"\nc', "d;e", origin="a.csv", metadata={"key": "2", "note": "x"}),
        ]
        assert report.units == 3 and report.skipped == {"untranslated": 1}
        (note,) = report.notes
        assert note.endswith("a.csv: separated by semicolons, column 2 'de' is the source, column 3 'en' the target")

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_the_separator_is_detected(self, tmp_path: Path, delimiter: str) -> None:
        rows = [("Hallo, Welt", "Hello, world"), ("a; b", "c; d"), ("Ventil", "valve")]
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter).writerows(rows)
        pairs, report = read(tmp_path, out.getvalue())
        assert texts(pairs) == rows and "no header" in report.notes[0]

    def test_the_separator_may_be_stated(self, tmp_path: Path) -> None:
        assert texts(read(tmp_path, "sep=;\r\na,b;c,d\r\n")[0]) == [("a,b", "c,d")]
        assert texts(read(tmp_path, "sep=;\r\nde,x;en\r\na,b;c,d\r\n", Request())[0])[-1] == ("a,b", "c,d")

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_encodings(self, tmp_path: Path, encoding: str) -> None:
        assert texts(read(tmp_path, "de\ten\nTür\tdoor\n".encode(encoding))[0]) == [("Tür", "door")]

    def test_bad_rows_are_reported_and_others_are_read(self, tmp_path: Path) -> None:
        pairs, report = read(tmp_path, b'a,b\n"c"c,d\n\xff,e\nf,g\n')
        assert texts(pairs) == [("a", "b"), ("f", "g")] and report.problem_count == 2
        assert "line 2: text after" in report.problems[0] and "line 3: not utf-8" in report.problems[1]

    def test_no_columns(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="has no columns: no tab, semicolon or comma"):
            read(tmp_path, "a\nb\n")
        assert read(tmp_path, "\n \n")[0] == []


class TestDocument:
    def test_only_missing_targets_are_filled_in(self, tmp_path: Path) -> None:
        text = 'note,de,en\r\nx,"a, b",\r\n\r\n"y",c\r\n,d,done\r\n,,'
        path = write_file(tmp_path, text, "a.csv")
        found = units(tmp_path, text)
        assert [(unit.source, unit.target, unit.line) for unit in found if unit.source != ("",)] == [
            (("a, b",), "", 2),
            (("c",), "", 4),
            (("d",), "done", 5),
        ]
        choose = with_text('say "x"')
        filled = fill_file(
            csv_document, path, lambda unit: choose(unit) if unit.source[0] and not unit.target else None, REQUEST
        )
        assert filled.read_bytes().decode() == (
            'note,de,en\r\nx,"a, b","say ""x"""\r\n\r\n"y",c,"say ""x"""\r\n,d,done\r\n,,'
        )

    @given(st.lists(st.lists(FIELD, min_size=2, max_size=4), max_size=5), st.sampled_from(",;\t"), st.booleans())
    def test_bytes_stay(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str, has_header: bool
    ) -> None:
        out = io.StringIO()
        table = [["x", "de", "en"] if has_header else ["a", "b"], *rows]
        csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(table)
        path = write_file(tmp_path_factory.getbasetemp(), out.getvalue().encode(), "any.csv")
        same = fill_file(csv_document, path, lambda _: None, REQUEST)
        assert same.read_bytes() == path.read_bytes()
        # With its own text in every target, the table is the same.
        keep = fill_file(csv_document, path, lambda unit: own_text(unit) if unit.target else None, REQUEST)
        again = list(csv.reader(io.StringIO(keep.read_bytes().decode(), newline=""), delimiter=delimiter))
        assert again == list(csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter))

    @given(st.binary(max_size=60))
    def test_any_bytes_are_a_document_or_an_error(self, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
        path = write_file(tmp_path_factory.getbasetemp(), data, "bytes.csv")
        assert unchanged_or_refused(csv_document, path, REQUEST)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('a,b\n"c,d\ne,f\n', "line 2: the file ends in the middle"),
            ('a,b\n"c"d,\n', "line 2: text after"),
            (" \n", "is empty"),
        ],
    )
    def test_a_broken_table_is_refused(self, tmp_path: Path, text: str, reason: str) -> None:
        with pytest.raises(InputError, match=reason):
            units(tmp_path, text)

    def test_many_open_quotation_marks_take_linear_time(self, tmp_path: Path) -> None:
        """With quadratic time this would not end."""
        pairs, report = read(tmp_path, "a,b\n" + '"x,y\n' * 300_001)
        assert report.problem_count and pairs
