"""Plural categories of languages (CLDR), for whole numbers.

The categories of a language are those that some whole number has, and `other`, which every message needs. `many` of
Romance languages, which is about millions, is left out: without it, messages use `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from nearmt.languages import base_language

Rule = Callable[[int], str]


def _one(n: int) -> str:
    return "one" if n == 1 else "other"


def _zero_or_one(n: int) -> str:
    return "one" if n in (0, 1) else "other"


def _east_slavic(n: int) -> str:
    if n % 10 == 1 and n % 100 != 11:
        return "one"
    return "few" if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else "many"


def _south_slavic(n: int) -> str:
    found = _east_slavic(n)
    return "other" if found == "many" else found


def _polish(n: int) -> str:
    if n == 1:
        return "one"
    return "few" if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else "many"


def _czech(n: int) -> str:
    return "one" if n == 1 else "few" if n in (2, 3, 4) else "other"


def _slovenian(n: int) -> str:
    return {1: "one", 2: "two", 3: "few", 4: "few"}.get(n % 100, "other")


def _lithuanian(n: int) -> str:
    if 11 <= n % 100 <= 19 or n % 10 == 0:
        return "other"
    return "one" if n % 10 == 1 else "few"


def _latvian(n: int) -> str:
    if n % 10 == 0 or 11 <= n % 100 <= 19:
        return "zero"
    return "one" if n % 10 == 1 else "other"


def _romanian(n: int) -> str:
    if n == 1:
        return "one"
    return "few" if n == 0 or 1 <= n % 100 <= 19 else "other"


def _arabic(n: int) -> str:
    if n in (0, 1, 2):
        return ("zero", "one", "two")[n]
    return "few" if 3 <= n % 100 <= 10 else "many" if n % 100 >= 11 else "other"


def _hebrew(n: int) -> str:
    return {1: "one", 2: "two"}.get(n, "other")


def _irish(n: int) -> str:
    if n in (1, 2):
        return ("one", "two")[n - 1]
    return "few" if 3 <= n <= 6 else "many" if 7 <= n <= 10 else "other"


def _welsh(n: int) -> str:
    return {0: "zero", 1: "one", 2: "two", 3: "few", 6: "many"}.get(n, "other")


def _maltese(n: int) -> str:
    if n in (1, 2):
        return ("one", "two")[n - 1]
    return "few" if n == 0 or 3 <= n % 100 <= 10 else "many" if 11 <= n % 100 <= 19 else "other"


def _icelandic(n: int) -> str:
    return "one" if n % 10 == 1 and n % 100 != 11 else "other"


def _none(n: int) -> str:
    return "other"


_CARDINAL_ROWS: Sequence[tuple[str, Rule]] = (
    (
        "af az bg ca da de el en eo es et eu fi gl hu it ka kk ky lb ml mn mr ne nl no nb nn sq sv sw ta te tr ur uz",
        _one,
    ),
    ("am as bn fa fr gu hi hy kn pa pt zu", _zero_or_one),
    ("be ru uk", _east_slavic),
    ("bs hr sr", _south_slavic),
    ("pl", _polish),
    ("cs sk", _czech),
    ("sl", _slovenian),
    ("lt", _lithuanian),
    ("lv", _latvian),
    ("mo ro", _romanian),
    ("ar", _arabic),
    ("he", _hebrew),
    ("ga", _irish),
    ("cy", _welsh),
    ("mt", _maltese),
    ("is mk", _icelandic),
    ("id ja km ko lo ms my th vi zh", _none),
)


def _english_ordinal(n: int) -> str:
    if n % 100 in (11, 12, 13):
        return "other"
    return {1: "one", 2: "two", 3: "few"}.get(n % 10, "other")


def _swedish_ordinal(n: int) -> str:
    return "one" if n % 10 in (1, 2) and n % 100 not in (11, 12) else "other"


def _italian_ordinal(n: int) -> str:
    return "many" if n in (8, 11, 80, 800) else "other"


def _ukrainian_ordinal(n: int) -> str:
    return "few" if n % 10 == 3 and n % 100 != 13 else "other"


def _hungarian_ordinal(n: int) -> str:
    return "one" if n in (1, 5) else "other"


def _catalan_ordinal(n: int) -> str:
    return {1: "one", 2: "two", 3: "one", 4: "few"}.get(n, "other")


_ORDINAL_ROWS: Sequence[tuple[str, Rule]] = (
    ("en", _english_ordinal),
    ("sv", _swedish_ordinal),
    ("it", _italian_ordinal),
    ("uk", _ukrainian_ordinal),
    ("hu", _hungarian_ordinal),
    ("ca", _catalan_ordinal),
    ("fr ga hy lo mo ms ro vi", _one),
)
_CARDINAL = {language: rule for languages, rule in _CARDINAL_ROWS for language in languages.split()}
_ORDINAL = {language: rule for languages, rule in _ORDINAL_ROWS for language in languages.split()}
# Numbers that models copy: those below 13 are often spelt out.
_NUMBERS = (*range(13, 130), *range(13))
_MANY = 1_000


def category(language: str, number: int, ordinal: bool = False) -> str:
    """The plural category of a number; languages without a row have English plurals, and one form of ordinals."""
    base = base_language(language)
    rule = _ORDINAL.get(base, _none) if ordinal else _CARDINAL.get(base, _one)
    return rule(number)


@cache
def numbers_by_category(language: str, ordinal: bool = False) -> dict[str, tuple[int, ...]]:
    """Examples of every category of a language, as CLDR orders them; `other` may be about fractions only."""
    found: dict[str, list[int]] = {}
    for number in (*_NUMBERS, _MANY):
        found.setdefault(category(language, number, ordinal), []).append(number)
    found.setdefault("other", [])
    order = ("zero", "one", "two", "few", "many", "other")
    return {name: tuple(found[name]) for name in order if name in found}
