"""Cleaning: white space and control characters, nothing else."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import clean

#: Any text that UTF-8 can carry, with the interesting characters frequent.
ANY = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from(" \t\n\r\x0b\x0c\x00\x07\x1b\x7f\x80\x85\x9f\u00a0\u202f\u2028\u2029\ufeff\ufff9\u200b\u00ad"),
    ),
    max_size=40,
)


@given(ANY)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(ANY)
def test_no_control_characters_are_left(text: str) -> None:
    assert not [character for character in clean(text) if unicodedata.category(character) in ("Cc", "Zl", "Zp")]


@given(ANY)
def test_blanks_are_single_and_inside(text: str) -> None:
    cleaned = clean(text)
    assert "  " not in cleaned
    assert not cleaned.startswith(" ") and not cleaned.endswith(" ")


@given(ANY)
def test_everything_else_stays_in_order(text: str) -> None:
    def visible(part: str) -> list[str]:
        return [
            c
            for c in part
            if unicodedata.category(c) not in ("Cc", "Zl", "Zp") and c not in " \ufeff\ufff9\ufffa\ufffb"
        ]

    assert visible(clean(text)) == visible(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u00a0b", "a\u00a0b"),
        ("\u00a0a\u202fb\u00a0", "\u00a0a\u202fb\u00a0"),
        ("a\u2028b", "a b"),
        ("a \t\r\n b", "a b"),
        ("a\x00b", "ab"),
        ("a \x00 b", "a b"),
        ("\ufeffa", "a"),
        ("zero\u200bwidth soft\u00adhyphen", "zero\u200bwidth soft\u00adhyphen"),
        ("e\u0301 é 👩\u200d👩\u200d👧", "e\u0301 é 👩\u200d👩\u200d👧"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert clean(text) == expected
