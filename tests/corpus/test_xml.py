"""Streaming of XML: all text is kept, no other file is read, and broken units do not affect others."""

from __future__ import annotations

import codecs
import gzip
import os
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearmt.corpus.document import Document
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.markup import escaped, quoted, reopened, with_attributes
from nearmt.corpus.report import Report, Request
from nearmt.corpus.tmx import read_tmx, tmx_document
from nearmt.corpus.xliff import read_xliff, xliff_document
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Fragment, Node
from nearmt.errors import InputError
from tests.corpus.files import memory_below, write_file
from tests.corpus.generated import (
    ENCODINGS,
    WILD,
    Made,
    as_bytes,
    carried,
    chunks,
    texts,
    tmx_documents,
    xliff_1_documents,
    xliff_2_documents,
)

SIZES = [1, 2, 3, 7, 64]
#: The elements that readers of TMX and XLIFF look for.
UNITS = frozenset({"tu", "trans-unit", "unit"})
WATCHED = frozenset({"header", "file", "xliff"})
REQUEST = Request("de", "en")
OPENERS: dict[str, Callable[[Path, Request, Report], Document]] = {".tmx": tmx_document, ".xlf": xliff_document}
READERS = {".tmx": read_tmx, ".xlf": read_xliff}
SLOW_TO_DRAW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def tmx(*units: str) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<tmx version="1.4"><header srclang="de"/><body>', *units]
    return "\n".join([*lines, "</body></tmx>", ""])


def tu(source: str, target: str = "") -> str:
    return (
        f'<tu><tuv xml:lang="de"><seg>{source}</seg></tuv><tuv xml:lang="en"><seg>{target or source}</seg></tuv></tu>'
    )


def xliff(*files: str) -> str:
    return "\n".join(['<?xml version="1.0"?>', '<xliff version="1.2">', *files, "</xliff>", ""])


def xliff_file(source: str, target: str, *units: str) -> str:
    return "\n".join([f'<file source-language="{source}" target-language="{target}"><body>', *units, "</body></file>"])


def trans_unit(source: str, target: str = "") -> str:
    return f'<trans-unit id="{source}"><source>{source}</source><target>{target or source}</target></trans-unit>'


NASTY = {
    "empty body": tmx(),
    "an empty element as a body": "<tmx><header/><body/></tmx>",
    "empty elements as units and segments": tmx("<tu/>", '<tu\n/><tu><tuv xml:lang="de"><seg/></tuv></tu>'),
    "a root that is a unit": "<tu><tuv/></tu>",
    "greater-than signs in attributes": tmx("""<tu a="1 > 0" b='"/>' c="'>'"><tuv d='&lt;/tu>'></tuv></tu>"""),
    "slashes at the end of attributes": tmx('<tu a="x/"><tuv b="/"><seg c="/" /></tuv></tu>'),
    "white space within tags": tmx('<tu\n\ta = "1"\r\n><tuv\txml:lang\n=\n"de" ><seg >x</seg\n></tuv ></tu\t>'),
    "comments and instructions everywhere": tmx(
        "<!-- <tu> --><?a <tu>?>",
        "<tu><!-- </tu> --><tuv><?b </tu>?><seg>a<!-- & -->b<?c?>c</seg></tuv></tu><!-- > -->",
    ),
    "cdata": tmx("<tu><tuv><seg><![CDATA[<tu>&amp;]]]]><![CDATA[></tu>]]></seg></tuv></tu>", "<![CDATA[<tu>]]>"),
    "character references": tmx(tu("&#x1F600;&#10;&#13;&#9;&amp;&lt;&gt;&quot;&apos;&#228;")),
    "a document type": '<!DOCTYPE tmx SYSTEM "no.dtd" [<!ELEMENT seg ANY><!ATTLIST tu a CDATA ">">]><tmx><tu/></tmx>',
    "many scripts": tmx(tu("שלום العالم 😀 中文 \u200f\u2028\u0085 e\u0301 \U0010fffd")),
    "prefixes": '<t:tmx xmlns:t="urn:t"><t:header/><t:body><t:tu><t:tuv/></t:tu><t:tu/></t:body></t:tmx>',
    "crlf": tmx(tu("a\nb"), tu("c")).replace("\n", "\r\n"),
    "bare carriage returns": tmx(tu("a\nb"), tu("c")).replace("\n", "\r"),
    "no line end at the end": tmx(tu("a")).rstrip("\n"),
    "text before and behind units": tmx("a", tu("b"), "c", tu("d"), "e"),
    "a long segment": tmx(tu("x" * 100_000), tu("y")),
    "a long tag": tmx(f'<tu a="{"x" * 20_000}"><tuv/></tu>', "<tu/>"),
    "xliff 1": xliff(xliff_file("de", "en", trans_unit("a"), "<group>", trans_unit("b"), "</group>")),
    "xliff 2": '<xliff srcLang="de"><file><unit id="u"><segment><source>a</source></segment></unit></file></xliff>',
    # Not XML, or incomplete
    "nothing": "",
    "white space": " \n\n",
    "no xml": "no xml",
    "a broken unit": tmx(tu("a"), tu("b & c"), tu("d")),
    "broken units only": tmx(*[tu("ä & b")] * 3),
    "a missing end tag": tmx(tu("a"), tu("b").removesuffix("</tu>"), tu("c")),
    "the end is missing": tmx(tu("a"), tu("ü"))[:-40],
    "two roots": tmx(tu("a")) + tmx(tu("b")),
    "something before the document": "x" + tmx(tu("a"), tu("b")),
    "bytes that are no text": tmx(tu("a"), tu("ä\udcff\udc80b"), tu("ü")),
    "bytes that look like a character": tmx(tu("a"), tu("\udcc3\udcbc"), tu("ü")),
    "a broken unit among characters of many bytes": tmx(tu("中 & 文"), "中文😀" * 60, tu("ü")),
    "a broken unit, then a long text": tmx(tu("a & b"), "😀中文ä" * 500, tu("ü"), "ä"),
    "null": tmx(tu("a"), tu("\0"), tu("b")),
}


