"""Placeholders: finding, comparing, conversion to tags and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import Tag, TagKind, plain_text
from nearmt.documents.placeholders import as_tags, as_text, damage, lost, placeholders, without_placeholders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Datei %s fehlt", ["%s"]),
        ("%(count)d von %(total)d", ["%(count)d", "%(total)d"]),
        ("%1$s ist älter als %2$s", ["%1$s", "%2$s"]),
        ("%-10.3f und %5d und %lu und %%", ["%-10.3f", "%5d", "%lu", "%%"]),
        ("Hallo {name}, {0} und {} und {x!r:>10}", ["{name}", "{0}", "{}", "{x!r:>10}"]),
        ("${HOME} und %{name} und {{ item.name }}", ["${HOME}", "%{name}", "{{ item.name }}"]),
        ('<x id="1"/> und <b>fett</b>', ['<x id="1"/>', "<b>", "</b>"]),
        ("A &amp; B &#160; C &#xA0;", ["&amp;", "&#160;", "&#xA0;"]),
        ("100 % sicher, 50%ig, 3 < 4 > 2, A & B", []),
        ("eine {geschweifte klammer}", []),
    ],
)
def test_placeholders_are_found(text: str, expected: list[str]) -> None:
    assert list(placeholders(text).elements()) == expected


def test_document_may_turn_printf_placeholders_on_or_off() -> None:
    assert not placeholders("%d Tage", printf=False)
    assert placeholders("%dTage", printf=True) == {"%d": 1}
    assert not placeholders("%dTage")


def test_placeholders_are_removed() -> None:
    assert without_placeholders("%s: {name}").strip() == ":"


def test_damage_counts_spans_and_pairs_without_their_text() -> None:
    source = ("<a>%s</a> und <b>x</b> <i></i>",)
    assert damage(source, ("<b>y</b> and <a>%s</a> <i></i>",)) == (0, 0)
    assert damage(source, ("y and <b></b> %s <a></a> <i></i>",)) == (0, 2)
    assert damage(source, ("<a></a> and <b>y</b>",)) == (3, 1)


def test_lost_and_extra_placeholders_are_listed() -> None:
    source = ("Datei %s, Zeile %d", Tag("<x/>"), " %d")
    assert lost(source, ("line %d of %s, %d",)) == []
    assert lost(source, ("line %d of file",)) == ["%s", "%d"]
    assert lost(source, ("line %d of %s, %d, %i",)) == ["+%i"]


def test_as_tags_pairs_elements() -> None:
    segment = as_tags(("Drücken Sie <b>%s</b> jetzt<br/>", Tag("<g>")))
    assert plain_text(segment) == "Drücken Sie  jetzt"
    tags = [part for part in segment if isinstance(part, Tag)]
    kinds = [TagKind.OPEN, TagKind.SINGLE, TagKind.CLOSE, TagKind.SINGLE, TagKind.SINGLE]
    assert [tag.kind for tag in tags] == kinds
    assert tags[0].key == tags[2].key and tags[0].element


@given(st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "%s", " Wort ", "{x}", "&amp;", "<"])))
def test_conversion_round_trips(parts: list[str]) -> None:
    text = "".join(parts)
    assert "".join(str(part) for part in as_text(as_tags((text,)))) == text
    assert as_text(as_tags((text,))) == ((text,) if text else ())
