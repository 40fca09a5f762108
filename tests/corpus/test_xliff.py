"""XLIFF 1.2 and 2.x as memories and as documents."""

from __future__ import annotations

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
    Segment,
    Tag,
    TagKind,
    Unit,
    plain_text,
)
from nearmt.corpus.labels import LabelsConfig
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xliff import read_xliff, xliff_document
from nearmt.errors import InputError
from tests.corpus.files import Choice, fill_file, tree, with_text, write_file
from tests.corpus.generated import (
    ENCODINGS,
    Made,
    Outline,
    as_bytes,
    carried,
    fillings,
    markup,
    outline,
    xliff_1_documents,
    xliff_2_documents,
)

REQUEST = Request("de", "en")
UNCONFIRMED = Request("de", "en", unconfirmed=True)
EXACT = frozenset({"source", "seg-source", "target", "note", "data"})
ORIGINS = list(FillingOrigin)
MATCH = Match("x & y", 'z "<', 0.754, "m:2", 'm "1".tmx')
SLOW_TO_DRAW = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])


def xliff_1(*units: str, languages: str = 'source-language="de" target-language="en"') -> str:
    return "\n".join(
        [
            '<xliff version="1.2">',
            f'<file original="a.html" {languages}>',
            "<body>",
            *units,
            "</body></file></xliff>",
            "",
        ]
    )


def trans_unit(*children: str, attributes: str = ' id="1"') -> str:
    return "\n".join([f"<trans-unit{attributes}>", *(f"  {child}" for child in children), "</trans-unit>"])


def xliff_2(*units: str, languages: str = 'srcLang="de" trgLang="en"') -> str:
    return "\n".join([f'<xliff version="2.0" {languages}>', '<file id="f">', *units, "</file></xliff>", ""])


def unit_2(*children: str, attributes: str = ' id="1"') -> str:
    return "\n".join([f"<unit{attributes}>", *(f"  {child}" for child in children), "</unit>"])


def segment_2(source: str, target: str | None = None, attributes: str = "") -> str:
    inner = "" if target is None else f"<target>{target}</target>"
    return f"<segment{attributes}><source>{source}</source>{inner}</segment>"


def written(folder: Path, text: str | bytes, name: str = "a.xlf") -> Path:
    return write_file(folder, text, name)


def read(path: Path, request: Request = REQUEST) -> tuple[list[Pair], Report]:
    report = Report()
    return list(read_xliff(path, request, report)), report


def pairs(path: Path, request: Request = REQUEST) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read(path, request)[0]]


def units(path: Path, request: Request = REQUEST) -> list[Unit]:
    return [unit for part in xliff_document(path, request, Report(strict=True)).parts for unit in part.units]


def filled(path: Path, choose: Choice, request: Request = REQUEST) -> Path:
    return fill_file(xliff_document, path, choose, request)


def in_order(given_: Sequence[Filling | None]) -> Choice:
    each = iter(given_)
    return lambda _: next(each)


def local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def children(path: Path, name: str) -> list[list[str]]:
    """Return the names of the children of every element of a name."""
    return [[local(child) for child in element] for element in tree(path).iter() if local(element) == name]


MISLABELLED = {
    "swapped": xliff_1(
        trans_unit("<source>Pumpe</source>", "<target>pump</target>"),
        languages='source-language="en" target-language="de"',
    ),
    "wrong": xliff_2(unit_2(segment_2("Pumpe", "pump")), languages='srcLang="fr" trgLang="it"'),
}


@pytest.mark.parametrize("name", MISLABELLED)
def test_given_languages_overrule_the_file(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, MISLABELLED[name])
    given = {pair: Request("de", "en", labels=LabelsConfig(pair)) for pair in ("de:en", "en:de", "fr:en")}
    assert pairs(path, given["de:en"]) == [("Pumpe", "pump")]
    assert pairs(path, given["en:de"]) == [("pump", "Pumpe")]
    assert pairs(path, given["fr:en"]) == []
    assert [plain_text(unit.source) for unit in units(path, given["de:en"])] == ["Pumpe"]
    with pytest.raises(InputError, match="is en to de, the model translates de to en"):
        units(path, given["en:de"])
    with pytest.raises(InputError, match="if the file is mislabelled, give the setting file-languages"):
        units(path)
    same = filled(path, lambda _: None, given["de:en"])
    assert same.read_bytes() == path.read_bytes()


# XLIFF 1.2 as a memory


@pytest.mark.parametrize("approved", ["", "yes", "no"])
@pytest.mark.parametrize(
    ("state", "confirmed"),
    [
        ("", None),
        ("final", True),
        ("signed-off", True),
        ("translated", True),
        ("new", False),
        ("needs-adaptation", False),
        ("needs-l10n", False),
        ("needs-translation", False),
        ("needs-review-adaptation", False),
        ("needs-review-l10n", False),
        ("needs-review-translation", False),
        ("x-own", False),
    ],
)
def test_pairs_by_state_and_approval(state: str, confirmed: bool | None, approved: str, tmp_path: Path) -> None:
    """A target without a state counts unless it is disapproved; an approved one always counts."""
    attributes = ' id="1"' + (f' approved="{approved}"' if approved else "")
    target = f'<target state="{state}">b</target>' if state else "<target>b</target>"
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", target, attributes=attributes)))
    expected = approved == "yes" or (approved != "no" if confirmed is None else confirmed)
    found, report = read(path)
    assert [pair.target for pair in found] == ["b"] * expected
    assert report.skipped == ({} if expected else {"not confirmed": 1})
    assert pairs(path, UNCONFIRMED) == [("a", "b")]


