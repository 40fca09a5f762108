"""Numbers as languages write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from nearmt.languages import base_language

#: A number with its separators; digits within a word are none.
NUMBER = re.compile(r"(?<![^\W_])\d+(?:[.,'’\u00a0\u202f]\d+)*")
# Languages with a decimal point; the others have a comma.
_POINT = frozenset("en zh ja ko th he hi bn ta te mr gu kn ml ne si ur ms my sw zu cy ga mt".split())
_SPACES = "'’\u00a0\u202f"


@dataclass(frozen=True)
class Number:
    """A number and how it is written."""

    value: Decimal
    decimals: int
    #: The separator of its thousands; empty if it has none.
    group: str = ""


def parse_number(text: str, language: str) -> Number | None:
    """The number that a text is in a language; None for others, such as versions, dates and leading zeros."""
    point, group = _separators(language)
    groups = rf"[1-9]\d{{0,2}}(?:(?P<group>[{re.escape(group + _SPACES)}])\d{{3}}(?:(?P=group)\d{{3}})*)"
    found = re.fullmatch(rf"(?P<whole>0|[1-9]\d*|{groups})(?:{re.escape(point)}(?P<rest>\d+))?", text, re.ASCII)
    if found is None:
        return None
    whole, rest = re.sub(r"\D", "", found["whole"]), found["rest"] or ""
    return Number(Decimal(f"{whole}.{rest}" if rest else whole), len(rest), found["group"] or "")


def format_number(number: Number, language: str, like: Number) -> str:
    """Write a number in a language, with thousands separated as in a number that it takes the place of."""
    point, group = _separators(language)
    whole, _, rest = f"{number.value:.{number.decimals}f}".partition(".")
    # Four digits are often not separated: then neither number tells what is usual.
    if (number.group or like.group) and (len(whole) > 4 or number.group):
        whole = f"{int(whole):,}".replace(",", like.group or group)
    return whole + (point + rest if rest else "")


def _separators(language: str) -> tuple[str, str]:
    return (".", ",") if base_language(language) in _POINT else (",", ".")
