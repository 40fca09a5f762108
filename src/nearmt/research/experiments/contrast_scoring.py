"""How the experiment contrast judges a translation, and counts judgements."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Thirds of a source, for the position of the word that differs.
THIRDS = ("early", "middle", "late")
#: Groups of asks that are also counted on their own, by field of `Ask`.
DIVISIONS = ("kind", "length", "words", "position")
#: A suffix, not a word: "isn't".
_NOT = "n't"
#: Order of values in reports; others are sorted.
_ORDER = ("short", "medium", "long", *THIRDS)


@dataclass(frozen=True)
class Ask:
    """A sentence to translate, and the words that decide whether the translation is right."""

    id: str
    kind: str
    source: str
    #: Target of the stored pair, or the stored translation of a term.
    stored: str
    #: One of these must occur.
    accepted: tuple[str, ...]
    #: One of these as well, unless there is none.
    accepted2: tuple[str, ...] = ()
    #: None of these may occur.
    forbidden: tuple[str, ...] = ()
    #: Name of the file: short, medium, long.
    length: str | None = None
    #: Number of words that differ from the stored source.
    words: int | None = None
    #: Third of the source with the word that differs, if there is only one.
    position: str | None = None

    def is_right(self, text: str) -> bool:
        wanted = [phrases for phrases in (self.accepted, self.accepted2) if phrases]
        return all(occurs(phrases, text) for phrases in wanted) and not self.is_copied(text)

    def is_copied(self, text: str) -> bool:
        """Whether a forbidden phrase, which is that of the stored target, occurs."""
        return occurs(self.forbidden, text)

    def judged(self, text: str) -> dict[str, Any]:
        """Return the judgement and what it is counted by; no sentences."""
        about = {name: getattr(self, name) for name in ("id", *DIVISIONS)}
        return {**about, "right": self.is_right(text), "copied": self.is_copied(text)}


def occurs(phrases: Iterable[str], text: str) -> bool:
    """Whether one of the phrases occurs in a text as whole words, in any case."""
    text = _plain(text)
    return any(_pattern(phrase).search(text) for phrase in phrases)


@functools.lru_cache(maxsize=4096)
def _pattern(phrase: str) -> re.Pattern[str]:
    phrase = _plain(phrase)
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    before = "" if phrase == _NOT else r"(?<!\w)"
    return re.compile(rf"{before}{words}(?!\w)", re.IGNORECASE)


def _plain(text: str) -> str:
    return text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def position_of(stored: str, source: str) -> str | None:
    """Return the third of a source that holds the middle of the words that are not in the stored source."""
    mine, theirs = re.findall(r"\w+", source), re.findall(r"\w+", stored)
    changed: list[float] = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, theirs, mine, autojunk=False).get_opcodes():
        if kind != "equal":
            changed += [number + 0.5 for number in range(start, end)] or [float(start)]
    if not changed:
        return None
    middle = sum(changed) / len(changed) / max(len(mine), 1)
    return THIRDS[min(int(middle * len(THIRDS)), len(THIRDS) - 1)]


def count(judged: Sequence[Mapping[str, Any]], alone: Mapping[str, bool] | None) -> dict[str, int]:
    """Count asks and right ones; with those that the model alone gets right, also how many of them stay right."""
    found = {"asks": len(judged), "right": sum(ask["right"] for ask in judged)}
    if alone is not None:
        known = [ask for ask in judged if alone.get(ask["id"])]
        found |= {"alone": len(known), "kept": sum(ask["right"] for ask in known)}
    return found


def divided(judged: Sequence[Mapping[str, Any]], alone: Mapping[str, bool] | None) -> dict[str, dict[str, Any]]:
    """Count the asks of every kind, length, number of words and position."""
    found: dict[str, dict[str, Any]] = {}
    for division in DIVISIONS:
        values = {ask[division] for ask in judged} - {None}
        found[division] = {
            str(value): count([ask for ask in judged if ask[division] == value], alone)
            for value in sorted(values, key=_order)
        }
    return found


def _order(value: str | int) -> tuple[int, str]:
    return _ORDER.index(value) if value in _ORDER else 0, str(value)


def percent(part: int | None, whole: int | None) -> float | None:
    return round(100 * part / whole, 2) if part is not None and whole else None
