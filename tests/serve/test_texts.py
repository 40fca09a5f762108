"""Texts of requests as units, and back."""

from __future__ import annotations

import pytest

from nearmt.corpus import Filling, FillingOrigin
from nearmt.corpus.document import text_with_markup
from nearmt.errors import InputError
from nearmt.serve.texts import check_texts, texts_as_parts
from nearmt.serve.values import TranslationRequest


def upper(request: TranslationRequest, known: str = "") -> list[str]:
    """The texts with all that is translated in upper case."""
    found = []
    for text in texts_as_parts(request, ("de", "en"), lambda text: text == known):
        targets = [tuple(p.upper() if isinstance(p, str) else p for p in unit.source) for unit in text.units]
        found.append(text.filled([Filling(target, FillingOrigin.MACHINE) for target in targets]))
    return found


def sources(request: TranslationRequest, known: str = "") -> list[list[str]]:
    texts = texts_as_parts(request, ("de", "en"), lambda text: text == known)
    return [[text_with_markup(unit.source) for unit in text.units] for text in texts]


@pytest.mark.parametrize("text", ["", "a", " a ", "a\n", "a\nb", "a\r\n\nb\n", "\n\n", "a\x0bb\u2028c"])
def test_line_breaks_stay(text: str) -> None:
    assert upper(TranslationRequest([text, "c"])) == [text.upper(), "C"]


def test_lines_are_units_unless_the_memory_has_the_whole() -> None:
    request = TranslationRequest(["a\nb", "c\nd"])
    assert sources(request) == [["a", "b"], ["c", "d"]]
    assert sources(request, known="c\nd") == [["a", "b"], ["c\nd"]]


def test_neighbouring_texts_know_each_other() -> None:
    texts = texts_as_parts(TranslationRequest(["eins", "zwei\ndrei"]), ("de", "en"), lambda text: False)
    units = [unit for text in texts for unit in text.units]
    assert [(unit.previous, unit.following) for unit in units] == [("", "zwei"), ("eins", "drei"), ("zwei", "")]


def test_markup_is_read_by_its_format() -> None:
    text = "<p>a <b>b</b> &amp; c</p><p>d</p>"
    assert upper(TranslationRequest([text])) == [text.upper()]
    assert sources(TranslationRequest([text], format="html")) == [["a <b>b</b> & c", "d"]]
    assert sources(TranslationRequest([text], format="xml")) == [["<p>a <b>b</b> & c</p><p>d</p>"]]
    assert sources(TranslationRequest([text], format="xml", splitting_tags=["p"])) == [["a <b>b</b> & c", "d"]]
    assert upper(TranslationRequest([text], format="xml", ignore_tags=["b"])) == ["<p>A <b>b</b> &amp; C</p><p>D</p>"]


def test_markup_that_cannot_be_read_names_its_text() -> None:
    with pytest.raises(InputError, match="text 2"):
        upper(TranslationRequest(["<b/>", "<b>"], format="xml"))


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["a"] * 4, "4 texts"),
        (["abc", "def"], "6 characters"),
        (["a", "\ud800"], "text 2: has half a character"),
        (["a\0"], "NUL"),
    ],
)
def test_requests_are_bounded(texts: list[str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        check_texts(texts, 3, 5)
    check_texts(["a", "b"], 3, 5)


def test_lines_are_bounded() -> None:
    with pytest.raises(InputError, match="10,001 lines"):
        upper(TranslationRequest(["\n" * 10_000 + "a"]))
