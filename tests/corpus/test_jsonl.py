"""JSON lines: read as pairs, and filled in as documents."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.document import Filling, FillingOrigin, Match, Part, Tag, text_digest
from nearmt.corpus.jsonl import jsonl_document, read_jsonl
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
#: Lines of any content.
LINES = st.one_of(
    st.binary(max_size=30).filter(lambda line: b"\n" not in line),
    st.just(b""),
    st.builds(lambda text: json.dumps({"source": text, "n": 1}, ensure_ascii=False).encode(), TEXT),
    st.builds(lambda text: json.dumps({"target": text, "source": text}).encode() + b"  \r", TEXT),
)


def written(folder: Path, *lines: Any, name: str = "m.jsonl") -> Path:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    return path


def read(path: Path, request: Request | None = None) -> tuple[list[Pair], Report]:
    report = Report()
    return list(read_jsonl(path, request or Request(), report)), report


def parts_of(path: Path) -> tuple[list[Part], Report]:
    report = Report()
    return list(jsonl_document(path, Request(), report).parts), report


class TestReading:
    def test_fields_and_metadata(self, tmp_path: Path) -> None:
        entry = {
            "source": "Die Pumpe.",
            "target": "The pump.",
            "id": 7,
            "origin": "manual",
            "client": "ACME",
            "score": 0.5,
            "checked": True,
            "nothing": None,
            "tags": ["left", "out"],
            "metadata": {"client": "Emca", "year": 2020, "parts": [1, "ü"], "none": None},
        }
        pairs, report = read(written(tmp_path, entry))
        metadata = {"client": "Emca", "score": "0.5", "checked": "true", "year": "2020", "parts": '[1, "ü"]'}
        assert pairs == [Pair("Die Pumpe.", "The pump.", "7", "manual", metadata)]
        assert report.units == 1 and not report.problem_count

    def test_default_origin_is_the_file(self, tmp_path: Path) -> None:
        lines = [{"source": "a", "target": "b"} | more for more in ({}, {"origin": None}, {"origin": ""})]
        pairs, _ = read(written(tmp_path, *lines))
        assert [pair.origin for pair in pairs] == ["m.jsonl", "m.jsonl", ""]

    def test_metadata_that_is_not_an_object_is_kept(self, tmp_path: Path) -> None:
        pairs, _ = read(written(tmp_path, {"source": "a", "target": "b", "metadata": "old"}))
        assert pairs[0].metadata == {"metadata": "old"}

    def test_pairs_without_a_target_are_untranslated(self, tmp_path: Path) -> None:
        targets: list[dict[str, Any]] = [{}, {"target": None}, {"target": ""}, {"target": " \t"}]
        pairs, report = read(written(tmp_path, *({"source": "a"} | target for target in targets)))
        assert pairs == []
        assert report.units == 4
        assert report.skipped == {"untranslated": 4} and not report.problem_count

    def test_blank_lines_are_ignored(self, tmp_path: Path) -> None:
        pairs, report = read(written(tmp_path, "", {"source": "a", "target": "b"}, "  \r", ""))
        assert len(pairs) == report.units == 1
        assert not report.problem_count

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("{'source': 1}", r"not JSON \(Expecting property name.*, column 2\)"),
            ('{"source": "a", "target": "b"} {}', "not JSON"),
            ('["a", "b"]', "not a JSON object"),
            ("7", "not a JSON object"),
            ("null", "not a JSON object"),
            ('{"target": "b"}', 'no "source"'),
            ('{"source": 7, "target": "b"}', '"source" is not a string'),
            ('{"source": null, "target": "b"}', '"source" is not a string'),
            ('{"source": "a", "target": 7}', '"target" is not a string'),
            ('{"source": "a", "target": "\\ud800"}', "half a character"),
            ('{"source": "a", "target": "b", "id": "\\uDFFF"}', "half a character"),
            ('{"source": "a", "target": "b", "n": ' + "7" * 5000 + "}", "not JSON that can be read"),
            ("[" * 100_000, "not JSON that can be read"),
        ],
    )
    def test_bad_line_is_reported_and_others_are_read(self, line: str, reason: str, tmp_path: Path) -> None:
        good = {"source": "a", "target": "b"}
        path = written(tmp_path, good, line, good)
        pairs, report = read(path)
        assert len(pairs) == 2
        assert report.problem_count == 1
        with pytest.raises(InputError, match=rf"m\.jsonl, line 2: .*{reason}") as caught:
            list(read_jsonl(path, Request(), Report(strict=True)))
        assert report.problems == [str(caught.value)] and "\n" not in report.problems[0]

    def test_invalid_utf8_is_reported(self, tmp_path: Path) -> None:
        path = tmp_path / "m.jsonl"
        path.write_bytes('{"source": "ü"}\n'.encode("latin-1") + b'{"source": "a", "target": "b"}\n')
        pairs, report = read(path)
        assert len(pairs) == 1
        assert report.problem_count == 1 and "line 1: not UTF-8" in report.problems[0]

    def test_escaped_surrogate_pair_is_one_character(self, tmp_path: Path) -> None:
        pairs, _ = read(written(tmp_path, r'{"source": "\ud83d\ude00", "target": "\u2028\u0000"}'))
        assert [(pair.source, pair.target) for pair in pairs] == [("😀", "\u2028\x00")]

    def test_compressed_with_byte_order_mark_and_crlf(self, tmp_path: Path) -> None:
        path = tmp_path / "m.jsonl.gz"
        path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"source": "a", "target": "b"}\r\n{"source": "c", "target": "d"}'))
        assert [pair.source for pair in read(path)[0]] == ["a", "c"]

    @given(st.lists(LINES, max_size=6))
    def test_reader_accepts_any_content(self, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
        path = tmp_path_factory.getbasetemp() / "any.jsonl"
        path.write_bytes(b"\n".join(lines))
        pairs, report = read(path)
        assert len(pairs) + report.skipped.total() <= report.units <= len(lines)
        assert report.units + report.problem_count <= 2 * len(lines)


class TestDocument:
    @given(st.lists(LINES, max_size=6))
    def test_unfilled_document_is_unchanged(self, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
        path = tmp_path_factory.getbasetemp() / "any.jsonl"
        path.write_bytes(b"\n".join([*lines, b""]))
        document = jsonl_document(path, Request(), Report())
        text = "".join(part.filled([None] * len(part.units)) for part in document.parts)
        encoding = document.encoding
        assert encoding.bom + text.encode(encoding.name, encoding.errors) == path.read_bytes()

    def test_lines_with_a_source_are_units(self, tmp_path: Path) -> None:
        path = written(tmp_path, {"source": "a\nb"}, "", "{", {"source": "c", "target": "d"}, {"source": " "})
        parts, report = parts_of(path)
        units = [(unit.source, unit.target, unit.line) for part in parts for unit in part.units]
        assert units == [(("a\nb",), "", 1), (("c",), "d", 4)]
        assert len(parts) == 5
        assert report.units == 3 and report.problem_count == 1
        assert "line 3" in report.problems[0]

    def test_line_with_invalid_utf8_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "m.jsonl"
        path.write_bytes('{"source": "grün"}\n'.encode("latin-1"))
        (part,), report = parts_of(path)
        assert not part.units
        assert part.raw.encode("utf-8", "surrogateescape") == path.read_bytes()
        assert "line 1: not UTF-8" in report.problems[0]

    def test_filled_line_has_facts(self, tmp_path: Path) -> None:
        path = tmp_path / "m.jsonl"
        path.write_bytes(
            '\ufeff{"id": "1", "target": "", "source": "Die Pümpe.", "nearmt": "old"}\r\n{"source":"b"}'.encode()
        )
        match = Match("Die Pumpe", "The pump", 0.9, "p7", "manual")
        filling = Filling(("The ", Tag("<b>"), "pump.\t"), FillingOrigin.MACHINE, -0.5, ("p7", "p8"), (match,))
        first, second = parts_of(path)[0]
        text = first.filled([filling])
        assert text.startswith("\ufeff{") and text.endswith("}\r\n")
        entry = json.loads(text.removeprefix("\ufeff"))
        assert list(entry) == ["id", "target", "source", "nearmt"]
        assert entry["target"] == "The <b>pump.\t"
        assert "Pümpe" in text
        assert entry["nearmt"] == {
            "origin": "machine",
            "digest": text_digest("The <b>pump."),
            "score": -0.5,
            "pairs": ["p7", "p8"],
            "matches": [{"source": "Die Pumpe", "target": "The pump", "similarity": 0.9, "id": "p7"}],
        }
        assert second.filled([Filling(("c",), FillingOrigin.COPY)]) == (
            '{"source": "b", "target": "c", "nearmt": {"origin": "copy", "score": null, "pairs": [], "matches": []}}'
        )

    @given(TEXT)
    def test_filled_entry_is_one_line(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        path = written(tmp_path_factory.getbasetemp(), {"source": "a"})
        (part,) = parts_of(path)[0]
        line = part.filled([Filling((text,), FillingOrigin.MEMORY)])
        assert line.count("\n") == 1 and line.endswith("\n") and "\r" not in line
        assert json.loads(line)["target"] == text

    @pytest.mark.parametrize("origin", FillingOrigin)
    def test_machine_translations_are_read_only_on_request(self, origin: FillingOrigin, tmp_path: Path) -> None:
        (part,) = parts_of(written(tmp_path, {"source": "Die Pumpe."}))[0]
        filled = written(tmp_path, part.filled([Filling(("The pump.",), origin)]).strip(), name="filled.jsonl")
        pairs, report = read(filled)
        by_machine = origin in (FillingOrigin.MACHINE, FillingOrigin.REPAIRED)
        assert len(pairs) == (not by_machine)
        assert report.skipped["machine-translated"] == by_machine
        pairs, _ = read(filled, Request(unconfirmed=True))
        assert pairs == [Pair("Die Pumpe.", "The pump.", origin="filled.jsonl")]


def test_edited_machine_translation_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"source": "Die Pumpe"}\n', encoding="utf-8")
    (part,) = jsonl_document(path, Request(), Report()).parts
    filled = part.filled([Filling(("The pomp",), FillingOrigin.MACHINE)])
    path.write_text(filled, encoding="utf-8")
    assert list(read_jsonl(path, Request(), Report())) == []
    path.write_text(filled.replace("The pomp", "The pump"), encoding="utf-8")
    assert [pair.target for pair in read_jsonl(path, Request(), Report())] == ["The pump"]
