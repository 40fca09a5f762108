"""Writers: pairs are read back from the files, by nearmt and other tools."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.jsonl import read_jsonl
from nearmt.corpus.report import Report, Request
from nearmt.corpus.tsv import read_tsv
from nearmt.corpus.writers import WRITERS

LANG = "{http://www.w3.org/XML/1998/namespace}lang"
HOSTILE = [
    "",
    "emoji 👩\u200d👩\u200d👧 and 𝔘",
    "עברית עם\u200f english \u202eback",
    "quotes \"double\" 'single' “typographic”",
    r"backslashes \ \n \\n \" \x41",
    "]]> <![CDATA[ <b>&amp; & &#13;",
    "line\nbreak\n",
    "\r\nCRLF\r\n and CR\r",
    "tab\tand \u00a0no-break\u202f \u2028 \u2029 \x85 \x0b \x0c",
    '%s #, fuzzy\nmsgid "x"',
    " blanks around ",
    "\x7f \x80 \x9f \ufdd0",
]
BREAKS = "\n\r\x0b\x0c\x85\u2028\u2029"
#: Texts that XML, PO or TSV cannot represent.
IMPOSSIBLE = ["NUL\x00", "bell\x07 escape\x1b", "unit\x1f", "\ufffe\uffff"]
NAMES = ["changedate", "creationid", "context", "comment", "occurrences"]
ANY = st.one_of(
    st.sampled_from([*HOSTILE, *IMPOSSIBLE]),
    st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("\\\"\n\r\t<>&'\x00\x08\ufeff")), max_size=20),
)
PAIRS = st.lists(
    st.builds(
        Pair,
        source=ANY,
        target=ANY,
        id=ANY,
        origin=ANY,
        metadata=st.dictionaries(st.one_of(st.sampled_from(NAMES), ANY), ANY),
    ),
    max_size=6,
)
FULL = Pair("Die Pumpe.", "The pump.", "p1", "manual", {"changedate": "20200101T000000Z", "client": "ACME & Co"})


def write(format: str, pairs: list[Pair]) -> tuple[str, int]:
    out = io.StringIO(newline="")
    altered = WRITERS[format](iter(pairs), out, "de", "en-GB")
    return out.getvalue(), altered


def saved(folder: Path, format: str, pairs: list[Pair]) -> Path:
    path = folder / f"memory.{format}"
    path.write_bytes(write(format, pairs)[0].encode())
    return path


def without(text: str, test: str) -> str:
    """Remove the characters that XML (`xml`) or PO (`po`) cannot represent."""

    def fits(c: str) -> bool:
        if test == "po":
            return ord(c) >= 0x20 or c in "\b\t\n\v\f\r"
        return c in "\t\n\r" or 0x20 <= ord(c) <= 0xFFFD or ord(c) >= 0x10000

    return "".join(filter(fits, text))


def all_texts(pair: Pair) -> Iterator[str]:
    yield from (pair.source, pair.target, pair.id, pair.origin)
    yield from pair.metadata.keys()
    yield from pair.metadata.values()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


class TestJsonl:
    @given(PAIRS)
    def test_pairs_are_read_back(self, folder: Path, pairs: list[Pair]) -> None:
        report = Report()
        again = list(read_jsonl(saved(folder, "jsonl", pairs), Request(), report))
        assert again == [pair for pair in pairs if pair.target.strip()]
        assert not report.problem_count
        assert write("jsonl", pairs)[1] == 0

    def test_layout(self) -> None:
        text, _ = write("jsonl", [FULL, Pair("ä", "b")])
        assert text.splitlines() == [
            '{"id": "p1", "source": "Die Pumpe.", "target": "The pump.", "origin": "manual", '
            '"metadata": {"changedate": "20200101T000000Z", "client": "ACME & Co"}}',
            '{"source": "ä", "target": "b", "origin": ""}',
        ]


class TestTmx:
    @given(PAIRS)
    def test_xml_parser_reads_all_fields(self, folder: Path, pairs: list[Pair]) -> None:
        root = ElementTree.parse(saved(folder, "tmx", pairs)).getroot()
        units = root.findall("body/tu")
        assert len(units) == len(pairs)
        for unit, pair in zip(units, pairs, strict=True):
            sides = [(tuv.get(LANG), tuv.findtext("seg")) for tuv in unit.findall("tuv")]
            assert sides == [("de", without(pair.source, "xml")), ("en-GB", without(pair.target, "xml"))]
            assert unit.get("tuid", "") == without(pair.id, "xml")
            metadata = {without(key, "xml"): without(value, "xml") for key, value in pair.metadata.items()}
            origin = without(pair.origin, "xml")
            props = [(prop.get("type"), prop.text or "") for prop in unit.findall("prop")]
            attributes = {name: value for name, value in unit.attrib.items() if name != "tuid"}
            assert ("x-origin", origin) == props.pop(0) if origin else True
            assert attributes | dict(props) == metadata

    @given(PAIRS)
    def test_altered_pairs_are_counted(self, pairs: list[Pair]) -> None:
        damaged = [pair for pair in pairs if any(without(text, "xml") != text for text in all_texts(pair))]
        assert write("tmx", pairs)[1] == len(damaged)

    def test_layout(self) -> None:
        text, altered = write("tmx", [FULL])
        assert altered == 0
        assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header ')
        assert '<tu tuid="p1" changedate="20200101T000000Z">' in text
        assert '<prop type="x-origin">manual</prop>' in text
        assert '<prop type="client">ACME &amp; Co</prop>' in text
        header = ElementTree.fromstring(text.encode()).find("header")
        assert header is not None
        required = {"creationtool", "creationtoolversion", "segtype", "o-tmf", "adminlang", "srclang", "datatype"}
        assert set(header.attrib) == required
        assert (header.get("creationtool"), header.get("srclang")) == ("nearmt", "de")

    def test_languages_are_escaped(self) -> None:
        out = io.StringIO()
        WRITERS["tmx"]([FULL], out, '"<', "&")
        assert [tuv.get(LANG) for tuv in ElementTree.fromstring(out.getvalue()).iter("tuv")] == ['"<', "&"]


class TestTsv:
    @given(PAIRS)
    def test_pairs_are_read_back_with_blanks_for_breaks(self, folder: Path, pairs: list[Pair]) -> None:
        pairs = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
        path = saved(folder, "tsv", pairs)
        again = list(read_tsv(path, Request(), Report()))
        assert len(again) == len(pairs)
        for read, pair in zip(again, pairs, strict=True):
            assert "".join(read.source.split()) == "".join(pair.source.removeprefix("\ufeff").split())
            assert "".join(read.target.split()) == "".join(pair.target.removeprefix("\ufeff").split())
            if not {*"\t\n\r\ufeff"} & {*pair.source, *pair.target, *pair.origin}:
                expected = pair.source, pair.target, pair.origin or path.name
                assert (read.source, read.target, read.origin) == expected

    @given(PAIRS)
    def test_altered_pairs_are_counted(self, pairs: list[Pair]) -> None:
        def fits(text: str) -> bool:
            return not {*"\t\n\r"} & {*text} and not text.startswith("\ufeff")

        damaged = [p for p in pairs if not (fits(p.source) and fits(p.target) and fits(p.origin))]
        text, altered = write("tsv", pairs)
        assert altered == len(damaged)
        assert text.count("\n") == len(pairs)

    def test_layout(self) -> None:
        assert write("tsv", [FULL, Pair("a\r\n\tb", "c")]) == ("Die Pumpe.\tThe pump.\tmanual\na b\tc\n", 1)

    def test_leading_byte_order_mark_is_removed(self) -> None:
        assert write("tsv", [Pair("\ufeffa\ufeff", "b")]) == ("a\ufeff\tb\n", 1)


class TestPo:
    @given(PAIRS)
    def test_gettext_reads_all_entries(self, folder: Path, pairs: list[Pair]) -> None:
        entries = list(polib.pofile(str(saved(folder, "po", pairs)), encoding="utf-8"))
        found = [(entry.msgid, entry.msgstr) for entry in entries]
        assert found == [(without(pair.source, "po"), without(pair.target, "po")) for pair in pairs]
        keys = [(entry.msgctxt, entry.msgid) for entry in entries]
        assert len(set(keys)) == len(keys) and all(map(any, keys))
        assert not any(entry.obsolete or entry.flags for entry in entries)

    @given(PAIRS)
    def test_altered_pairs_are_counted(self, pairs: list[Pair]) -> None:
        def fits(pair: Pair) -> bool:
            notes = {"origin": pair.origin, **pair.metadata, "context": ""}
            notes["comment"] = notes.get("comment", "").replace("\n", "")
            in_comments = "".join([*notes, *notes.values()])
            return not {*BREAKS} & {*in_comments} and all(without(text, "po") == text for text in all_texts(pair))

        assert write("po", pairs)[1] == sum(not fits(pair) for pair in pairs)

    def test_header_names_languages(self, tmp_path: Path) -> None:
        catalogue = polib.pofile(str(saved(tmp_path, "po", [FULL])))
        assert catalogue.metadata["Language"] == "en-GB"
        assert catalogue.metadata["X-Source-Language"] == "de"
        assert catalogue.metadata["Content-Type"] == "text/plain; charset=UTF-8"

    def test_contexts_make_entries_unique(self, tmp_path: Path) -> None:
        pairs = [
            Pair("Öffnen", "Open", "p1", metadata={"context": "menu"}),
            Pair("Öffnen", "Opening", "p2"),
            Pair("Öffnen", "To open", "p3"),
            Pair("Öffnen", "Open it", "p4", metadata={"context": "menu"}),
            Pair("Öffnen", "Open up"),
            Pair("Öffnen", "Open!"),
            Pair("Zu", "Closed", "p5"),
        ]
        entries = polib.pofile(str(saved(tmp_path, "po", pairs)))
        assert [entry.msgctxt for entry in entries] == ["menu", None, "p3", "p4", "2", "3", None]

    def test_metadata_become_comments(self, tmp_path: Path) -> None:
        pair = Pair("a", "b", origin="manual", metadata={"context": "c", "note": "two\nlines", "client": "ACME"})
        text, altered = write("po", [pair])
        assert altered == 1
        assert text.endswith(
            '\n#. origin: manual\n#. note: two lines\n#. client: ACME\nmsgctxt "c"\nmsgid "a"\nmsgstr "b"\n'
        )

    def test_metadata_of_catalogues_are_restored(self) -> None:
        metadata = {"context": "c", "comment": "Be brief.\nNo dot", "occurrences": "a.c:1 b.c:2"}
        text, altered = write("po", [Pair("a", "b", metadata=metadata)])
        assert altered == 0
        assert text.endswith('\n#. Be brief.\n#. No dot\n#: a.c:1 b.c:2\nmsgctxt "c"\nmsgid "a"\nmsgstr "b"\n')

    def test_strings_are_broken_after_line_feeds(self) -> None:
        text, altered = write("po", [Pair('a "x"\nb', "c\n")])
        assert altered == 0
        assert text.endswith('\nmsgid ""\n"a \\"x\\"\\n"\n"b"\nmsgstr "c\\n"\n')


class TestAll:
    @pytest.mark.parametrize("format", WRITERS)
    def test_segment_of_a_megabyte(self, format: str) -> None:
        long = 'ü \\"&\n' * 200_000
        text, _ = write(format, [Pair(long, long)] * 2)
        assert len(text) > 4 * len(long) * 0.9

    @pytest.mark.parametrize("format", WRITERS)
    def test_pairs_are_streamed(self, format: str) -> None:
        out = io.StringIO()

        def pairs() -> Iterator[Pair]:
            yield FULL
            assert "The pump." in out.getvalue()
            yield FULL

        WRITERS[format](pairs(), out, "de", "en")
        assert out.getvalue().count("The pump.") == 2

    @pytest.mark.parametrize("format", WRITERS)
    def test_file_without_pairs_is_valid(self, format: str, tmp_path: Path) -> None:
        path = saved(tmp_path, format, [])
        assert {"tsv": "", "jsonl": ""}.get(format, path.read_text()) == path.read_text()
        if format == "tmx":
            assert ElementTree.parse(path).find("body") is not None
        if format == "po":
            assert len(polib.pofile(str(path))) == 0