@pytest.mark.parametrize(
    "target", ["", "<target/>", "<target></target>", "<target> \n</target>", '<target state="final"/>']
)
def test_units_without_a_translation(target: str, tmp_path: Path) -> None:
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", target)))
    assert pairs(path, UNCONFIRMED) == []
    assert read(path)[1].skipped == {"untranslated": 1}
    assert [unit.target.strip() for unit in units(path)] == [""]


def test_alternatives_are_ignored(tmp_path: Path) -> None:
    other = '<alt-trans><source>x</source><target state="final">y</target></alt-trans>'
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", other), trans_unit(other)))
    found, report = read(path)
    assert found == [] and report.skipped == {"untranslated": 1}
    assert [plain_text(unit.source) for unit in units(path)] == ["a"]
    result = filled(path, with_text("b"))
    assert other in result.read_text()
    assert children(result, "trans-unit") == [["source", "target", "note", "alt-trans"], ["alt-trans"]]


SEGMENTED = [
    "<source>Eins. Zwei.</source>",
    '<seg-source><g id="9"><mrk mtype="seg" mid="1">Eins.</mrk> <g id="8"><mrk mtype="seg" mid="2">Zwei.</mrk></g></g>'
    '<mrk mtype="term">x</mrk></seg-source>',
]


def test_segments_are_pairs(tmp_path: Path) -> None:
    target = '<target><mrk mid="2" mtype="seg">Two.</mrk> <g id="9"><mrk mtype="seg" mid="1">One.</mrk></g></target>'
    path = written(tmp_path, xliff_1(trans_unit(*SEGMENTED, target)))
    found, _ = read(path)
    assert [(pair.source, pair.target) for pair in found] == [("Eins.", "One."), ("Zwei.", "Two.")]
    assert [pair.id for pair in found] == ["a.xlf:a.html:1:1", "a.xlf:a.html:1:2"]


def test_segments_without_mid_are_matched_by_order(tmp_path: Path) -> None:
    marks = "<mrk mtype='seg'>{}</mrk><mrk mtype='seg'>{}</mrk>"
    inner = [f"<seg-source>{marks.format('a', 'b')}</seg-source>", f"<target>{marks.format('c', 'd')}</target>"]
    path = written(tmp_path, xliff_1(trans_unit("<source>ab</source>", *inner)))
    assert pairs(path) == [("a", "c"), ("b", "d")]


def test_unsegmented_target_is_read_as_a_whole(tmp_path: Path) -> None:
    path = written(tmp_path, xliff_1(trans_unit(*SEGMENTED, "<target>One. Two.</target>")))
    assert pairs(path) == [("Eins. Zwei.", "One. Two.")]
    assert [(plain_text(unit.source), unit.target) for unit in units(path)] == [("Eins. Zwei.", "One. Two.")]
    result = filled(path, with_text("New."))
    assert [target.text for target in tree(result).iter("target")] == ["New."]


def test_untranslated_segments_are_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, xliff_1(trans_unit(*SEGMENTED, '<target><mrk mtype="seg" mid="2">Two.</mrk></target>')))
    found, report = read(path)
    assert [(pair.source, pair.target) for pair in found] == [("Zwei.", "Two.")]
    assert report.skipped == {"untranslated": 1} and report.units == 1
    assert [unit.target for unit in units(path)] == ["", "Two."]


def test_pairs_have_metadata(tmp_path: Path) -> None:
    unit = trans_unit(
        "<source>a</source>", '<target state="final">b</target>', "<note>n &amp; m</note>", "<note>o</note>"
    )
    ((pair,), report) = read(written(tmp_path, xliff_1(unit)))
    assert (pair.id, pair.origin) == ("a.xlf:a.html:1", "a.xlf")
    assert pair.metadata == {"file": "a.html", "state": "final", "note": "n & m o"}
    assert report.languages == {"de": 1, "en": 1}


def test_unit_without_an_id(tmp_path: Path) -> None:
    unit = trans_unit("<source>a</source>", "<target>b</target>", attributes="")
    ((pair,), _) = read(written(tmp_path, xliff_1(unit)))
    assert pair.id == ""


def test_groups_and_binary_units(tmp_path: Path) -> None:
    unit = trans_unit("<source>a</source>", "<target>b</target>")
    binary = f"<bin-unit id='2'><bin-source><internal-file>x</internal-file></bin-source>{unit}</bin-unit>"
    path = written(tmp_path, xliff_1(f"<group><group>{unit}</group></group>", "<bin-unit id='3'/>", binary, unit))
    assert pairs(path) == [("a", "b")] * 3
    assert len(units(path)) == 3


