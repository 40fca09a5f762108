"""Oversized input: units beyond the limits are reported and left out, the others are read."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from xml.parsers import expat

import pytest

from nearmt.corpus import LimitsConfig, numbered_lines, open_document, read_pairs, unpacking
from nearmt.corpus.lines import bounded_lines
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xml import UnitScanner
from nearmt.errors import ConfigError, InputError
from tests.corpus.files import memory_below

MIB = 1 << 20
SMALL = LimitsConfig(max_unit=1)
PO = 'msgid ""\nmsgstr "Language: en\\n"\n\n'


def entry(msgid: str, msgstr: str) -> str:
    return f'msgid "{msgid}"\nmsgstr "{msgstr}"\n\n'


def unit(source: str, target: str) -> str:
    return f'<tu><tuv xml:lang="de"><seg>{source}</seg></tuv><tuv xml:lang="en"><seg>{target}</seg></tuv></tu>\n'


def trans_unit(source: str, target: str) -> str:
    return f"<trans-unit><source>{source}</source><target>{target}</target></trans-unit>\n"


XLIFF = '<xliff version="1.2"><file source-language="de" target-language="en"><body>\n'
#: Head, a unit of two texts, and tail of a file, by format.
FORMATS: dict[str, tuple[str, Callable[[str, str], str], str]] = {
    "tsv": ("", lambda a, b: f"{a}\t{b}\n", ""),
    "csv": ("", lambda a, b: f"{a},{b}\n", ""),
    "jsonl": ("", lambda a, b: json.dumps({"source": a, "target": b}) + "\n", ""),
    "po": (PO, entry, ""),
    "tmx": ('<tmx><header srclang="de"/><body>\n', unit, "</body></tmx>"),
    "xliff": (XLIFF, trans_unit, "</body></file></xliff>"),
}
#: Opens a compressed file for writing.
PACKED = {".gz": gzip.open, ".xz": lzma.open}


def written(path: Path, *parts: str) -> Path:
    path.write_bytes("".join(parts).encode())
    return path


def repeated(path: Path, part: bytes, megabytes: int, head: bytes = b"") -> Path:
    """Write a compressed file with a high compression ratio."""
    block = part * (MIB // len(part))
    settings = {"preset": 0} if path.suffix == ".xz" else {"compresslevel": 6}
    with PACKED[path.suffix](path, "wb", **settings) as file:  # type: ignore[operator]
        file.write(head)
        for _ in range(megabytes):
            file.write(block)
    return path


def read(path: Path, limits: LimitsConfig = SMALL) -> tuple[list[tuple[str, str]], Report]:
    stream = read_pairs(path, source_lang="de", target_lang="en", strict=False, limits=limits)
    return [(pair.source, pair.target) for pair in stream], stream.report


@pytest.mark.parametrize("name", FORMATS)
def test_oversized_unit_does_not_affect_others(name: str, tmp_path: Path) -> None:
    head, make, tail = FORMATS[name]
    huge = "a" * (3 * MIB)
    path = written(tmp_path / f"a.{name}", head, make("a", "b"), make(huge, "x"), make("c", "d"), tail)
    pairs, report = read(path)
    assert pairs == [("a", "b"), ("c", "d")]
    assert report.problem_count == 1
    assert "more than 1 MiB (see the setting max-unit)" in report.problems[0]
    assert report.problems[0].startswith(f"{path}, line ")
    assert read(path, LimitsConfig(max_unit=4)) != (pairs, report)
    assert len(read(path, LimitsConfig(max_unit=4))[0]) == 3
    with pytest.raises(InputError, match="more than 1 MiB"):
        list(read_pairs(path, limits=SMALL))


@pytest.mark.parametrize("name", ["jsonl", "po", "tmx", "xliff"])
def test_oversized_unit_is_written_back_unchanged(name: str, tmp_path: Path) -> None:
    head, make, tail = FORMATS[name]
    path = written(tmp_path / f"a.{name}", head, make("a", ""), make("ä" * (2 * MIB), ""), make("c", ""), tail)
    report = Report()
    parts = list(open_document(path, Request("de", "en", limits=SMALL), report).parts)
    assert "".join(part.raw for part in parts) == path.read_text(encoding="utf-8")
    assert sum(len(part.units) for part in parts) == 2 and report.problem_count == 1


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv"])
def test_overlong_line_of_a_text_is_an_error(name: str, tmp_path: Path) -> None:
    """Otherwise, line numbers of text and translation would differ."""
    path = written(tmp_path / name, "a,x\n", "b" * (MIB + 1), "\nc\n")
    with pytest.raises(InputError, match=r"line 2: a line of more than 1 MiB \(see the setting max-unit\)"):
        list(open_document(path, Request(limits=SMALL), Report()).parts)
    assert len(list(open_document(path, Request(limits=LimitsConfig(max_unit=2)), Report()).parts)) == 3


def test_overlong_line_of_aligned_files_is_an_error(tmp_path: Path) -> None:
    for code in ("de", "en"):
        written(tmp_path / f"a.{code}", "a\n", "b" * (MIB + 1) if code == "en" else "b", "\n")
    with pytest.raises(InputError, match=r"a\.en, line 2: a line of more than 1 MiB"):
        list(read_pairs(tmp_path / "a.de", tmp_path / "a.en", source_lang="de", target_lang="en", limits=SMALL))


@pytest.mark.parametrize("rest", ["", "\n", "\nc", "\nc\n"])
def test_overlong_lines_come_in_parts(rest: str) -> None:
    data = ("a\n" + "b" * 25 + rest).encode()
    found = list(bounded_lines(io.BytesIO(data), 10))
    assert b"".join(line for _, line, _ in found) == data
    assert all(len(line) <= 11 for _, line, _ in found)
    assert [number for number, _, is_whole in found if is_whole] == ([1, 3] if "c" in rest else [1])
    assert {number for number, _, is_whole in found if not is_whole} == {2}


@pytest.mark.parametrize("size", [9, 10])
def test_line_of_maximum_length_is_whole(size: int) -> None:
    for data in (b"b" * size, b"b" * size + b"\n", b"b" * size + b"\nc"):
        assert all(is_whole for _, _, is_whole in bounded_lines(io.BytesIO(data), 10))


def test_limits_apply_to_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n" + b"b" * (MIB + 1))))
    lines = numbered_lines(Path("-"), limits=SMALL)
    assert next(lines) == (1, "a")
    with pytest.raises(InputError, match="line 2: a line of more than 1 MiB"):
        next(lines)


# Compressed files


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", ["line.tsv", "line.jsonl", "id.po", "strings.po", "blank.po", "seg.tmx", "x.mo"])
def test_compression_bomb_is_refused_in_little_memory(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", 4 * MIB)
    part = {
        "strings.po": b'"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"\n',
        "blank.po": b" " * 99 + b"\n",
    }
    head = {
        "id.po": (PO + 'msgid "').encode(),
        "strings.po": b'msgid ""\n',
        "seg.tmx": b'<tmx><body><tu><tuv xml:lang="de"><seg>',
        "x.mo": struct.pack("<7I", 0x950412DE, 0, 0, 28, 28, 0, 0),
    }
    path = repeated(tmp_path / (name + suffix), part.get(name, b"a"), 24, head.get(name, b""))
    assert path.stat().st_size < MIB / 2
    with memory_below(12 * MIB):
        pairs, report = read(path)
    assert (
        pairs == []
        and report.problems[-1] == f"{path}: unpacks to more than 200 times its size (see the setting max-unpacked)"
    )


@pytest.mark.parametrize("suffix", PACKED)
def test_pairs_before_the_limit_are_kept(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", MIB)
    line = b"die pumpe %b\tthe pump\n" % (b"x" * 300)
    path = repeated(tmp_path / f"a.tsv{suffix}", line, 8, b"a\tb\n")
    stream = read_pairs(path, strict=False, limits=LimitsConfig(max_unpacked=50))
    assert MIB // len(line) - 500 < sum(1 for _ in stream) < 8 * MIB // len(line) - 500
    assert stream.report.problem_count == 1
    everything = read_pairs(path, limits=LimitsConfig(max_unpacked=10_000))
    assert sum(1 for _ in everything) == 8 * (MIB // len(line)) + 1


def test_ratio_is_not_limited_for_the_first_megabytes(tmp_path: Path) -> None:
    line = b"die pumpe %b\tthe pump\n" % (b"x" * 300)
    path = repeated(tmp_path / "a.tsv.gz", line, 4)
    assert path.stat().st_size * 50 < 4 * MIB
    assert sum(1 for _ in read_pairs(path, limits=LimitsConfig(max_unpacked=50))) == 4 * (MIB // len(line))


# Wrong sizes and deep nesting


def compiled(
    count: int, offsets: list[tuple[int, int]], texts: bytes = b"", tables: tuple[int, int] = (28, 28)
) -> bytes:
    numbers = [0x950412DE, 0, count, *tables, 0, 0, *(number for offset in offsets for number in offset)]
    return struct.pack(f"<{len(numbers)}I", *numbers) + texts


LIES = {
    "more strings than bytes": compiled(1 << 28, [(1, 28)]),
    "a table behind the end": compiled(1, [(1, 28)], tables=(28, 1 << 31)),
    "a string behind the end": compiled(1, [(1, 1 << 31)]),
    "a string that is longer than the file": compiled(1, [(0xFFFFFFFF, 28)]),
    "strings that overlap": compiled(4000, [(32_000, 28)] * 4000),
}


@pytest.mark.parametrize("name", LIES)
def test_compiled_catalogue_with_wrong_offsets(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mo"
    path.write_bytes(LIES[name])
    with memory_below(2 * MIB):
        pairs, report = read(path)
    assert pairs == [] and report.problem_count == 1
    assert report.problems[0].startswith(f"{path}: is not a compiled catalogue, or damaged (")


def test_oversized_compiled_message(tmp_path: Path) -> None:
    texts = [b"a", b"c", b"b" * (2 * MIB), b"d"]
    start, offsets = 28 + 32, []
    for text in texts:
        offsets.append((len(text), start))
        start += len(text) + 1
    path = tmp_path / "en.mo"
    path.write_bytes(compiled(2, offsets, b"\0".join([*texts, b""]), tables=(28, 44)))
    pairs, report = read(path)
    assert pairs == [("c", "d")]
    assert report.problems == [f"{path}: entry 1: more than 1 MiB (see the setting max-unit)"]


@pytest.mark.parametrize("depth", [1000, 200_000])
def test_deeply_nested_json(depth: int, tmp_path: Path) -> None:
    nested = '{"source": "a", "target": "b", "c": ' + "[" * depth + "]" * depth + "}\n"
    path = written(tmp_path / "a.jsonl", nested * 3, '{"source": "c", "target": "d"}\n')
    pairs, report = read(path)
    assert pairs[-1] == ("c", "d") and len(pairs) + report.problem_count == 4


def test_unit_with_too_many_elements(tmp_path: Path) -> None:
    text = FORMATS["tmx"][0] + unit("a", "b") + unit("<x/>" * 100_000, "c") + unit("d", "e") + FORMATS["tmx"][2]
    pairs, report = read(written(tmp_path / "a.tmx", text))
    assert pairs == [("a", "b"), ("d", "e")]
    assert "a unit of more than 65,536 elements" in report.problems[0]


def test_default_attributes_of_a_document_type_are_ignored(tmp_path: Path) -> None:
    doctype = f'<!DOCTYPE tmx [<!ATTLIST x a CDATA "{"a" * 100_000}">]>'
    path = written(tmp_path / "a.tmx", doctype, FORMATS["tmx"][0], unit("<x/>" * 5000 + "a", "b"), FORMATS["tmx"][2])
    with memory_below(30 * MIB):
        assert read(path)[0] == [("a", "b")]


@pytest.mark.parametrize("part", ["<!ELEMENT a ANY>\n", "<!-- a comment -->\n"])
def test_unclosed_document_type(part: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.tmx", "<!DOCTYPE tmx [", part * (3 * MIB // len(part)), unit("a", "b"))
    pairs, report = read(path)
    assert pairs == [("a", "b")] and "a document type of more than 1 MiB" in report.problems[0]


# Broken XML takes linear time


class Counting:
    """A parser that counts its input."""

    parsed = 0
    made = 0

    def __init__(self, parser: object) -> None:
        object.__setattr__(self, "_parser", parser)
        Counting.made += 1

    def Parse(self, data: bytes, final: bool) -> None:
        Counting.parsed += len(data)
        self._parser.Parse(data, final)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(object.__getattribute__(self, "_parser"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_parser"), name, value)


@pytest.mark.parametrize(
    "part",
    ["<tu>", "<tu></x>", "<tu>&", "<tu/></b>", "<header>", "<tu><a ", "<tu><!--", "<tu><![CDATA[", "<tu><?a ", "<a>"],
)
def test_broken_xml_is_parsed_in_linear_time(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create = expat.ParserCreate
    monkeypatch.setattr(expat, "ParserCreate", lambda encoding: Counting(create(encoding)))
    amounts = []
    for size in (50_000, 100_000):
        Counting.parsed = Counting.made = 0
        text = "<tmx><body>" + part * (size // len(part))
        scanner = UnitScanner(Path("a.tmx"), Report(), frozenset({"tu"}), frozenset({"header"}))
        assert "".join(fragment.text for fragment in scanner.scan([text])) == text
        # A new parser gets the enclosing elements and the first bytes of the rest.
        amounts.append(max(0, Counting.parsed - 300 * Counting.made))
        assert Counting.made <= size // len(part) + 2
    assert amounts[1] < 8 * 100_000 + 2 * MIB and amounts[1] < 2.5 * max(amounts[0], 100_000)


def test_quotations_in_problems_are_short(tmp_path: Path) -> None:
    long = "x" * 100_000
    text = unit(f"&{long};", "b") + unit("a", "b").replace('"de"', f'"{long}"') + unit("a", "b")
    _, report = read(written(tmp_path / "a.tmx", '<!DOCTYPE tmx SYSTEM "x.dtd"><tmx><body>', text, "</body></tmx>"))
    assert [len(problem) for problem in report.problems] == [501]
    assert report.languages == {"…": 1, "de": 1, "en": 2}


def test_number_of_counted_languages_is_limited(tmp_path: Path) -> None:
    units = (unit("a", "b").replace('"de"', f'"x{number}"') for number in range(3000))
    _, report = read(written(tmp_path / "a.tmx", "<tmx><body>", *units, "</body></tmx>"))
    assert len(report.languages) <= 1001 and report.languages.total() == 6000


def test_limits_have_ranges() -> None:
    for settings in ({"max_unit": 0}, {"max_unit": 2000}, {"max_unpacked": 0}):
        with pytest.raises(ConfigError, match="must be between"):
            LimitsConfig(**settings)