WITHOUT_END = ("nothing", "white space", "no xml", "the end is missing")


def scanned(
    texts: Iterable[str], report: Report | None = None, limits: LimitsConfig = DEFAULT_LIMITS
) -> list[Fragment]:
    """Return the fragments, with adjacent text joined, and check that they form the document."""
    texts = list(texts)
    found = list(UnitScanner(Path("a.tmx"), report or Report(), UNITS, WATCHED, limits).scan(texts))
    assert "".join(fragment.text for fragment in found) == "".join(texts)
    merged: list[Fragment] = []
    for fragment in found:
        if fragment.node is None and merged and merged[-1].node is None:
            merged[-1] = Fragment(merged[-1].raw + fragment.raw)
        else:
            merged.append(fragment)
    return merged


def unit_texts(fragments: list[Fragment]) -> list[str]:
    return [fragment.node.text() for fragment in fragments if fragment.is_unit and fragment.node is not None]


def whole(document: Document) -> bytes:
    text = "".join(part.raw for part in document.parts)
    return document.encoding.bom + text.encode(document.encoding.name, document.encoding.errors)


def read(path: Path, strict: bool = False) -> tuple[list[tuple[str, str]], Report]:
    report = Report(strict=strict)
    pairs = [(pair.source, pair.target) for pair in READERS[path.suffix](path, REQUEST, report)]
    return pairs, report


def written(folder: Path, content: str | bytes, name: str = "a.tmx") -> Path:
    return write_file(folder, content, name)


def problem_lines(report: Report, path: Path) -> list[str]:
    """Return the line numbers of the problems."""
    prefix = f"{path}, line "
    assert all(problem.startswith(prefix) for problem in report.problems)
    return [problem.removeprefix(prefix).split(":")[0] for problem in report.problems]


# All text is kept


@pytest.mark.parametrize("name", NASTY)
def test_fragments_form_the_document(name: str) -> None:
    assert b"".join(fragment.raw for fragment in scanned([NASTY[name]])).decode("utf-8", "surrogatepass") == NASTY[name]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [name for name in NASTY if len(NASTY[name]) < 10_000])
def test_result_does_not_depend_on_the_size_of_chunks(name: str, size: int) -> None:
    at_once, system_dependent = Report(), Report()
    assert scanned(chunks(NASTY[name], size), system_dependent) == scanned([NASTY[name]], at_once)
    assert system_dependent.problems == at_once.problems


@pytest.mark.parametrize("size", [1000, 4096, 65_536])
@pytest.mark.parametrize("name", ["a long segment", "a long tag"])
def test_long_documents_in_chunks(name: str, size: int) -> None:
    assert scanned(chunks(NASTY[name], size)) == scanned([NASTY[name]])