# Languages of files


def names(source: str | None, target: str | None, version: int) -> str:
    keys = ("source-language", "target-language") if version == 1 else ("srcLang", "trgLang")
    return " ".join(f'{key}="{value}"' for key, value in zip(keys, (source, target), strict=True) if value is not None)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("de", "en", [("a", "b")]),
        ("de-AT", "en_US", [("a", "b")]),
        ("DE", "EN-gb", [("a", "b")]),
        ("de", None, [("a", "b")]),
        (None, None, [("a", "b")]),
        ("en", "de", [("b", "a")]),
        ("en-US", "de-DE", [("b", "a")]),
        ("de", "fr", []),
        ("fr", "en", []),
        ("fr", "de", []),
    ],
)
def test_pairs_of_requested_languages(
    version: int, source: str | None, target: str | None, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    languages = names(source, target, version)
    first = xliff_1(trans_unit("<source>a</source>", "<target>b</target>"), languages=languages)
    path = written(tmp_path, first if version == 1 else xliff_2(unit_2(segment_2("a", "b")), languages=languages))
    found, report = read(path)
    assert [(pair.source, pair.target) for pair in found] == expected
    assert report.skipped == ({} if expected else {"other languages": 1})
    assert pairs(path, Request()) == [("a", "b")]
    if expected != [("a", "b")]:
        line = 2 if version == 1 else 1
        with pytest.raises(
            InputError, match=rf"a\.xlf, line {line}: is {source} to {target}, the model translates de to en"
        ):
            units(path)


def test_files_of_several_languages(tmp_path: Path) -> None:
    languages = [("de", "en"), ("de", "fr"), ("en", "de"), ("de-CH", "en-US")]
    unit = trans_unit("<source>a</source>", "<target>b</target>")
    files = [f"<file {names(*pair, 1)}><body>{unit}</body></file>" for pair in languages]
    path = written(tmp_path, "\n".join(["<xliff version='1.2'>", *files, "</xliff>"]))
    found, report = read(path)
    assert [(pair.source, pair.target) for pair in found] == [("a", "b"), ("b", "a"), ("a", "b")]
    assert report.units == 4 and report.skipped == {"other languages": 1}
    with pytest.raises(InputError, match=r"a\.xlf, line 6: is de to fr"):
        units(path)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("missing", [None, ""])
def test_missing_target_language_is_added(version: int, missing: str | None, tmp_path: Path) -> None:
    languages = names("de", missing, version)
    text = xliff_1(trans_unit("<source>a</source>"), languages=languages)
    path = written(tmp_path, text if version == 1 else xliff_2(unit_2(segment_2("a")), languages=languages))
    result = filled(path, with_text("b"), Request("de", "en-GB"))
    name, key = ("file", "target-language") if version == 1 else ("xliff", "trgLang")
    (head,) = tree(result).iter(name)
    assert head.attrib[key] == "en-GB"
    assert pairs(result, UNCONFIRMED) == [("a", "b")]
    raw = "".join(part.raw for part in xliff_document(path, REQUEST, Report()).parts)
    assert raw == path.read_text()


@pytest.mark.parametrize("version", [1, 2])
def test_present_target_language_is_kept(version: int, tmp_path: Path) -> None:
    languages = names("de-DE", "en-US", version)
    text = xliff_1(trans_unit("<source>a</source>"), languages=languages)
    path = written(tmp_path, text if version == 1 else xliff_2(unit_2(segment_2("a")), languages=languages))
    assert filled(path, lambda _: None).read_bytes() == path.read_bytes()


# XLIFF 2 as a memory


@pytest.mark.parametrize(
    ("state", "confirmed"),
    [("", True), ("initial", False), ("translated", True), ("reviewed", True), ("final", True), ("odd", False)],
)
def test_pairs_by_the_state_of_the_segment(state: str, confirmed: bool, tmp_path: Path) -> None:
    attributes = f' state="{state}" subState="my:x"' if state else ""
    path = written(tmp_path, xliff_2(unit_2(segment_2("a", "b", attributes), segment_2("c", "d"))))
    assert pairs(path) == [("a", "b")] * confirmed + [("c", "d")]
    assert pairs(path, UNCONFIRMED) == [("a", "b"), ("c", "d")]


def test_segments_notes_and_ignorables(tmp_path: Path) -> None:
    unit = unit_2(
        '<my:notes xmlns:my="urn:my"><my:note>no</my:note></my:notes>',
        "<notes><note>n</note><note>m</note></notes>",
        '<originalData><data id="d">&lt;br/></data></originalData>',
        segment_2("a", "b", ' id="s1" state="final"'),
        "<ignorable><source> </source><target> </target></ignorable>",
        segment_2("c"),
        "<segment/>",
        attributes=' id="u" canResegment="no"',
    )
    path = written(tmp_path, xliff_2(f'<group id="g">{unit}</group>'))
    ((pair,), report) = read(path)
    assert (pair.id, pair.metadata) == ("a.xlf:f:u:s1", {"file": "f", "state": "final", "note": "n m"})
    assert report.skipped == {"untranslated": 1}
    assert [plain_text(found.source) for found in units(path)] == ["a", "c"]


def test_matches_in_a_unit_are_not_segments(tmp_path: Path) -> None:
    match = "<mtc:match ref='#1'><source>x</source><target>y</target></mtc:match>"
    match = f'<mtc:matches xmlns:mtc="urn:m">{match}</mtc:matches>'
    path = written(tmp_path, xliff_2(unit_2(match, segment_2("a"))))
    assert pairs(path, UNCONFIRMED) == []
    result = filled(path, with_text("b"))
    assert children(result, "unit") == [["matches", "notes", "segment"]] and match in result.read_text()


# Text and markup


def segment(content: str, tmp_path: Path, version: int = 1) -> Segment:
    text = xliff_1(trans_unit(f"<source>{content}</source>")) if version == 1 else xliff_2(unit_2(segment_2(content)))
    (unit,) = units(written(tmp_path, text))
    return unit.source


@pytest.mark.parametrize(
    ("version", "opening", "closing"),
    [
        (1, '<bpt id="1">x</bpt>', '<ept id="1">y</ept>'),
        (1, '<bpt id="1" rid="7">x</bpt>', '<ept id="2" rid="7">y</ept>'),
        (1, '<bx id="1" rid="7"/>', '<ex id="2" rid="7"/>'),
        (1, '<bx id="1"/>', '<ex id="1"/>'),
        (1, '<x id="START_BOLD_TEXT"/>', '<x id="CLOSE_BOLD_TEXT"/>'),
        (1, '<x id="START_TAG_SPAN_1" ctype="x-span"/>', '<x id="CLOSE_TAG_SPAN" ctype="x-span"/>'),
        (2, '<sc id="1"/>', '<ec startRef="1"/>'),
        (2, '<sm id="m1" type="comment"/>', '<em startRef="m1"/>'),
    ],
)
def test_opening_and_closing_codes_are_paired(version: int, opening: str, closing: str, tmp_path: Path) -> None:
    first, text, last = segment(f"{opening}a{closing}", tmp_path, version)
    assert isinstance(first, Tag) and isinstance(last, Tag)
    assert (first.markup, first.kind, text) == (opening, TagKind.OPEN, "a")
    assert (last.markup, last.kind) == (closing, TagKind.CLOSE)
    assert first.key == last.key and not first.element


def test_crossing_pairs_have_different_keys(tmp_path: Path) -> None:
    content = '<sc id="1"/>a<sc id="2"/>b<ec startRef="1"/>c<ec startRef="2"/>'
    keys = [part.key for part in segment(content, tmp_path, 2) if isinstance(part, Tag)]
    assert keys[0] == keys[2] != keys[1] == keys[3]


@pytest.mark.parametrize(("version", "name"), [(1, "g"), (1, "mrk"), (2, "pc"), (2, "mrk")])
def test_elements_around_text(version: int, name: str, tmp_path: Path) -> None:
    first, text, last = segment(f"<{name} id='1'>a</{name}>", tmp_path, version)
    assert isinstance(first, Tag)
    assert first == Tag(f"<{name} id='1'>", TagKind.OPEN, first.key, element=True) and text == "a"
    assert last == Tag(f"</{name}>", TagKind.CLOSE, first.key, element=True)


@pytest.mark.parametrize(
    ("version", "content", "expected"),
    [
        (1, 'a<x id="1" ctype="lb"/>b', "a b"),
        (1, 'a<x id="1" ctype="x-br"/>b', "a b"),
        (1, 'a<ph id="1" ctype="pb">x</ph>b', "a b"),
        (1, 'a<x id="1" ctype="image"/>b', "ab"),
        (1, "a<ph id='1'>alt='<sub>hidden</sub>'</ph>b", "ab"),
        (1, "<bpt id='1'>x<sub>hidden</sub></bpt>a<ept id='1'>y</ept><it id='2' pos='open'>z</it>", "a"),
        (1, "<g id='1'><mrk mtype='term'>a</mrk></g>", "a"),
        (2, 'a<ph id="1" type="fmt" subType="xlf:lb"/>b', "a b"),
        (2, 'a<ph id="1" type="fmt" subType="xlf:pb"/>b', "a b"),
        (2, 'a<ph id="1" equiv="&lt;br/>" disp="x"/>b', "ab"),
        (2, 'a<cp hex="001B"/>b', "ab"),
        (2, "<pc id='1' dataRefStart='d'>a<mrk id='2'>b</mrk></pc>", "ab"),
        (2, '<sc id="1"/>a<ec startRef="1"/><sm id="2"/>b<em startRef="2"/>', "ab"),
    ],
)
def test_plain_text_has_no_codes(version: int, content: str, expected: str, tmp_path: Path) -> None:
    assert plain_text(segment(content, tmp_path, version)) == expected


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        (1, "<mrk mtype='protected'>b</mrk>"),
        (1, "<mrk mtype='x-its' its:translate='no'>b</mrk>"),
        (2, "<mrk id='1' translate='no'>b<ph id='2'/></mrk>"),
    ],
)
def test_text_that_is_not_to_be_translated_is_a_tag_of_documents(version: int, tag: str, tmp_path: Path) -> None:
    tag = tag.replace("its:", "")
    assert segment(f"a {tag} c", tmp_path, version) == ("a ", Tag(tag), " c")
    if version == 1:
        path = written(tmp_path, xliff_1(trans_unit(f"<source>a {tag}</source>", f"<target>x {tag}</target>")))
        assert pairs(path) == [("a b", "x b")]


