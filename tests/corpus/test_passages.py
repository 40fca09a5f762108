"""Passages: which markup belongs to a unit, and how parts are rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.corpus.document import Filling, FillingOrigin, Segment, Tag, TagKind
from nearmt.corpus.limits import LimitsConfig
from nearmt.corpus.passages import Passage, Piece, Replacement, paired, parts_of, passage_of, trimmed
from nearmt.corpus.report import Report, Request
from tests.corpus.markup_files import machine, shown

PATH = Path("a")


def pieces(markup: str) -> list[Piece]:
    """Make pieces of a text in which letters are texts, `(` and `[` open, `)` and `]` close, and the rest is single."""
    kinds = {"(": TagKind.OPEN, ")": TagKind.CLOSE, "[": TagKind.OPEN, "]": TagKind.CLOSE}
    names = {"(": "b", ")": "b", "[": "i", "]": "i"}
    found = []
    for at, sign in enumerate(markup):
        if sign.isalpha() or sign == " ":
            found.append(Piece(at, at + 1, sign))
        else:
            tag = Tag(sign, kinds.get(sign, TagKind.SINGLE))
            found.append(Piece(at, at + 1, tag, is_word=sign == "#", name=names.get(sign, "")))
    return found


def write(segment: Segment) -> str:
    return "".join(part if isinstance(part, str) else part.markup for part in segment)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("(a)", "a"),
        (" ([a]) ", "a"),
        ("(a)b", "(a)b"),
        ("/a/b/", "a/b"),
        ("()a[]", "a"),
        ("#a#", "#a#"),
        ("(a", "a"),
        ("a)b", "a)b"),
        ("([a)]b", "[a)]b"),
        ("(a)(b)", "(a)(b)"),
        ("/ ", ""),
    ],
)
def test_what_is_around_a_text_is_left_out(markup: str, expected: str) -> None:
    kept = trimmed(paired(pieces(markup)))
    assert "".join(markup[piece.start : piece.end] for piece in kept) == expected


def test_tags_that_do_not_nest_are_single() -> None:
    kinds = {piece.start: piece.value for piece in paired(pieces("(a[b)c]")) if isinstance(piece.value, Tag)}
    assert {at: tag.kind for at, tag in kinds.items()} == {
        0: TagKind.SINGLE,
        2: TagKind.OPEN,
        4: TagKind.SINGLE,
        6: TagKind.CLOSE,
    }
    assert kinds[2].key == kinds[6].key and kinds[2].element and len({tag.key for tag in kinds.values()}) == 3


def test_a_text_without_letters_is_no_unit() -> None:
    assert passage_of([Piece(0, 3, "7 %")], write) is None
    passage = passage_of([Piece(0, 1, "a"), Piece(1, 2, "b")], write)
    assert passage is not None and passage.source == ("ab",)


def test_parts_are_the_text() -> None:
    text = "x\n(a)b\nc"
    passage = passage_of(
        [Piece(2 + piece.start, 2 + piece.end, piece.value, name=piece.name) for piece in pieces("(a)b")], write
    )
    assert passage is not None
    inner = Passage(2, 3, ("p",), write)
    parts = list(parts_of(text, [inner, passage], PATH, Request(), Report(), [Replacement(7, 8, "d")]))
    assert "".join(part.raw for part in parts) == text
    assert [(unit.line, shown(unit.source)) for part in parts for unit in part.units] == [(2, "⟦(⟧a⟦)⟧b"), (2, "p")]
    (unit, own) = parts[1].units
    assert parts[1].filled([None, None]) == "(a)b"
    assert parts[1].filled([machine(unit.source), None]) == "(a)b"
    assert parts[1].filled([None, machine(("q",))]) == "qa)b"
    opening, _, closing, _ = unit.source
    assert parts[1].filled([machine(("y", opening, "z", closing)), machine(("q",))]) == "yqz)"
    assert parts[1].filled([Filling(("n",), FillingOrigin.MEMORY), None]) == "n"
    assert parts[-1].filled([]) == "d" and own.target == ""


def test_what_cannot_be_used_is_reported() -> None:
    report = Report()
    long = "a" * (1 << 20) + "b"
    text = f"{long}\n\udcff"
    passages = [Passage(0, len(long), (long,), write), Passage(len(long) + 1, len(text), ("\udcff",), write)]
    parts = list(parts_of(text, passages, PATH, Request(limits=LimitsConfig(max_unit=1)), report))
    assert "".join(part.raw for part in parts) == text and not any(part.units for part in parts)
    assert [problem.partition(";")[0] for problem in report.problems] == [
        "a, line 1: a text of more than 1 MiB (see the setting max-unit)",
        "a, line 2: undecodable bytes",
    ]
