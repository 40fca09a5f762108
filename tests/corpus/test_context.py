"""Contexts of units and pairs in all formats, and marks of translations to review."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import Filling, FillingOrigin, Part, Report, Request, Unit, open_document, plain_text, read_pairs
from nearmt.corpus.context import context_of, keys_of, named_neighbours, with_neighbours

DE_EN = Request("de", "en")
PO = 'msgid ""\nmsgstr "Language: en\\n"\n\nmsgctxt "menu"\nmsgid "Start"\nmsgstr "%s"\n'
XLIFF_1 = """<xliff version="1.2"><file original="a" source-language="de" target-language="en"><body>
<trans-unit id="1" resname="menu.start"><source>Start</source>%s
<context-group><context context-type="x-menu">menu</context>
<context context-type="linenumber">7</context></context-group></trans-unit></body></file></xliff>
"""
XLIFF_2 = """<xliff version="2.0" srcLang="de" trgLang="en"><file id="f">
<unit id="1" name="menu.start"><segment><source>Start</source>%s</segment></unit></file></xliff>
"""
TMX = """<tmx version="1.4"><header srclang="de"/><body><tu tuid="menu.start"><prop type="x-context">menu</prop>
<tuv xml:lang="de"><seg>Start</seg></tuv>%s</tu></body></tmx>
"""
JSONL = '{"id": "menu.start", "source": "Start", "target": "%s", "context": "menu"}\n'
#: Name, text with a place for the target, target, context, name of the unit.
FILES = [
    ("a.po", PO, "Home", "menu", ""),
    ("a.xlf", XLIFF_1, "<target>Home</target>", "menu", "menu.start"),
    ("a.xliff", XLIFF_2, "<target>Home</target>", "", "menu.start"),
    ("a.tmx", TMX, '<tuv xml:lang="en"><seg>Home</seg></tuv>', "menu", "menu.start"),
    ("a.jsonl", JSONL, "Home", "menu", "menu.start"),
]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parts_of(path: Path) -> list[Part]:
    return list(open_document(path, DE_EN, Report(strict=True)).parts)


def units_of(path: Path) -> list[Unit]:
    return [unit for part in parts_of(path) for unit in part.units]


@pytest.mark.parametrize(("name", "text", "target", "context", "key"), FILES, ids=[file[0] for file in FILES])
def test_units_and_pairs_have_the_same_context(
    name: str, text: str, target: str, context: str, key: str, tmp_path: Path
) -> None:
    (pair,) = read_pairs(written(tmp_path, name, text % target), source_lang="de", target_lang="en")
    (unit,) = units_of(written(tmp_path, name, text % ""))
    assert (unit.context, unit.key) == (context, key)
    assert context_of(pair.metadata) == context
    assert not key or key in (pair.id, *keys_of(pair.metadata))


@pytest.mark.parametrize(("name", "text"), [file[:2] for file in FILES], ids=[file[0] for file in FILES])
@pytest.mark.parametrize(
    ("filling", "confirmed"),
    [
        (Filling(("Home",), FillingOrigin.MEMORY, pair_ids=("7",)), True),
        (Filling(("Home",), FillingOrigin.MEMORY, pair_ids=("7",), in_context=True), True),
        (Filling(("Home",), FillingOrigin.MEMORY, pair_ids=("7",), review="why"), False),
        (Filling(("Home",), FillingOrigin.REPAIRED, pair_ids=("7",), review="87%"), False),
    ],
    ids=["exact", "in context", "to review", "repaired"],
)
def test_translations_to_review_are_no_memory(
    name: str, text: str, filling: Filling, confirmed: bool, tmp_path: Path
) -> None:
    parts = parts_of(written(tmp_path, name, text % ""))
    path = written(tmp_path, name, "".join(part.filled([filling] * len(part.units)) for part in parts))
    assert [pair.target for pair in read_pairs(path, source_lang="de", target_lang="en")] == ["Home"] * confirmed
    everything = read_pairs(path, source_lang="de", target_lang="en", unconfirmed=True)
    assert [pair.target for pair in everything] == ["Home"]
    assert (filling.review in path.read_text(encoding="utf-8")) and [unit.target for unit in units_of(path)] == ["Home"]


def test_notes_say_what_a_translation_is() -> None:
    def note(origin: FillingOrigin, review: str = "", in_context: bool = False) -> str:
        return Filling(("x",), origin, pair_ids=("7",), review=review, in_context=in_context).note

    assert note(FillingOrigin.MEMORY) == "nearmt: exact match from the memory, pair 7"
    assert note(FillingOrigin.MEMORY, in_context=True) == "nearmt: context match from the memory, pair 7"
    assert note(FillingOrigin.MEMORY, "why") == "nearmt: to review (why): exact match from the memory, pair 7"
    assert note(FillingOrigin.REPAIRED, "87%") == "nearmt: to review (87%): similar match from the memory, pair 7"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, None),
        ({"prev": "", "next": " "}, None),
        ({"prev": " Erst  das", "next": "Dann das"}, ("Erst das", "Dann das")),
        ({"next": "Dann das"}, ("", "Dann das")),
        ({"x-context-pre": "<seg>Erst <b>das</b></seg>"}, ("Erst das", "")),
    ],
)
def test_neighbours_that_other_tools_name(metadata: dict[str, str], expected: tuple[str, str] | None) -> None:
    assert named_neighbours(metadata) == expected


SOURCES = st.lists(st.lists(st.sampled_from(["a", "b", " ", "c  d"]), max_size=3), max_size=60)


@given(SOURCES)
def test_units_know_their_neighbours(sources: list[list[str]]) -> None:
    """As a plain loop over all units finds them, where at most a few parts are without text."""
    parts = [Part(f"{number}", tuple(Unit((text,)) for text in texts)) for number, texts in enumerate(sources)]
    found = list(with_neighbours(iter(parts)))
    assert [part.raw for part in found] == [part.raw for part in parts]
    units = [unit for part in found for unit in part.units]
    texts = [" ".join(plain_text(unit.source).split()) for unit in units]
    assert texts == [" ".join(text.split()) for each in sources for text in each]
    for number, unit in enumerate(units):
        assert unit.previous == next(filter(None, reversed(texts[:number])), "")
        assert unit.following in (next(filter(None, texts[number + 1 :]), ""), "")
        if number + 1 < len(texts) and texts[number + 1]:
            assert unit.following == texts[number + 1]


def test_parts_do_not_wait_for_ever() -> None:
    def parts() -> list[Part]:
        return [Part("first", (Unit(("a",)),)), *(Part("raw") for _ in range(1000)), Part("last", (Unit(("b",)),))]

    drawn = iter(parts())
    found = with_neighbours(drawn)
    assert next(found).units[0].following == "" and sum(1 for _ in drawn) > 900