# Filling in XLIFF 1.2


def test_target_is_inserted_after_the_source(tmp_path: Path) -> None:
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", "<note>n</note>")))
    assert filled(path, with_text("b < c", FillingOrigin.MACHINE, MATCH)).read_text() == xliff_1(
        trans_unit(
            "<source>a</source>",
            '<target state="needs-review-translation" state-qualifier="mt-suggestion">b &lt; c</target>',
            '<note from="nearmt">nearmt: machine translation, score -0.500, memory pairs m:1</note>',
            '<alt-trans match-quality="75%" origin="nearmt m &quot;1&quot;.tmx">'
            '<source>x &amp; y</source><target>z "&lt;</target></alt-trans>',
            "<note>n</note>",
        )
    )


@pytest.mark.parametrize(
    ("origin", "state", "qualifier"),
    [
        (FillingOrigin.MACHINE, "needs-review-translation", "mt-suggestion"),
        (FillingOrigin.MEMORY, "translated", "exact-match"),
        (FillingOrigin.COPY, "needs-review-translation", "x-copied"),
        (FillingOrigin.REPAIRED, "needs-review-translation", "fuzzy-match"),
    ],
)
def test_state_of_a_target_names_its_origin(origin: FillingOrigin, state: str, qualifier: str, tmp_path: Path) -> None:
    target = '<target xml:lang="en-GB" state="final" x=\' state="y"\'>old</target>'
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", target)))
    (found,) = tree(filled(path, with_text("b", origin))).iter("target")
    assert found.text == "b"
    assert found.attrib == {
        "{http://www.w3.org/XML/1998/namespace}lang": "en-GB",
        "x": ' state="y"',
        "state": state,
        "state-qualifier": qualifier,
    }


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("approved", ["yes", "no"])
def test_machine_translation_is_not_approved(origin: FillingOrigin, approved: str, tmp_path: Path) -> None:
    unit = trans_unit("<source>a</source>", "<target/>", attributes=f" approved='{approved}' id=\"1\"")
    path = filled(written(tmp_path, xliff_1(unit)), with_text("b", origin))
    (found,) = tree(path).iter("trans-unit")
    confirmed = origin in (FillingOrigin.MEMORY, FillingOrigin.CONFIRMED)
    assert found.attrib == {"id": "1", "approved": approved if confirmed else "no"}
    assert pairs(path) == [("a", "b")] * confirmed


