"""TMX as a memory and as a document."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.document import (
    Filling,
    FillingOrigin,
    Match,
    Part,
    Segment,
    Tag,
    TagKind,
    Unit,
    plain_text,
    text_digest,
)
from nearmt.corpus.report import Report, Request
from nearmt.corpus.tmx import read_tmx, tmx_document
from nearmt.languages import best_fit
from tests.corpus.files import Choice, fill_file, tree, with_text, write_file
from tests.corpus.generated import ENCODINGS, Made, Outline, as_bytes, carried, fillings, markup, outline, tmx_documents

REQUEST = Request("de", "en")
EXACT = frozenset({"seg", "prop", "note"})
SLOW_TO_DRAW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def tmx(*units: str, srclang: str = "de", tool: str = "other") -> str:
    header = f'<header creationtool="{tool}" srclang="{srclang}"/>'
    return "\n".join(['<tmx version="1.4">', header, "<body>", *units, "</body>", "</tmx>", ""])


def tu(*variants: str, attributes: str = "", head: str = "") -> str:
    """Make a unit of variants `language: content`."""
    lines = [variant.partition(": ") for variant in variants]
    tuvs = [f'  <tuv xml:lang="{language}"><seg>{content}</seg></tuv>' for language, _, content in lines]
    return "\n".join([f"<tu{attributes}>{head}", *tuvs, "</tu>"])


def written(folder: Path, text: str | bytes, name: str = "a.tmx") -> Path:
    return write_file(folder, text, name)


def read(path: Path, request: Request = REQUEST) -> tuple[list[Pair], Report]:
    report = Report()
    return list(read_tmx(path, request, report)), report


def pairs(path: Path, request: Request = REQUEST) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read(path, request)[0]]


def parts(path: Path, request: Request = REQUEST) -> list[Part]:
    return list(tmx_document(path, request, Report(strict=True)).parts)


def units(path: Path, request: Request = REQUEST) -> list[Unit]:
    return [unit for part in parts(path, request) for unit in part.units]


def filled(path: Path, choose: Choice, request: Request = REQUEST) -> Path:
    return fill_file(tmx_document, path, choose, request)


def fill_missing(text: str) -> Choice:
    return lambda unit: None if unit.target else with_text(text)(unit)


# Languages


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (("de", "en"), [("deutsch", "english")]),
        (("en", "de"), [("english", "deutsch")]),
        (("fr", "en"), [("français", "english")]),
        (("de-AT", "en_GB"), [("deutsch", "english")]),
        (("DE", "EN"), [("deutsch", "english")]),
        (("de", "it"), []),
        (("it", "en"), []),
        ((None, None), [("deutsch", "english")]),
        ((None, "fr"), [("deutsch", "français")]),
        (("fr", None), [("français", "deutsch")]),
    ],
)
def test_pairs_of_any_two_languages(
    request_: tuple[str | None, str | None], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = written(tmp_path, tmx(tu("de: deutsch", "en: english", "fr: français")))
    assert pairs(path, Request(*request_)) == expected
    _, report = read(path, Request(*request_))
    assert report.skipped == ({} if expected else {"without both languages": 1}) and report.units == 1
    assert report.languages == {"de": 1, "en": 1, "fr": 1}


@pytest.mark.parametrize(
    ("languages", "wanted", "expected"),
    [
        (["de-AT"], "de", "de-AT"),
        (["de-AT", "de"], "de", "de"),
        (["de", "de-AT"], "de-AT", "de-AT"),
        (["de-DE", "de-AT"], "de-AT", "de-AT"),
        (["de-DE", "de-CH"], "de-AT", "de-DE"),
        (["DE_at", "de"], "de-AT", "DE_at"),
        (["de-at", "de"], "de_AT", "de-at"),
        (["dex", "de"], "de", "de"),
        (["", "DE"], "de", "DE"),
    ],
)
def test_best_matching_region_is_chosen(languages: list[str], wanted: str, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("en: x", *(f"{language}: {language or 'none'}" for language in languages))))
    assert pairs(path, Request("en", wanted)) == [("x", expected)]
    assert pairs(path, Request(wanted, "en")) == [(expected, "x")]


def test_pairs_of_two_regions(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("en-US: color", "en-GB: colour"), tu("en-US: lift")))
    assert pairs(path, Request("en-GB", "en-US")) == [("colour", "color")]
    assert pairs(path, Request("en-US", "en-GB")) == [("color", "colour")]


def test_language_attributes_of_tmx_1_1(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("de: a", "en: b")).replace("xml:lang", "lang"))
    assert pairs(path) == [("a", "b")]


@pytest.mark.parametrize("srclang", ["*all*", ""])
def test_first_variant_is_the_default_source(srclang: str, tmp_path: Path) -> None:
    text = tmx(tu("fr: a", "de: b"), tu("de: c", "fr: d"), tu("de: e"), srclang=srclang)
    assert pairs(written(tmp_path, text), Request()) == [("a", "b"), ("c", "d")]


def test_source_language_of_a_unit_overrides_the_header(tmp_path: Path) -> None:
    text = tmx(
        tu("de: a", "fr: b"),
        tu("de: c", "fr: d", attributes=' srclang="fr"'),
        tu("fr: e", "de: f", attributes=' srclang="*all*"'),
    )
    path = written(tmp_path, text)
    assert pairs(path, Request()) == [("a", "b"), ("d", "c"), ("e", "f")]
    assert pairs(path, Request("de", "fr")) == [("a", "b"), ("c", "d"), ("f", "e")]


def test_incomplete_units_are_skipped(tmp_path: Path) -> None:
    text = tmx(
        "<tu/>",
        "<tu></tu>",
        '<tu><tuv xml:lang="de"/><tuv xml:lang="en"><seg>x</seg></tuv></tu>',
        "<tu><tuv><seg>x</seg></tuv><tuv><seg>y</seg></tuv></tu>",
        tu("de: a", "en: b"),
    )
    found, report = read(written(tmp_path, text))
    assert [pair.source for pair in found] == ["a"]
    assert report.units == 5 and report.skipped == {"without both languages": 4} and report.problems == []
    assert pairs(tmp_path / "a.tmx", Request()) == [("a", "b")]


# Metadata


def test_attributes_and_properties_are_kept(tmp_path: Path) -> None:
    head = '<prop type="client">A &amp; B</prop><prop>x</prop><note>n</note>'
    unit = tu("de: a", "en: b", attributes=' tuid="7" creationid="me" usagecount="3"', head=head)
    unit = unit.replace(
        '<tuv xml:lang="en">', '<tuv xml:lang="en" changedate="2024" creationid="you"><prop type="q">z</prop>'
    )
    ((pair,), _) = read(written(tmp_path, tmx(unit)))
    assert pair.id == "a.tmx:7" and pair.origin == "a.tmx"
    assert pair.metadata == {
        "tuid": "7", "creationid": "you", "changedate": "2024", "client": "A & B", "prop": "x", "q": "z"
    }  # fmt: skip


def test_identities_of_exported_pairs_are_kept(tmp_path: Path) -> None:
    head = '<prop type="x-origin">manual.tmx</prop>'
    text = tmx(tu("de: a", "en: b", attributes=' tuid="m:7"', head=head), tool="nearmt")
    ((pair,), _) = read(written(tmp_path, text))
    assert (pair.id, pair.origin, pair.metadata) == ("m:7", "manual.tmx", {})


def test_unit_without_an_id(tmp_path: Path) -> None:
    ((pair,), _) = read(written(tmp_path, tmx(tu("de: a", "en: b"))))
    assert pair.id == "" and pair.metadata == {}


# Text and markup


def segment(content: str, tmp_path: Path) -> Segment:
    (unit,) = units(written(tmp_path, tmx(tu(f"de: {content}"))))
    return unit.source


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a", ("a",)),
        ("", ()),
        ("a &amp; &lt;b&gt; &#x1F600;&#10;c", ("a & <b> 😀\nc",)),
        ("a<![CDATA[<&]]>b<!-- c -->d<?e f?>g", ("a<&bdg",)),
        ("<ph x='1'>code</ph>", (Tag("<ph x='1'>code</ph>"),)),
        ("<it pos='begin'>&lt;b></it>a", (Tag("<it pos='begin'>&lt;b></it>"), "a")),
        ("<ut>{\\cf1 </ut>a<ut/>", (Tag("<ut>{\\cf1 </ut>"), "a", Tag("<ut/>"))),
        ("<new a='b'>c<d/></new>", (Tag("<new a='b'>c<d/></new>"),)),
        ("<hi/>a", (Tag("<hi/>"), "a")),
    ],
)
def test_single_codes_are_kept_whole(content: str, expected: Segment, tmp_path: Path) -> None:
    assert segment(content, tmp_path) == expected


def test_opening_and_closing_codes_are_paired(tmp_path: Path) -> None:
    first, a, second, b, first_end, c, second_end = segment(
        '<bpt i="1" x="5">x</bpt>a<bpt i="2"/>b<ept i="1"/>c<ept i="2">y</ept>', tmp_path
    )
    assert (a, b, c) == ("a", "b", "c")
    assert first == Tag('<bpt i="1" x="5">x</bpt>', TagKind.OPEN, "code 1")
    assert first_end == Tag('<ept i="1"/>', TagKind.CLOSE, "code 1")
    assert isinstance(second, Tag) and isinstance(second_end, Tag)
    assert second.key == second_end.key == "code 2" and not second.element


def test_elements_around_text(tmp_path: Path) -> None:
    outer, a, inner, b, inner_end, outer_end = segment("<hi type='x > y'>a<hi>b</hi ></hi>", tmp_path)
    assert isinstance(outer, Tag) and isinstance(inner, Tag)
    assert (outer.markup, a, inner.markup, b) == ("<hi type='x > y'>", "a", "<hi>", "b")
    assert inner_end == Tag("</hi >", TagKind.CLOSE, inner.key, element=True)
    assert outer_end == Tag("</hi>", TagKind.CLOSE, outer.key, element=True)
    assert outer.key != inner.key and outer.element and outer.kind is TagKind.OPEN


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('a<ph type="lb"/>b', "a b"),
        ('a<ph type="LB">&lt;br&gt;</ph>b', "a b"),
        ('a<ph type="x-br"/>b', "a b"),
        ('a<ph type="bold"/>b', "ab"),
        ("a<ph>title='<sub>hidden</sub>'</ph>b", "ab"),
        ("<bpt i='1'>&lt;a title='<sub>hidden <ph>x</ph></sub>'></bpt>b<ept i='1'>&lt;/a></ept>", "b"),
        ("<hi>a<ph>x</ph><hi>b</hi></hi><it pos='end'>y</it><ut>z</ut>", "ab"),
    ],
)
def test_plain_text_has_no_codes(content: str, expected: str, tmp_path: Path) -> None:
    assert plain_text(segment(content, tmp_path)) == expected
    path = written(tmp_path, tmx(tu(f"de: {content}", f"en: {content}")))
    assert pairs(path) == [(expected, expected)]


@given(tmx_documents())
@SLOW_TO_DRAW
def test_generated_memories_are_read(tmp_path_factory: pytest.TempPathFactory, made: Made) -> None:
    path = written(tmp_path_factory.getbasetemp(), made.text, "any.tmx")
    report = Report(strict=True)
    found = [(pair.source, pair.target) for pair in read_tmx(path, REQUEST, report)]
    expected = []
    for variants in made.units:
        source, target = chosen(variants)
        if source is not None and target is not None:
            expected.append((variants[source][1], variants[target][1]))
    assert found == expected
    assert report.units == len(made.units)
    assert report.skipped.total() == len(made.units) - len(expected)


def chosen(variants: Sequence[tuple[str, str]]) -> tuple[int | None, int | None]:
    """Return the variants that the request selects."""
    numbered = [(language, number) for number, (language, _) in enumerate(variants)]
    source = best_fit(numbered, "de")
    return source, best_fit([found for found in numbered if found[1] != source], "en")


# Filling in


def test_missing_target_is_inserted_after_the_source(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("fr: x", "de: a", "it: y", attributes=' tuid="1"')))
    result = filled(path, with_text("b < c & d")).read_text()
    assert result == tmx(
        '<tu tuid="1">\n  <tuv xml:lang="fr"><seg>x</seg></tuv>\n  <tuv xml:lang="de"><seg>a</seg></tuv>\n'
        '  <tuv xml:lang="en"><prop type="x-nearmt">nearmt: machine translation, score -0.500, memory pairs m:1</prop>'
        f'<prop type="x-nearmt-digest">{text_digest("b < c & d")}</prop>'
        '<seg>b &lt; c &amp; d</seg></tuv>\n  <tuv xml:lang="it"><seg>y</seg></tuv>\n</tu>'
    )


def test_existing_target_is_replaced(tmp_path: Path) -> None:
    tuvs = [
        '<tuv xml:lang="en-GB" a="b">\n<prop type="c">d</prop>\n<seg\n/></tuv>',
        '<tuv xml:lang="de"><seg>a</seg></tuv>',
    ]
    path = written(tmp_path, tmx("<tu>", *tuvs, "</tu>"))
    filled(path, with_text("b", FillingOrigin.MEMORY))
    (variant, _) = tree(tmp_path / "filled-a.tmx").iter("tuv")
    assert variant.attrib == {"{http://www.w3.org/XML/1998/namespace}lang": "en-GB", "a": "b"}
    assert [(child.tag, child.text) for child in variant] == [
        ("prop", "d"),
        ("prop", "nearmt: exact match from the memory, pair m:1"),
        ("seg", "b"),
    ]


def test_matches_become_properties(tmp_path: Path) -> None:
    match = Match("x & y", "z", 0.754, "m:2", "m.tmx")
    path = filled(written(tmp_path, tmx(tu("de: a"))), with_text("b", FillingOrigin.MACHINE, match))
    assert [prop.text for prop in tree(path).iter("prop")][-1] == "75%: x & y -> z"


def test_filling_again_replaces_earlier_facts(tmp_path: Path) -> None:
    match = Match("x", "y", 0.5)
    path = written(tmp_path, tmx(tu("de: a"), tu("de: c", "en: d").replace("<seg>", "\n    <seg>")))
    once = filled(path, with_text("first", FillingOrigin.MACHINE, match, match))
    twice = filled(once, with_text("second", FillingOrigin.MEMORY, match))
    assert [prop.attrib["type"] for prop in tree(twice).iter("prop")] == ["x-nearmt", "x-nearmt-match"] * 2
    assert "first" not in twice.read_text()
    assert filled(twice, with_text("second", FillingOrigin.MEMORY, match)).read_text() == twice.read_text()


def test_unfilled_document_is_unchanged(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("de: a"), tu("de: b", "en: c")).replace("\n", "\r\n"))
    assert filled(path, lambda _: None).read_bytes() == path.read_bytes()


def test_units_without_the_source_language_are_unchanged(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("fr: a"), "<tu/>", tu("en: b")))
    assert units(path) == []
    assert filled(path, with_text("x")).read_bytes() == path.read_bytes()


def test_no_target_is_added_without_a_target_language(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("de: a"), tu("de: b", "fr: c")))
    assert [(plain_text(unit.source), unit.target) for unit in units(path, Request())] == [("b", "c")]


def test_units_have_lines_and_present_targets(tmp_path: Path) -> None:
    path = written(tmp_path, tmx(tu("de: a", "en: <hi>b</hi>"), tu("en: c", "de: d")))
    assert [(unit.line, unit.target) for unit in units(path)] == [(5, "b"), (10, "c")]


def test_new_elements_get_the_namespace_prefix(tmp_path: Path) -> None:
    text = '<t:tmx xmlns:t="urn:t"><t:body><t:tu><t:tuv xml:lang="de"><t:seg>a</t:seg></t:tuv></t:tu></t:body></t:tmx>'
    path = filled(written(tmp_path, text), with_text("b"))
    assert {element.tag[:7] for element in tree(path).iter()} == {"{urn:t}"}
    assert [seg.text for seg in tree(path).iter("{urn:t}seg")] == ["a", "b"]
    again = filled(path, with_text("c")).read_text()
    assert again.count("<t:prop") == 2


@pytest.mark.parametrize("origin", FillingOrigin)
@pytest.mark.parametrize("there", [[], ["en: old"]])
def test_machine_translations_are_not_read(origin: FillingOrigin, there: list[str], tmp_path: Path) -> None:
    path = filled(written(tmp_path, tmx(tu("de: a", *there), tu("de: b", "en: c"))), with_text("x", origin))
    machine = origin in (FillingOrigin.MACHINE, FillingOrigin.REPAIRED)
    found, report = read(path)
    assert [(pair.source, pair.target) for pair in found] == ([] if machine else [("a", "x"), ("b", "x")])
    assert report.skipped == ({"machine-translated": 2} if machine else {})
    assert pairs(path, Request("en", "de")) == ([] if machine else [("x", "a"), ("x", "b")])
    assert pairs(path, Request("de", "en", unconfirmed=True)) == [("a", "x"), ("b", "x")]


def test_other_languages_of_a_filled_unit_are_read(tmp_path: Path) -> None:
    path = filled(written(tmp_path, tmx(tu("de: a", "fr: b"))), with_text("x"))
    assert pairs(path, Request("de", "fr")) == [("a", "b")]


@pytest.mark.parametrize(("codec", "bom", "declared"), ENCODINGS)
def test_characters_outside_the_encoding_become_references(
    codec: str, bom: bytes, declared: str, tmp_path: Path
) -> None:
    text = f'<?xml version="1.0" encoding="{declared}"?>' + tmx(tu("de: <hi>ä</hi>"))
    path = written(tmp_path, as_bytes(text, codec, bom))
    result = filled(path, with_text("ä 中 😀 € <\r\n\x00>"))
    assert pairs(result, Request("de", "en", unconfirmed=True)) == [("ä", "ä 中 😀 € <\r\n>")]
    assert result.read_bytes().startswith(path.read_bytes()[:150])


def test_compressed_document(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(tmx(tu("de: a")).encode()), "a.tmx.gz")
    assert [plain_text(unit.source) for unit in units(path)] == ["a"]


@given(tmx_documents(), st.data())
@SLOW_TO_DRAW
def test_generated_documents_are_filled(
    tmp_path_factory: pytest.TempPathFactory, made: Made, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp(), made.text, "fill.tmx")
    before = units(path)
    given_ = [data.draw(st.one_of(st.none(), fillings(unit.source))) for unit in before]
    assert filled(path, lambda _: None).read_bytes() == path.read_bytes()
    result = filled(path, in_order(given_))
    after = units(result)
    assert [markup(unit.source) for unit in after] == [markup(unit.source) for unit in before]
    assert [unit.target for unit in after] == [
        unit.target if filling is None else carried(plain_text(filling.target))
        for unit, filling in zip(before, given_, strict=True)
    ]
    assert unfilled(tree(result), made, given_) == unfilled(tree(path), made, given_)
    assert filled(result, in_order(given_)).read_bytes() == result.read_bytes()


@given(tmx_documents(), st.data())
@SLOW_TO_DRAW
def test_filled_documents_are_read_as_memories(
    tmp_path_factory: pytest.TempPathFactory, made: Made, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp(), made.text, "memory.tmx")
    given_ = [data.draw(st.one_of(st.none(), fillings(unit.source))) for unit in units(path)]
    expected, all_of_them = [], []
    for (source, target), filling in zip(pairs_of(made), given_, strict=True):
        text = target if filling is None else carried(plain_text(filling.target))
        if text is not None:
            all_of_them.append((source, text))
            if filling is None or not filling.is_unconfirmed:
                expected.append((source, text))
    result = filled(path, in_order(given_))
    assert pairs(result) == expected
    assert pairs(result, Request("de", "en", unconfirmed=True)) == all_of_them


def in_order(given_: Sequence[Filling | None]) -> Choice:
    each = iter(given_)
    return lambda _: next(each)


def pairs_of(made: Made) -> list[tuple[str, str | None]]:
    """Return the translatable units."""
    found: list[tuple[str, str | None]] = []
    for variants in made.units:
        source, target = chosen(variants)
        if source is not None:
            found.append((variants[source][1], None if target is None else variants[target][1]))
    return found


def unfilled(root: ElementTree.Element, made: Made, given_: Sequence[Filling | None]) -> Outline:
    """Remove what fillings may change from a document."""
    each = iter(given_)
    for unit, variants in zip(root.iter("tu"), made.units, strict=True):
        source, target = chosen(variants)
        if source is None or next(each) is None:
            continue
        tuvs = unit.findall("tuv")
        if target is None and len(tuvs) > len(variants):
            unit.remove(tuvs[source + 1])
        elif target is not None:
            for prop in tuvs[target].findall("prop"):
                if prop.attrib["type"].startswith("x-nearmt"):
                    tuvs[target].remove(prop)
            seg = tuvs[target].find("seg")
            assert seg is not None
            tail = seg.tail
            seg.clear()
            seg.tail = tail
    return outline(root, EXACT)


def test_edited_machine_translation_is_read(tmp_path: Path) -> None:
    path = filled(written(tmp_path, tmx(tu("de: a", "en-GB: x"), tu("de: b <hi>c</hi>"))), fill_missing("d e"))
    assert pairs(path) == [("a", "x")]
    path.write_text(path.read_text().replace("<seg>d e</seg>", "<seg>d f</seg>"))
    assert pairs(path) == [("a", "x"), ("b c", "d f")]


def test_new_variants_use_the_language_codes_of_the_file(tmp_path: Path) -> None:
    path = filled(written(tmp_path, tmx(tu("de: a", "en-GB: x"), tu("de: b"))), fill_missing("c"))
    assert path.read_text().count('xml:lang="en-GB"') == 2