@given(
    st.sampled_from(["a long tag", "a missing end tag", "prefixes", "many scripts", "two roots"]),
    st.lists(st.integers(1, 30_000), max_size=6),
)
@settings(deadline=None, max_examples=60)
def test_result_does_not_depend_on_the_cuts_between_chunks(name: str, cuts: list[int]) -> None:
    text = NASTY[name]
    ends = sorted({cut % (len(text) + 1) for cut in cuts})
    texts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    assert scanned(texts) == scanned([text])


@pytest.mark.parametrize(("codec", "bom", "declared"), ENCODINGS)
@pytest.mark.parametrize("suffix", OPENERS)
def test_document_is_written_back_unchanged(codec: str, bom: bytes, declared: str, suffix: str, tmp_path: Path) -> None:
    for name, text in NASTY.items():
        body = text.removeprefix('<?xml version="1.0" encoding="UTF-8"?>').removeprefix('<?xml version="1.0"?>')
        if not bom and codec.startswith("utf-16") and not body.strip():
            continue
        body = "".join(character for character in body if not "\ud800" <= character <= "\udfff")
        raw = as_bytes(f'<?xml version="1.0" encoding="{declared}"?>' + body, codec, bom)
        path = written(tmp_path, raw, "a" + suffix)
        if name in WITHOUT_END:
            with pytest.raises(InputError, match="get a complete"):
                whole(OPENERS[suffix](path, Request(), Report()))
        else:
            assert whole(OPENERS[suffix](path, Request(), Report())) == raw


@pytest.mark.parametrize("declared", ["UTF-8", "us-ascii", "ISO-8859-1", "windows-1252", "Shift_JIS", "koi8-r"])
def test_undecodable_bytes_are_written_back(declared: str, tmp_path: Path) -> None:
    raw = tmx(tu("a"), tu("BYTES"), tu("b")).replace("UTF-8", declared).encode()
    for junk in (b"\xff\xfe", "ü".encode(), "ü€😀".encode(), b"\x81\x8d\x8f\x90\x9d", bytes(range(128, 256))):
        path = written(tmp_path, raw.replace(b"BYTES", b"x & y" + junk))
        assert whole(tmx_document(path, Request(), Report())) == path.read_bytes()
        pairs, _ = read(path)
        assert [pairs[0], pairs[-1]] == [("a", "a"), ("b", "b")]


def test_wrong_declaration_gives_no_wrong_text(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("a"), tu("grün"), tu("b")).replace("UTF-8", "us-ascii"))
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b")]
    assert problem_lines(report, path) == ["4"]


def test_compressed_document(tmp_path: Path) -> None:
    raw = tmx(tu("ä"), tu("b")).encode()
    path = written(tmp_path, gzip.compress(raw), "a.tmx.gz")
    assert whole(tmx_document(path, Request(), Report())) == raw


DOCUMENTS = st.one_of(tmx_documents(), xliff_1_documents(), xliff_2_documents(), xliff_1_documents(prefix="xlf"))


@given(DOCUMENTS, st.sampled_from(SIZES))
@SLOW_TO_DRAW
def test_generated_documents_in_chunks(made: Made, size: int) -> None:
    report = Report()
    assert scanned(chunks(made.text, size), report) == scanned([made.text])
    assert report.problems == []


@given(st.data(), st.sampled_from(ENCODINGS))
@SLOW_TO_DRAW
def test_generated_documents_in_any_encoding(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, encoding: tuple[str, bytes, str]
) -> None:
    codec, bom, declared = encoding
    suffix, documents = data.draw(
        st.sampled_from([(".tmx", tmx_documents), (".xlf", xliff_1_documents), (".xlf", xliff_2_documents)])
    )
    raw = as_bytes(data.draw(documents(declared)).text, codec, bom)
    path = written(tmp_path_factory.getbasetemp(), raw, "any" + suffix)
    report = Report()
    assert whole(OPENERS[suffix](path, Request(), report)) == raw
    assert report.problems == []


@given(DOCUMENTS)
@SLOW_TO_DRAW
def test_nodes_equal_those_of_a_tree_parser(made: Made) -> None:
    root = ElementTree.fromstring(made.text)
    names = [f"{{{root.tag[1:].split('}')[0]}}}{name}" if root.tag[0] == "{" else name for name in sorted(UNITS)]
    trees = [element for element in root.iter() if element.tag in names]
    units = [fragment for fragment in scanned([made.text]) if fragment.is_unit]
    assert len(units) == len(trees)
    for unit, tree in zip(units, trees, strict=True):
        assert unit.node is not None
        _compare(unit, unit.node, tree)