def test_segments_are_filled(tmp_path: Path) -> None:
    path = written(tmp_path, xliff_1(trans_unit(*SEGMENTED)))
    given_ = [Filling((text,), FillingOrigin.MEMORY) for text in ("EINS.", "ZWEI.")]
    (target,) = tree(filled(path, in_order(given_))).iter("target")
    assert target.attrib["state"] == "translated"
    assert ElementTree.tostring(target, encoding="unicode").partition(">")[2].strip() == (
        '<g id="9"><mrk mtype="seg" mid="1">EINS.</mrk> <g id="8"><mrk mtype="seg" mid="2">ZWEI.</mrk></g></g>'
        '<mrk mtype="term">x</mrk></target>'
    )


def test_what_a_person_confirmed_is_translated(tmp_path: Path) -> None:
    confirmed = Filling(("EINS.",), FillingOrigin.CONFIRMED)
    for other in (confirmed, Filling(("ZWEI.",), FillingOrigin.MEMORY)):
        path = filled(written(tmp_path, xliff_1(trans_unit(*SEGMENTED))), in_order([confirmed, other]))
        (target,) = tree(path).iter("target")
        assert (target.attrib["state"], target.attrib["state-qualifier"]) == ("translated", "x-confirmed")
    assert pairs(path) == [("Eins.", "EINS."), ("Zwei.", "ZWEI.")]


def test_unfilled_segments_keep_their_targets(tmp_path: Path) -> None:
    path = written(
        tmp_path, xliff_1(trans_unit(*SEGMENTED, '<target><mrk mtype="seg" mid="2">T<x id="1"/></mrk></target>'))
    )
    first = Filling(("One.",), FillingOrigin.MEMORY)
    result = filled(path, in_order([first, None]))
    assert '<mrk mtype="seg" mid="2">T<x id="1"/></mrk>' in result.read_text()
    assert pairs(result) == []
    assert pairs(result, UNCONFIRMED) == [("Eins.", "One."), ("Zwei.", "T")]
    untouched = filled(written(tmp_path, xliff_1(trans_unit(*SEGMENTED)), "b.xlf"), in_order([None, first]))
    assert pairs(untouched, UNCONFIRMED) == [("Zwei.", "One.")]


