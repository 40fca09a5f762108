"""Texts with XML tags that are no files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import Filling, FillingOrigin, Part, Report, Request
from nearmt.corpus.document import TagKind, text_with_markup
from nearmt.corpus.xml_text import xml_parts
from nearmt.errors import InputError


def parts(text: str, **options: Any) -> list[Part]:
    return list(xml_parts(text, Path("text 1"), Request("de", "en"), Report(strict=True), **options))


def units(text: str, **options: Any) -> list[str]:
    return [text_with_markup(unit.source) for part in parts(text, **options) for unit in part.units]


def upper(text: str, **options: Any) -> str:
    """The text with all translatable text in upper case."""
    made = []
    for part in parts(text, **options):
        targets = [tuple(p.upper() if isinstance(p, str) else p for p in unit.source) for unit in part.units]
        made.append(part.filled([Filling(target, FillingOrigin.MACHINE) for target in targets]))
    return "".join(made)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("eins", "EINS"),
        ("Das <b>ist</b> ü &amp; a", "DAS <b>IST</b> Ü &amp; A"),
        ("<g id='1'>alles</g>", "<g id='1'>ALLES</g>"),
        ("a<br/>b &#x41; c", "A<br/>B A C"),
        ("ein<!-- wort -->e <?php ende ?>", "EIN<!-- wort -->E <?php ende ?>"),
        ("eine <![CDATA[a<b]]> zahl", "EINE <![CDATA[a<b]]> ZAHL"),
        ("<ns:g xmlns:ns='u'>a</ns:g>", "<ns:g xmlns:ns='u'>A</ns:g>"),
    ],
)
def test_tags_stay_and_text_is_escaped(text: str, expected: str) -> None:
    assert "".join(part.raw for part in parts(text)) == text
    assert upper(text) == expected


def test_elements_are_inline_and_paired() -> None:
    (unit,) = parts("Das <b>ist</b> gut")[0].units
    tags = [part for part in unit.source if not isinstance(part, str)]
    assert [tag.kind for tag in tags] == [TagKind.OPEN, TagKind.CLOSE]
    assert tags[0].key == tags[1].key


def test_kept_elements_are_one_tag() -> None:
    assert upper("der <x>knopf <b/> da</x> hier", kept=["x"]) == "DER <x>knopf <b/> da</x> HIER"


def test_splitting_elements_end_a_unit() -> None:
    assert units("<p>eins <b>zwei</b> da</p><p>drei</p>", splitting=["p"]) == ["eins <b>zwei</b> da", "drei"]
    assert len(units("<p>eins</p><p>drei</p>")) == 1


@pytest.mark.parametrize(
    "text", ["a & b", "<b>", "</b>", "<a></b>", "</text><text>", "<!DOCTYPE a>", "&foo;", "a\x00b", "<a>" * 300]
)
def test_what_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="text 1"):
        parts(text)


@given(st.text(alphabet="<>&;/ab ='\"!-[]ü?x", max_size=30))
def test_whatever_is_read_is_written_back(text: str) -> None:
    try:
        found = parts(text)
    except InputError:
        return
    assert "".join(part.raw for part in found) == text
    upper(text)