def _compare(unit: Fragment, node: Node, tree: ElementTree.Element) -> None:
    assert node.name == tree.tag.rpartition("}")[2]
    assert node.text() == "".join(tree.itertext())
    assert list(node.attributes.values()) == list(tree.attrib.values())
    assert unit.slice(node.start, node.inner).startswith(f"<{node.prefix}{node.name}")
    ended = unit.slice(node.inner_end, node.end)
    assert ended.startswith(f"</{node.prefix}{node.name}") if ended else unit.slice(node.start, node.end).endswith("/>")
    children = [child for child in node.children if isinstance(child, Node)]
    assert not any(isinstance(a, str) and isinstance(b, str) for a, b in pairwise(node.children))
    for child, subtree in zip(children, tree, strict=True):
        assert node.inner <= child.start < child.end <= node.inner_end
        _compare(unit, child, subtree)


def test_units_have_their_enclosing_elements() -> None:
    text = '<a x="1"><b><tu/></b><file id="f"><c><unit/></c></file></a>'
    found = [(s.text, [node.name for node in s.around]) for s in scanned([text]) if s.node is not None]
    assert found == [("<tu/>", ["a", "b"]), ('<file id="f">', ["a"]), ("<unit/>", ["a", "file", "c"])]


# Broken units


BROKEN = {
    "an ampersand": "a & b",
    "an undeclared entity": "a&nbsp;b",
    "a less-than sign": "a < b",
    "an end tag that fits nothing": "a</b>",
    "a start tag without its end": "a<hi>b",
    "tags crosswise": "<hi><ph></hi></ph>",
    "an attribute twice": '<ph x="1" x="1"/>',
    "an attribute without quotes": "<ph x=1/>",
    "an attribute without a value": "<ph x/>",
    "a null": "a\0b",
    "a control character": "a\x0bb",
    "a control character as a reference": "&#1;",
    "no character": "&#x110000;",
    "half a surrogate pair": "&#xD800;",
    "a byte that is no text": "a\udcffb",
    "half a character": "a\udcc3b",
    "a comment with two hyphens": "a<!-- -- -->b",
    "a cdata end": "a]]>b",
    "a unit in a unit": "<tu></tu>",
    "too many levels": "<hi>" * 80 + "</hi>" * 80,
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("doctype", ["", '<!DOCTYPE tmx SYSTEM "nowhere.dtd">'])
def test_units_around_a_broken_one_are_read(name: str, doctype: str, tmp_path: Path) -> None:
    text = tmx(tu("a"), "", tu(BROKEN[name], "x"), tu("b"), "", tu("c")).replace("?>\n", f"?>{doctype}\n", 1)
    path = written(tmp_path, text)
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b"), ("c", "c")]
    assert problem_lines(report, path) == ["5"]
    with pytest.raises(InputError, match=r"a\.tmx, line 5: broken XML: ") as caught:
        read(path, strict=True)
    assert "\n" not in str(caught.value)
    assert whole(tmx_document(path, REQUEST, Report())) == path.read_bytes()


@pytest.mark.parametrize("name", BROKEN)
def test_line_of_an_error_in_a_long_unit(name: str, tmp_path: Path) -> None:
    lines = ["<tu>", '<tuv xml:lang="de">', "<seg>", BROKEN[name], "</seg>", "</tuv>", "</tu>"]
    path = written(tmp_path, tmx(tu("a"), *lines, *lines, tu("b")))
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b")]
    first, second = map(int, problem_lines(report, path))
    assert first in {7, 8} and second == first + 7


def test_missing_end_tag_of_a_unit(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("a"), tu("x").removesuffix("</tu>"), tu("b"), tu("c")))
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b"), ("c", "c")]
    assert [problem.partition(": ")[2] for problem in report.problems] == [
        "broken XML: <tu> within <tu>: an end tag is missing"
    ]


def test_missing_start_tag_of_a_unit(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("a"), tu("x").removeprefix("<tu>"), tu("b"), tu("c")))
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b"), ("c", "c")]
    assert problem_lines(report, path) == ["4"]


@pytest.mark.parametrize("junk", ["</body>", "</b>", "<b>", "&", "<", "<!-- -- -->", "<b x=1>", "]]>", "</tu>", "\0"])
def test_error_between_units(junk: str, tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("a"), junk, tu("b"), tu("c")))
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b"), ("c", "c")]
    assert report.problem_count == 1
    assert whole(tmx_document(path, REQUEST, Report())) == path.read_bytes()