def test_empty_mark_is_filled(tmp_path: Path) -> None:
    marks = "<seg-source><mrk mtype='seg' mid='1'/><mrk mtype='seg' mid='2'>a</mrk></seg-source>"
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", marks)))
    result = filled(path, with_text("b"))
    assert pairs(result, UNCONFIRMED) == [("", "b"), ("a", "b")]


def test_order_of_elements_in_a_trans_unit(tmp_path: Path) -> None:
    rest = [
        "<context-group/>",
        "<note>n</note>",
        "<alt-trans><target>x</target></alt-trans>",
        '<my:x xmlns:my="urn:my"/>',
    ]
    path = written(
        tmp_path,
        xliff_1(
            trans_unit("<source>a</source>", *rest), trans_unit(*SEGMENTED, *rest), trans_unit(*SEGMENTED, "<target/>")
        ),
    )
    result = filled(path, with_text("b", FillingOrigin.MACHINE, MATCH))
    own, others = ["note", "alt-trans"], ["context-group", "note", "alt-trans", "x"]
    assert children(result, "trans-unit") == [
        ["source", "target", *own, *others],
        ["source", "seg-source", "target", "note", "note", "alt-trans", "alt-trans", *others],
        ["source", "seg-source", "target", "note", "note", "alt-trans", "alt-trans"],
    ]


def test_filling_a_trans_unit_again_replaces_notes(tmp_path: Path) -> None:
    others = ["<note from='me'>n</note>", '<alt-trans origin="me"><target>x</target></alt-trans>']
    path = written(tmp_path, xliff_1(trans_unit("<source>a</source>", *others), trans_unit(*SEGMENTED, *others)))
    once = filled(path, with_text("first", FillingOrigin.MACHINE, MATCH, MATCH))
    twice = filled(once, with_text("second", FillingOrigin.MEMORY, MATCH))
    assert "first" not in twice.read_text()
    assert twice.read_text() == filled(path, with_text("second", FillingOrigin.MEMORY, MATCH)).read_text()
    assert filled(twice, with_text("second", FillingOrigin.MEMORY, MATCH)).read_text() == twice.read_text()


# Filling in XLIFF 2


def test_every_segment_gets_a_target(tmp_path: Path) -> None:
    path = written(tmp_path, xliff_2(unit_2(segment_2("a", None, ' id="s"'), segment_2("c", "", " state='final'"))))
    assert filled(path, with_text("b", FillingOrigin.MACHINE, MATCH)).read_text() == xliff_2(
        unit_2(
            "<notes>{0}{1}{0}{1}</notes>".format(
                '<note category="nearmt">nearmt: machine translation, score -0.500, memory pairs m:1</note>',
                '<note category="nearmt">nearmt: 75% match: x &amp; y -&gt; z "&lt;</note>',
            ),
            segment_2("a", "b", ' id="s" state="initial" subState="nearmt:machine-translated"'),
            segment_2("c", "b", ' state="initial" subState="nearmt:machine-translated"'),
        )
    )


@pytest.mark.parametrize(
    ("origin", "state", "sub_state"),
    [
        (FillingOrigin.MACHINE, "initial", "nearmt:machine-translated"),
        (FillingOrigin.MEMORY, "translated", "nearmt:exact-match"),
        (FillingOrigin.COPY, "initial", "nearmt:copied"),
        (FillingOrigin.REPAIRED, "initial", "nearmt:fuzzy-match"),
    ],
)
def test_state_of_a_segment_names_its_origin(origin: FillingOrigin, state: str, sub_state: str, tmp_path: Path) -> None:
    old = segment_2("a", "x", ' state="final" subState="my:x" canResegment="no"')
    path = filled(written(tmp_path, xliff_2(unit_2(old))), with_text("b", origin))
    (found,) = tree(path).iter("segment")
    assert found.attrib == {"canResegment": "no", "state": state, "subState": sub_state}
    assert pairs(path) == [("a", "b")] * (origin is FillingOrigin.MEMORY)
    assert pairs(path, UNCONFIRMED) == [("a", "b")]


@pytest.mark.parametrize(
    "notes",
    ["", "<notes/>", "<notes></notes>", "<notes>\n    <note>n</note>\n  </notes>", "<notes><note>n</note></notes>"],
)
def test_order_of_elements_in_a_unit(notes: str, tmp_path: Path) -> None:
    head = ['<my:x xmlns:my="urn:my"/>', *([notes] if notes else [])]
    data, space = '<originalData><data id="1">x</data></originalData>', "<ignorable><source> </source></ignorable>"
    path = written(
        tmp_path,
        xliff_2(
            unit_2(*head, data, space, segment_2("a"), segment_2("c", "d")),
            unit_2(*head, space, segment_2("a")),
            unit_2(*head, segment_2("a")),
        ),
    )
    result = filled(path, with_text("b"))
    assert children(result, "unit") == [
        ["x", "notes", "originalData", "ignorable", "segment", "segment"],
        ["x", "notes", "ignorable", "segment"],
        ["x", "notes", "segment"],
    ]
    assert {tuple(found) for found in children(result, "segment")} == {("source", "target")}
    kept = ["note"] * notes.count("<note>")
    assert children(result, "notes") == [[*kept, *["note"] * count] for count in (2, 1, 1)]


