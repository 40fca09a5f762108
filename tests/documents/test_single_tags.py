"""Single tags as characters of the text, and back."""

from __future__ import annotations

from nearmt.contracts import TokenProvenance, Translation
from nearmt.corpus import Tag, TagKind
from nearmt.documents.single_tags import with_single_tags

X, Y, BREAK = Tag("<x/>"), Tag("<y/>"), Tag("<br/>", blank=True)
OPEN, CLOSE = Tag("<g>", TagKind.OPEN, "g"), Tag("</g>", TagKind.CLOSE, "g")


def test_single_tags_are_in_the_text_and_others_are_not() -> None:
    inline = with_single_tags(("a ", X, OPEN, "b", CLOSE, BREAK, Y, " c"))
    assert inline.segment == ("a \ue000", OPEN, "b", CLOSE, BREAK, "\ue001 c")
    assert inline.restored(inline.segment) == ("a ", X, OPEN, "b", CLOSE, BREAK, Y, " c")


def test_tags_may_change_places_and_none_is_lost_or_doubled() -> None:
    inline = with_single_tags((X, "a", Y))
    assert inline.restored(("\ue001 and \ue000",)) == (Y, " and ", X)
    assert inline.restored(("\ue001 and \ue001",)) == (Y, " and ", X)


def test_a_text_with_private_characters_is_left_alone() -> None:
    segment = ("icon \ue012 ", X)
    assert with_single_tags(segment).segment == segment
    assert with_single_tags(segment).restored(("icon \ue012",)) == ("icon \ue012",)


def test_an_explanation_shows_tags() -> None:
    tokens = tuple(TokenProvenance(text, "model", False, 1.0, 1.0, ()) for text in (" a", " \ue001"))
    explained = with_single_tags((X, "a", Y)).explained(Translation("", "", 0.0, provenance=tokens)).provenance
    assert explained is not None and [token.token for token in explained] == [" a", " <y/>"]