@pytest.mark.parametrize("junk", ["garbage", "\n\n", "<", "\0", "%PDF-1.7\n", "</tmx>", "<tmx/>", "&amp;"])
def test_text_before_the_document_is_one_problem(junk: str, tmp_path: Path) -> None:
    path = written(tmp_path, junk + tmx(tu("a"), tu("b"), tu("c")))
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b"), ("c", "c")]
    assert report.problem_count == 1


def test_two_documents_in_one_file(tmp_path: Path) -> None:
    other = tmx(*[unit.replace('"de"', '"fr"') for unit in (tu("x"), tu("y"))]).replace('srclang="de"', 'srclang="fr"')
    path = written(tmp_path, tmx(tu("a")) + other)
    report = Report()
    pairs = [(pair.source, pair.target) for pair in read_tmx(path, Request(), report)]
    assert pairs == [("a", "a"), ("x", "x"), ("y", "y")]
    assert problem_lines(report, path) == ["5"]


@pytest.mark.parametrize("count", [1, 3, 200])
def test_every_broken_unit_is_a_problem(count: int, tmp_path: Path) -> None:
    path = written(tmp_path, tmx(*[tu("x & y"), tu("ä")] * count))
    pairs, report = read(path)
    assert pairs == [("ä", "ä")] * count
    assert problem_lines(report, path) == [str(3 + 2 * n) for n in range(count)]


@pytest.mark.parametrize(("codec", "bom", "declared"), ENCODINGS)
def test_line_numbers_in_long_files(codec: str, bom: bytes, declared: str, tmp_path: Path) -> None:
    end = "\r\n" if bom else "\n"
    many = [tu(f"{number} ä", "x" * 1000) for number in range(400)]
    many[7] = many[200] = many[390] = tu("a & b")
    path = written(tmp_path, as_bytes(tmx(*many).replace("UTF-8", declared).replace("\n", end), codec, bom))
    pairs, report = read(path)
    assert len(pairs) == 397
    assert problem_lines(report, path) == ["10", "203", "393"]
    assert whole(tmx_document(path, REQUEST, Report())) == path.read_bytes()


@pytest.mark.parametrize("prefix", ["", "xlf:"])
@pytest.mark.parametrize("lost", ["<source>x & y</source>", "<source>x", "</group>"])
def test_languages_of_later_files_are_known_after_a_broken_unit(lost: str, prefix: str, tmp_path: Path) -> None:
    broken = f'<trans-unit id="x">{lost}</trans-unit>'
    text = xliff(
        xliff_file("de", "en", trans_unit("a"), broken),
        xliff_file("de", "fr", trans_unit("b")),
        xliff_file("de", "en", trans_unit("c")),
    )
    text = text.replace("</", "\0").replace("<", f"<{prefix}").replace("\0", f"</{prefix}").replace(f"<{prefix}?", "<?")
    path = written(tmp_path, text, "a.xlf")
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("c", "c")]
    assert report.problem_count == 1 and report.skipped == {"other languages": 1}


def test_unclosed_file_before_the_next_one(tmp_path: Path) -> None:
    first = xliff_file("de", "en", trans_unit("a"), "<group>").removesuffix("</body></file>")
    first += '<trans-unit id="x"><source>x</source></body></file>'
    path = written(tmp_path, xliff(first, xliff_file("en", "de", trans_unit("b", "c"))), "a.xlf")
    assert read(path)[0] == [("a", "a"), ("c", "b")]
    with pytest.raises(InputError, match=r"a\.xlf, line 7: is en to de, the model translates de to en"):
        whole(xliff_document(path, REQUEST, Report()))


@pytest.mark.parametrize(
    "text", [tmx(tu("ä", "é"), tu("x &amp; y", "<hi>z</hi>"), tu("😀")), xliff(xliff_file("de", "en", trans_unit("ä")))]
)
def test_truncated_files_are_refused(text: str, tmp_path: Path) -> None:
    raw = text.encode()
    suffix = ".tmx" if "<tmx" in text else ".xlf"
    everything, _ = read(written(tmp_path, raw, "a" + suffix))
    closed = raw.rindex(b">") + 1
    for end in range(closed):
        path = written(tmp_path, raw[:end], "a" + suffix)
        pairs, report = read(path)
        assert pairs == everything[: len(pairs)]
        assert len(pairs) == len(_complete(raw[:end].decode("utf-8", "ignore")))
        (line,) = problem_lines(report, path)
        assert 1 <= int(line) <= raw[:end].count(b"\n") + 1
        with pytest.raises(InputError, match=rf"a{suffix}.*: broken XML: .*; get a complete"):
            whole(OPENERS[suffix](path, REQUEST, Report()))
        with pytest.raises(InputError, match=rf"a{suffix}, line {line}: "):
            read(path, strict=True)