@pytest.mark.parametrize("notes", ["", "<notes/>", "<notes>\n    <note>n</note>\n  </notes>"])
def test_filling_a_unit_again_replaces_notes(notes: str, tmp_path: Path) -> None:
    path = written(tmp_path, xliff_2(unit_2(*([notes] if notes else []), segment_2("a"), segment_2("c", "d"))))
    once = filled(path, with_text("first", FillingOrigin.MACHINE, MATCH, MATCH))
    twice = filled(once, with_text("second", FillingOrigin.MEMORY, MATCH))
    assert "first" not in twice.read_text()
    assert twice.read_text() == filled(path, with_text("second", FillingOrigin.MEMORY, MATCH)).read_text()


def test_notes_of_other_tools_are_kept(tmp_path: Path) -> None:
    foreign = '<my:notes xmlns:my="urn:my"><my:note category="nearmt">x</my:note></my:notes>'
    path = written(tmp_path, xliff_2(unit_2(foreign, segment_2("a"))))
    result = filled(filled(path, with_text("b")), with_text("c"))
    assert foreign in result.read_text()
    assert children(result, "unit") == [["notes", "notes", "segment"]]


def test_unfilled_segments_are_unchanged(tmp_path: Path) -> None:
    segments = [segment_2("a", "b", ' state="final"'), segment_2("c")]
    result = filled(
        written(tmp_path, xliff_2(unit_2(*segments))), in_order([None, Filling(("d",), FillingOrigin.MEMORY)])
    )
    assert segments[0] in result.read_text()
    assert pairs(result) == [("a", "b"), ("c", "d")]


# Filling in both versions


