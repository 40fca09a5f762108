"""Plural categories, compared with those of babel, which has CLDR's rules."""

from __future__ import annotations

import pytest
from babel import Locale

from nearmt.corpus.icu.plurals import _CARDINAL, _ORDINAL, category, numbers_by_category

NUMBERS = [*range(250), 1000, 1001, 1011]


@pytest.mark.parametrize("language", sorted(_CARDINAL))
def test_cardinals_are_those_of_cldr(language: str) -> None:
    expected = Locale.parse(language).plural_form
    assert [category(language, number) for number in NUMBERS] == [expected(number) for number in NUMBERS]


@pytest.mark.parametrize("language", sorted(_ORDINAL))
def test_ordinals_are_those_of_cldr(language: str) -> None:
    expected = Locale.parse(language).ordinal_form
    assert [category(language, number, True) for number in NUMBERS] == [expected(number) for number in NUMBERS]


@pytest.mark.parametrize(
    ("language", "ordinal", "expected"),
    [
        ("en", False, {"one": (1,), "other": (13, 14)}),
        ("de-AT", True, {"other": (13, 14)}),
        ("en_GB", True, {"one": (21, 31), "two": (22, 32), "few": (23, 33), "other": (13, 14)}),
        ("pl", False, {"one": (1,), "few": (22, 23), "many": (13, 14), "other": ()}),
        ("ja", False, {"other": (13, 14)}),
        (
            "ar",
            False,
            {"zero": (0,), "one": (1,), "two": (2,), "few": (103, 104), "many": (13, 14), "other": (100, 101)},
        ),
        ("tlh", False, {"one": (1,), "other": (13, 14)}),
    ],
)
def test_every_category_has_examples(language: str, ordinal: bool, expected: dict[str, tuple[int, ...]]) -> None:
    found = numbers_by_category(language, ordinal)
    assert {name: numbers[:2] for name, numbers in found.items()} == expected
    assert list(found) == list(expected)