def _complete(text: str) -> list[str]:
    return [part for part in text.replace("</trans-unit>", "</tu>").split("</tu>")[:-1] if part]


# Not a document


@pytest.mark.parametrize(
    "content", [b"", b" \n\t\n", codecs.BOM_UTF8, b"\0" * 100, b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"]
)
@pytest.mark.parametrize("suffix", OPENERS)
def test_file_that_is_not_a_document_is_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path, content, "a" + suffix)
    pairs, report = read(path)
    assert pairs == [] and report.problem_count == 1
    with pytest.raises(InputError, match=rf"a{suffix}, line \d+: broken XML"):
        read(path, strict=True)
    with pytest.raises(InputError, match=rf"a{suffix}.*: broken XML: .*; get a complete"):
        whole(OPENERS[suffix](path, REQUEST, Report()))


def test_unknown_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.tmx: declares the encoding 'klingon'"):
        read(written(tmp_path, tmx(tu("a")).replace("UTF-8", "klingon")))


@pytest.mark.parametrize("declared", ["UTF-16", "utf-16le", "UTF-32"])
def test_impossible_declaration_is_ignored(declared: str, tmp_path: Path) -> None:
    assert read(written(tmp_path, tmx(tu("ä")).replace("UTF-8", declared)))[0] == [("ä", "ä")]


def test_truncated_utf_16(tmp_path: Path) -> None:
    path = written(tmp_path, codecs.BOM_UTF16_LE + tmx(tu("a")).encode("utf-16-le")[:-1])
    with pytest.raises(InputError, match="not utf-16-le"):
        read(path)


# Entities and external files


LAUGHS = "<!DOCTYPE tmx [\n<!ENTITY a 'ha'>\n" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>\n" for n in range(12)
)
DOORS = {
    "a billion laughs": (LAUGHS + "]>", "&m;", 2),
    "an internal entity": ("<!DOCTYPE tmx [<!ENTITY x 'y'>]>", "&x;", 1),
    "an external entity": ('<!DOCTYPE tmx [\n\n<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;", 3),
    "a parameter entity": ('<!DOCTYPE tmx [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]>', "", 1),
    "an unparsed entity": ('<!DOCTYPE tmx [<!NOTATION n SYSTEM "n"><!ENTITY x SYSTEM "y" NDATA n>]>', "", 1),
}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("strict", [True, False])
def test_files_with_entities_are_refused(name: str, strict: bool, tmp_path: Path) -> None:
    doctype, reference, line = DOORS[name]
    text = doctype + tmx(tu("a"), tu(reference)).partition("\n")[2]
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=rf"a\.tmx, line {line}: declares the entity '\w'") as caught:
        read(path, strict=strict)
    assert "root:" not in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="declares the entity"):
        whole(tmx_document(path, REQUEST, Report()))


def test_no_external_file_is_opened(tmp_path: Path) -> None:
    """Opening the pipe would block."""
    os.mkfifo(tmp_path / "tmx14.dtd")
    doctype = (
        f'<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for Translation Memory eXchange//EN" "{tmp_path}/tmx14.dtd">'
    )
    doctype += f'<?xml-stylesheet href="{tmp_path}/tmx14.dtd"?>'
    path = written(tmp_path, tmx(tu("a")).replace("?>\n", f"?>\n{doctype}\n", 1))
    assert read(path)[0] == [("a", "a")]


def test_entity_between_units_is_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, '<!DOCTYPE tmx SYSTEM "x.dtd">' + tmx(tu("a"), "&nbsp;", tu("b")).partition("\n")[2])
    pairs, report = read(path)
    assert pairs == [("a", "a"), ("b", "b")] and report.problems == []


# Depth and size