@pytest.mark.parametrize(
    ("around", "unit", "to_translate"),
    [
        ("", "", True),
        ("", "no", False),
        ("no", "", False),
        ("no", "yes", True),
        ("yes", "no", False),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_untranslatable_units_are_unchanged(
    version: int, around: str, unit: str, to_translate: bool, tmp_path: Path
) -> None:
    said = [f' translate="{value}"' if value else "" for value in (around, unit)]
    one = trans_unit("<source>a</source>", attributes=f' id="1"{said[1]}')
    two = unit_2(segment_2("a"), attributes=f' id="1"{said[1]}')
    text = (
        xliff_1(f"<group{said[0]}>", one, "</group>") if version == 1 else xliff_2(f"<group{said[0]}>", two, "</group>")
    )
    path = written(tmp_path, text)
    assert len(units(path)) == to_translate
    assert (filled(path, with_text("b")).read_bytes() != path.read_bytes()) == to_translate


def test_untranslatable_file_is_unchanged(tmp_path: Path) -> None:
    text = xliff_2(unit_2(segment_2("a"))).replace('<file id="f">', '<file id="f" translate="no">')
    assert units(written(tmp_path, text)) == []


@pytest.mark.parametrize("text", [xliff_1(trans_unit()), xliff_2(unit_2()), xliff_1(), xliff_2(unit_2("<segment/>"))])
def test_units_without_a_source_are_unchanged(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    assert units(path) == []
    assert filled(path, with_text("b")).read_bytes() == path.read_bytes()


def test_new_elements_get_the_namespace_prefix(tmp_path: Path) -> None:
    one = xliff_1(trans_unit("<source>a</source>"), trans_unit(*SEGMENTED))
    two = xliff_2(unit_2(segment_2("a")), unit_2("<notes/>", segment_2("a", "b")))
    for text in (one, two):
        prefixed = text.replace("</", "\0").replace("<", "<xlf:").replace("\0", "</xlf:")
        path = written(tmp_path, prefixed.replace("<xlf:xliff", '<xlf:xliff xmlns:xlf="urn:x"'))
        result = filled(path, with_text("c", FillingOrigin.MACHINE, MATCH))
        assert {element.tag[:7] for element in tree(result).iter()} == {"{urn:x}"}
        assert {target for _, target in pairs(result, UNCONFIRMED)} == {"c"}
        assert filled(result, with_text("c", FillingOrigin.MACHINE, MATCH)).read_text() == result.read_text()


@pytest.mark.parametrize(("codec", "bom", "declared"), ENCODINGS)
@pytest.mark.parametrize("version", [1, 2])
def test_characters_outside_the_encoding_become_references(
    version: int, codec: str, bom: bytes, declared: str, tmp_path: Path
) -> None:
    text = xliff_1(trans_unit("<source>ä</source>")) if version == 1 else xliff_2(unit_2(segment_2("ä")))
    path = written(tmp_path, as_bytes(f'<?xml version="1.0" encoding="{declared}"?>\n{text}', codec, bom))
    match = Match("中", "😀", 1.0, "中", "中")
    result = filled(path, with_text("ä 中 😀 € <\r\n\x00>", FillingOrigin.MACHINE, match))
    assert pairs(result, UNCONFIRMED) == [("ä", "ä 中 😀 € <\r\n>")]


def test_units_have_lines_and_present_targets(tmp_path: Path) -> None:
    path = written(
        tmp_path, xliff_1(trans_unit("<source>a</source>", "<target>b<x id='1'/></target>"), trans_unit(*SEGMENTED))
    )
    assert [(unit.line, unit.target) for unit in units(path)] == [(5, "b"), (10, ""), (10, "")]
    path = written(tmp_path, xliff_2(unit_2("<notes/>", segment_2("a"), segment_2("b", "c"))))
    assert [(unit.line, unit.target) for unit in units(path)] == [(5, ""), (6, "c")]


# Generated documents


DOCUMENTS = st.one_of(
    xliff_1_documents(), xliff_2_documents(), xliff_1_documents(prefix="xlf"), xliff_2_documents(prefix="xlf")
)


@given(DOCUMENTS)
@SLOW_TO_DRAW
def test_generated_documents_are_read(tmp_path_factory: pytest.TempPathFactory, made: Made) -> None:
    path = written(tmp_path_factory.getbasetemp(), made.text, "any.xlf")
    assert [pair for pair in pairs(path, UNCONFIRMED) if pair[1].strip()] == [
        (entry.source, entry.target) for entry in made.entries if entry.target and entry.target.strip()
    ]
    expected = [entry for entry in made.entries if entry.translate]
    found = units(path)
    assert [plain_text(unit.source) for unit in found] == [entry.source for entry in expected]
    # Targets in state new are not translated, whatever they contain.
    there = ["" if entry.state == "new" else entry.target or "" for entry in expected]
    assert [unit.target for unit in found] == there


@given(DOCUMENTS, st.data())
@SLOW_TO_DRAW
def test_generated_documents_are_filled(
    tmp_path_factory: pytest.TempPathFactory, made: Made, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp(), made.text, "fill.xlf")
    before = units(path)
    given_ = [data.draw(st.one_of(st.none(), fillings(unit.source))) for unit in before]
    for part in xliff_document(path, REQUEST, Report(strict=True)).parts:
        assert not part.units or part.filled([None] * len(part.units)) == part.raw
    result = filled(path, in_order(given_))
    after = units(result)
    assert [markup(unit.source) for unit in after] == [markup(unit.source) for unit in before]
    assert [unit.target for unit in after] == [
        unit.target if filling is None else carried(plain_text(filling.target))
        for unit, filling in zip(before, given_, strict=True)
    ]
    assert unfilled(tree(result)) == unfilled(tree(path))
    assert filled(result, in_order(given_)).read_bytes() == result.read_bytes()
    for names_ in children(result, "trans-unit"):
        first = [name for name in ("source", "seg-source", "target") if name in names_]
        assert names_[: len(first)] == first and names_.count("target") <= 1
    for names_ in children(result, "unit"):
        assert names_ == sorted(names_, key=rank)
    assert all(names_ in (["source"], ["source", "target"]) for names_ in children(result, "segment"))


def rank(name: str) -> int:
    """Return the order of elements in a unit; notes of other tools come first."""
    return ["notes", "originalData", "segment"].index("segment" if name == "ignorable" else name)


def unfilled(root: ElementTree.Element) -> Outline:
    """Remove what fillings may change from a document."""
    for parent in list(root.iter()):
        for name in _CHANGED.get(local(parent), ()):
            parent.attrib.pop(name, None)
        for child in list(parent):
            if is_ours(parent, child):
                parent.remove(child)
        for child in list(parent):
            if local(child) == "notes" and all(is_ours(child, note) for note in child):
                parent.remove(child)
    return outline(root, EXACT)


_CHANGED = {
    "xliff": ("trgLang",),
    "file": ("target-language",),
    "trans-unit": ("approved",),
    "segment": ("state", "subState"),
}


def is_ours(parent: ElementTree.Element, child: ElementTree.Element) -> bool:
    if local(child) == "target":
        return local(parent) in {"trans-unit", "segment"}
    said = child.attrib.get({"note": "from", "alt-trans": "origin"}.get(local(child), ""), "")
    return said.startswith("nearmt") or (local(child) == "note" and child.attrib.get("category") == "nearmt")


def test_untranslated_segment_does_not_become_a_translation(tmp_path: Path) -> None:
    """Two segments share a target in state `new`; filling one changes the state of both."""
    marks = '<mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg" mid="2">Zwei.</mrk>'
    text = (
        '<?xml version="1.0"?><xliff version="1.2"><file source-language="de" target-language="en"><body>'
        f'<trans-unit id="u"><source>Eins. Zwei.</source><seg-source>{marks}</seg-source>'
        f'<target state="new">{marks}</target></trans-unit></body></file></xliff>'
    )
    path = written(tmp_path, text, "new.xlf")
    assert [unit.target for unit in units(path)] == ["", ""]
    result = filled(path, in_order([Filling(("One.",), FillingOrigin.MACHINE), None]))
    assert [unit.target for unit in units(result)] == ["One.", ""]
