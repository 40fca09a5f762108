"""Marks in place of protected spans, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.marks import KNOWN_MARKS, MarkedText, marked, marked_as, marks_in

PARTS = [
    *("%s", "%d", "{name}", "%(n)s", "<b>", "</b>", "<br/>", "[1]", "[", "]", "[OK]"),
    *(" Wort ", "-", "https://a.example/x", "\ue001", "2"),
]


@pytest.mark.parametrize(
    ("text", "expected", "spans"),
    [
        ("Datei %s in {folder}", "Datei [1] in [2]", ("%s", "{folder}")),
        ("Klicken Sie auf [OK]", "Klicken Sie auf [1] OK [2]", ("[", "]")),
        ("Siehe [12] und %s", "Siehe [1] und [2]", ("[12]", "%s")),
        ("<b>Achtung</b>: {a}MB", "[1] Achtung [2]: [3] MB", ("<b>", "</b>", "{a}")),
        ("Zeile<br>Neu%s", "Zeile [1] Neu [2]", ("<br>", "%s")),
        ("<b>%s</b> „<i>zu</i>sammen“", "[1][2][3] „[4] zu[5]sammen“", ("<b>", "%s", "</b>", "<i>", "</i>")),
        ("<a><i></i>Uhr</a>", "[1][2][3] Uhr [4]", ("<a>", "<i>", "</i>", "</a>")),
        ("ein \ue000 Tag", "ein [1] Tag", ("\ue000",)),
        ("Nichts zu schützen, 5 % sicher", "Nichts zu schützen, 5 % sicher", ()),
    ],
)
def test_spans_and_brackets_become_marks(text: str, expected: str, spans: tuple[str, ...]) -> None:
    found = marked(text)
    assert (found.text, found.spans) == (expected, spans)


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_every_bracket_of_a_marked_text_belongs_to_a_mark(text: str) -> None:
    found = marked(text)
    assert marks_in(found.text) == list(range(1, len(found.spans) + 1))
    left = found.text
    for number in range(1, len(found.spans) + 1):
        left = left.replace(f"[{number}]", "", 1)
    assert "[" not in left and "]" not in left


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_a_translation_that_is_the_source_is_restored(text: str) -> None:
    found = marked(text)
    assert found.restored(found.text) == text
    assert found.target(text) == found.text


def test_a_target_has_the_marks_of_its_source() -> None:
    source = marked("%s hat %s an {name} gesendet")
    assert source.target("{name} got %s from %s, %s") == "[3] got [1] from [2], %s"
    assert MarkedText("ohne").target("%s") == "%s"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (
            (" Got", " [", "2", "]", " in", " [1]", ".", "</s>"),
            [(" Got", False), (" {b}", True), ("", True), ("", True), (" in", False), (" {a}", True)],
        ),
        ((" ", "[", "1", "]:", "[2]"), [(" ", False), ("{a}", True), ("", True), (":", True), ("{b}", True)]),
        ((" [9]", "["), [(" [9]", True), ("[", False)]),
    ],
)
def test_tokens_of_a_translation_show_spans(tokens: tuple[str, ...], expected: list[tuple[str, bool]]) -> None:
    found = marked("{a} und {b}").restored_tokens(tokens)
    assert found[: len(expected)] == expected and len(found) == len(tokens)


@pytest.mark.parametrize(
    ("text", "opened_by"),
    [
        ("<b>a</b><br/><1>b</1>", (0, 1, 0, 0, 4)),
        ("<a><b>x</a></b>", (0, 0, 0, 2)),
        ("{$START_LINK_1}a{$CLOSE_LINK} {$START_TAG_SPAN}{$X}{$CLOSE_TAG_SPAN}", (0, 1, 0, 0, 3)),
    ],
)
def test_end_tags_know_their_start_tags(text: str, opened_by: tuple[int, ...]) -> None:
    assert marked(text).opened_by == opened_by


def test_spans_that_are_filled_in_by_order_keep_their_order() -> None:
    source = marked("%d von %s in {name}")
    assert source.restored("[3]: [2] of [1]") == "{name}: %d of %s"
    named = marked("%(a)s von %(b)s")
    assert named.restored("[2] of [1]") == "%(b)s of %(a)s"


def test_tags_and_brackets_are_paired() -> None:
    assert marked("<b>a <i>b</i></b> <br/> </p>").opened_by == (0, 0, 2, 1, 0, 0)
    assert marked("[a] ]").opened_by == (0, 1, 0)


def test_older_stores_keep_their_marks() -> None:
    text = "<b>Achtung</b>: %s"
    assert marked_as(KNOWN_MARKS[0], text) == marked(text) and marked_as("", text).text == text
    assert marked_as(KNOWN_MARKS[1], text).text == "[1]Achtung[2]: [3]"
    assert marked_as(KNOWN_MARKS[1], text).target("<b>Note</b>: %s") == "[1]Note[2]: [3]"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("in %(zone)s seit", "in[1] since", "in %(zone)s since"),
        ("Weiter mit {0}, bitte", "go on[1]please", "go on {0} please"),
        ("v{0}beta", "v[1]beta", "v{0}beta"),
        ("Drücken Sie <b>OK</b>.", "press[1]OK[2]now", "press <b>OK</b> now"),
        ("Ein <b>neues</b> Objekt", "A [1] new [2] object", "A <b>new</b> object"),
        ("Ein <b>neues</b>?", "A [1] new [2]?", "A <b>new</b>?"),
        ("Datei<b>en</b>", "File[1]s[2]", "File<b>s</b>"),
        ("„%s“ öffnen", 'Open "[1]"', 'Open "%s"'),
        ("%s", "[1]", "%s"),
        ("am {a}, Ort{b}", "on [1] [2] town.", "on {a} {b} town."),
        ("<b>%s</b>Datei", "[1] [2] [3] file", "<b>%s</b>file"),
        ("%s%s, %d %s", "[1] [2] [3][4]", "%s%s %d %s"),
        ("Zeile<br>Neu", "Line [1] New", "Line<br>New"),
        ("Größe: %dMB", "Size: [1] MB", "Size: %dMB"),
        ("Drücken Sie [OK]", "Press [1] OK [2]", "Press [OK]"),
    ],
)
def test_blanks_are_as_in_the_source(source: str, target: str, expected: str) -> None:
    assert marked(source).restored(target) == expected


def test_marks_that_the_source_does_not_have_stay_as_they_are() -> None:
    assert marked("%s").restored("[1] [2] [0]") == "%s [2] [0]"