@pytest.mark.parametrize("levels", [100, 10_000])
def test_maximum_depth(levels: int, tmp_path: Path) -> None:
    deep = "<a>" * levels, "</a>" * levels
    within = tmx(tu("a"), tu("x".join(deep)), tu("b"))
    around = tmx(tu("a"), deep[0], tu("b"), tu("c"), deep[1], tu("d"))
    between = tmx(tu("a"), "".join(deep), tu("b"))
    for text, expected, problems in ((within, "ab", 1), (around, "abcd", 0), (between, "ab", 0)):
        path = written(tmp_path, text)
        pairs, report = read(path)
        assert [source for source, _ in pairs] == list(expected)
        assert report.problem_count == problems
        assert all("nested more than 64 deep" in problem for problem in report.problems)
        assert whole(tmx_document(path, REQUEST, Report())) == path.read_bytes()


def test_languages_of_deeply_nested_units(tmp_path: Path) -> None:
    deep = ["<group>" * 1000, trans_unit("a"), "</group>" * 1000, trans_unit("b")]
    text = xliff(xliff_file("de", "en", *deep), xliff_file("de", "fr", *deep), xliff_file("de", "en", *deep))
    pairs, report = read(written(tmp_path, text, "a.xlf"))
    assert pairs == [("a", "a"), ("b", "b")] * 2
    assert report.problems == [] and report.skipped == {"other languages": 2}


def test_deeply_nested_units_record_few_elements() -> None:
    text = "<a>" * 10_000 + "<b></b><tu/>" * 5000
    with memory_below(40_000_000):
        assert sum(fragment.is_unit for fragment in scanned(chunks(text, 1 << 18))) == 5000


@pytest.mark.parametrize("opened", ["<tu><tuv><seg>", "<!--", "<?pi", '<tu a="'])
def test_unclosed_constructs_are_limited(opened: str) -> None:
    text = tmx(tu("a"), opened, "x" * 2_500_000, "\n", tu("b"))
    report = Report()
    assert unit_texts(scanned(chunks(text, 100_000), report, LimitsConfig(max_unit=1))) == ["aa", "bb"]
    assert report.problem_count == 1


def test_segment_of_a_megabyte(tmp_path: Path) -> None:
    long = ("ä&amp;<hi>😀</hi>\n" + "word " * 20) * 8000
    path = written(tmp_path, tmx(tu("a"), tu(long), tu("b")))
    pairs, report = read(path)
    assert [len(source) for source, _ in pairs] == [1, 104 * 8000, 1] and report.problems == []
    assert whole(tmx_document(path, REQUEST, Report())) == path.read_bytes()


def repeated(head: str, block: str, megabytes: int) -> Iterator[str]:
    yield head
    text = block * (65_536 // len(block) + 1)
    for _ in range((megabytes << 20) // len(text)):
        yield text


@pytest.mark.parametrize(
    ("head", "block", "megabytes"),
    [
        ("<tmx><body>", tu("word " * 800), 60),
        ("<tmx><body>", tu("some words") + "\n", 1),
        ("<tmx><body>", "text between units ", 60),
        ("<tmx><body>", "<!-- a comment -->\n", 30),
        ("<tmx><body><tu><seg>&", "and then no unit any more ", 60),
        ("<tmx><body>", tu("a & b " + "word " * 800), 20),
    ],
)
def test_stream_is_read_in_little_memory(head: str, block: str, megabytes: int) -> None:
    scanner = UnitScanner(Path("a.tmx"), Report(), UNITS, WATCHED)
    with memory_below(10_000_000):
        length = sum(len(fragment.raw) for fragment in scanner.scan(repeated(head, block, megabytes)))
    assert length > megabytes * 900_000


def test_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    with path.open("w") as file:
        file.writelines(repeated('<tmx><header srclang="de"/><body>', tu("Wort " * 2000, "word " * 2000), 60))
        file.write("</body></tmx>")
    with memory_below(20_000_000):
        count = sum(1 for _ in read_tmx(path, REQUEST, Report(strict=True)))
    assert count > 2800


# Damage


SOUND = {
    "a.tmx": tmx(tu("ä"), tu('<bpt i="1">x</bpt>y<ept i="1"/>', "z &amp;"), "<!-- c -->", tu("<![CDATA[😀]]>")),
    "b.tmx": '<!DOCTYPE tmx SYSTEM "x"><t:tmx xmlns:t="u"><t:tu><t:tuv xml:lang="de"><t:seg/></t:tuv></t:tu></t:tmx>',
    "a.xlf": xliff(xliff_file("de", "en", trans_unit("ä"), "<group>", trans_unit("b"), "</group>")),
    "b.xlf": '<xliff srcLang="de" trgLang="en"><file id="f"><unit id="u"><notes><note>n</note></notes><segment>'
    '<source>ü<pc id="1">b</pc></source><target>c</target></segment></unit></file></xliff>',
}
EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "put"]), st.integers(0, 10**6), st.binary(min_size=1, max_size=8)),
    min_size=1,
    max_size=6,
)


def damaged(raw: bytes, edits: list[tuple[str, int, bytes]]) -> bytes:
    for kind, position, new in edits:
        at = position % (len(raw) + 1)
        raw = raw[:at] + (new if kind != "cut" else b"") + raw[at + (len(new) if kind != "put" else 0) :]
    return raw


@given(st.sampled_from(sorted(SOUND)), EDITS)
@settings(deadline=None, max_examples=400)
def test_damaged_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, edits: list[tuple[str, int, bytes]]
) -> None:
    survives(written(tmp_path_factory.getbasetemp(), damaged(SOUND[name].encode(), edits), "damaged-" + name))


@pytest.mark.parametrize("name", SOUND)
def test_damage_with_xml_syntax(name: str, tmp_path: Path) -> None:
    """Random bytes seldom form XML syntax."""
    chance = random.Random(0)
    signs = ["<", ">", "&", "'", '"', "/", "<!--", "-->", "]]>", "<![CDATA[", "<tu>", "</tu>", "<a:>", ":", "<unit>"]
    signs += [
        "</unit>",
        "<file>",
        "</file>",
        "<header/>",
        "<xliff>",
        "&#0;",
        "&x;",
        "<?",
        "?>",
        "<!DOCTYPE a>",
        "ä",
        "\0",
    ]
    for _ in range(400):
        raw = SOUND[name].encode()
        for _ in range(chance.randint(1, 4)):
            at, sign = chance.randrange(len(raw) + 1), chance.choice(signs).encode()
            raw = raw[:at] + sign + raw[at + chance.choice([0, 0, 1, len(sign), 30]) :]
        survives(written(tmp_path, raw, name))


def survives(path: Path) -> None:
    """Check that only an InputError is raised, and the document is unchanged."""
    raw = path.read_bytes()
    try:
        pairs, report = read(path)
        document = OPENERS[path.suffix](path, Request(), Report())
        assert whole(document) == raw
    except InputError:
        return
    assert len(pairs) <= report.units
    text = raw.decode(document.encoding.name, document.encoding.errors)
    assert scanned(chunks(text, 5)) == scanned([text])


# Small edits of XML text


@given(texts(WILD, max_size=40), st.sampled_from(["utf-8", "ascii", "iso-8859-1", "utf-16-le", "shift_jis"]))
def test_escaped_text_is_read_back(text: str, encoding: str) -> None:
    possible = carried(text)
    content = escaped(text, encoding)
    assert content.encode(encoding).decode(encoding) == content
    assert (ElementTree.fromstring(f"<a>{content}</a>").text or "") == possible
    value = ElementTree.fromstring(f"<a b={quoted(text, encoding)}/>").attrib["b"]
    assert value == carried(" ".join(text.split()))


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<a>", '<a state="new">'),
        ("<a/>", '<a state="new"/>'),
        ("<a />", '<a state="new" />'),
        ("<a state='old'>", '<a state="new">'),
        ('<a\n\tstate = "old" b="c"\n>', '<a b="c" state="new"\n>'),
        ('<a state-qualifier="x">', '<a state-qualifier="x" state="new">'),
        ('<a my:state="x">', '<a my:state="x" state="new">'),
        ("""<a b=' state="old" '>""", """<a b=' state="old" ' state="new">"""),
        ('<a b="/>">', '<a b="/>" state="new">'),
    ],
)
def test_attributes_are_set_and_others_kept(tag: str, expected: str) -> None:
    assert with_attributes(tag, {"state": "new"}, "utf-8") == expected


@pytest.mark.parametrize(
    ("tag", "start", "end"),
    [
        ("<a>", "<a>", "</a>"),
        ("<a/>", "<a>", "</a>"),
        ("<x:a b='/' />", "<x:a b='/'>", "</x:a>"),
        ('<a\nb="/>"\n>', '<a\nb="/>">', "</a>"),
    ],
)
def test_empty_element_is_opened(tag: str, start: str, end: str) -> None:
    assert reopened(tag) == (start, end)
