"""Numbers, in digits of one language and in digits or words of the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed
from nearmt.documents.checks.number_words import cardinals, power_of_ten, values_of_word

_SPACES = "\u00a0\u202f\u2009 "
_NUMBER = re.compile(rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,'’]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_NEXT_WORD = re.compile(r"[ \u00a0\-]?([^\W\d_]+)")
_SEPARATORS = re.compile(rf"[.,'’{_SPACES}]")
_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{2}|\d{4})")
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_DECIMAL = re.compile(r"\d+[.,]\d+")
_NO_SIGN = str.maketrans("", "", "'’" + _SPACES)
#: Languages with a decimal point; the others have a decimal comma.
_POINT = frozenset("en he hi ja ko ms ta te th zh ga mt cy sw ur bn".split())
_TIME = re.compile(r"\d\s?[ap]\.?\s?m\b|\d\s?Uhr\b|\d:\d\d|\d\s?h\b|\d\s?o['’]clock", re.IGNORECASE)
_CLOCK = re.compile(r"[012]?\d\.[0-5]\d")
_DECADE = re.compile(r"(?:er|['’]?s)\b")
#: Smaller numbers are often written as words that no table has: *a pair*, *monthly*.
_LARGE = 12

#: The numbers that a text of digits says in one reading: three for a date.
Reading = tuple[str, ...]


@dataclass(frozen=True)
class _Written:
    """A number in digits."""

    text: str
    #: What it says in its language, the likeliest first.
    usual: list[Reading]
    #: What it says in languages that write numbers otherwise.
    others: list[Reading]


@dataclass(frozen=True)
class _Side:
    written: list[_Written]
    #: Numbers in digits as usual in the language, and in words.
    usual: set[str]
    #: Including other readings of the digits.
    all: set[str]

    @classmethod
    def read(cls, text: str, language: str) -> _Side:
        written = list(_written(text, language)) if any(map(str.isdigit, text)) else []
        words = {value for word in _WORD.findall(text) for value in values_of_word(word, language)}
        words |= {"0"} if _TIME.search(text) else set()  # 14:00 is 14 Uhr
        usual = words.union(*(reading for number in written for reading in number.usual))
        return cls(written, usual, usual.union(*(reading for number in written for reading in number.others)))

    def lacks(self, number: _Written) -> bool:
        return not any(self.all.issuperset(reading) for reading in (*number.usual, *number.others))

    def has_unconverted(self, number: _Written) -> bool:
        """Whether it stands here with the same separators, which say something else in this language."""
        same = next((mine for mine in self.written if mine.text == number.text), None)
        if same is None or number.text.isdigit():
            return False
        return not any(self.usual.issuperset(reading) for reading in number.usual)


class NumberCheck:
    """Numbers that only one side has. Words count where they may stand for digits of the other side."""

    name = "numbers"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        if not any(map(str.isdigit, unit.source_prose)) and not any(map(str.isdigit, unit.target_prose)):
            yield from self._words(unit)
            return
        source = _Side.read(unit.source_prose, unit.source_lang)
        target = _Side.read(unit.target_prose, unit.target_lang)
        missing = [number for number in source.written if target.lacks(number)]
        added = [number for number in target.written if source.lacks(number)]
        if missing:
            severity = Severity.ERROR if any(map(_is_sure, missing)) else Severity.WARNING
            yield Finding(self.name, severity, "numbers of the source are missing", _named(missing))
        if added and not missing:
            yield Finding(self.name, Severity.WARNING, "numbers that the source lacks", _named(added))
        if not missing and unit.source_lang and unit.target_lang:
            kept = [number for number in source.written if target.has_unconverted(number)]
            if kept:
                message = "numbers are not written as usual in the target language"
                yield Finding(self.name, Severity.WARNING, message, _named(kept))
        if not missing and not added:
            yield from self._words(unit)

    def _words(self, unit: CheckedUnit) -> Iterator[Finding]:
        """Words for numbers that were exchanged: both sides have one that the other lacks."""
        source, target = _counted(unit.source_prose, unit.source_lang), _counted(unit.target_prose, unit.target_lang)
        if not source.keys() - target.keys() or not target.keys() - source.keys():
            return
        said, answered = _said(unit.source_prose, unit.source_lang), _said(unit.target_prose, unit.target_lang)
        missing = {value: word for value, word in source.items() if value not in answered}
        added = {value: word for value, word in target.items() if value not in said}
        if missing and added:
            detail = f"{', '.join(missing.values())} became {', '.join(added.values())}"
            yield Finding(self.name, Severity.WARNING, "another number than in the source", detail)


def _written(text: str, language: str) -> Iterator[_Written]:
    has_time = _TIME.search(text) is not None
    for found in _NUMBER.finditer(text):
        usual, others = _readings(found.group(), language)
        following = _NEXT_WORD.match(text, found.end())
        power = power_of_ten(following[1], language) if following else 0
        if power:
            usual += [(_times(reading[0], power),) for reading in usual if len(reading) == 1]
        others += _further(text, found, has_time)
        yield _Written(found.group(), usual, others)


def _further(text: str, found: re.Match[str], has_time: bool) -> list[Reading]:
    """What two digits may say beyond their value: an hour of the afternoon, a year without its century."""
    digits = found.group()
    if not digits.isascii() or not digits.isdigit() or len(digits) > 2:
        return []
    hour: list[Reading] = [(str((int(digits) + 12) % 24),)] if has_time and int(digits) <= 24 else []
    is_year = text[: found.start()].endswith(("/", "-", "'", "’")) or _DECADE.match(text, found.end())
    return hour + ([("19" + digits,), ("20" + digits,)] if is_year and len(digits) == 2 else [])


def _readings(text: str, language: str) -> tuple[list[Reading], list[Reading]]:
    """What digits with separators say: as usual in the language, and otherwise."""
    if text.isdigit():
        return [(_bare(text),)], []
    written = _SEPARATORS.split(text)
    parts = tuple(map(_bare, written))
    joined = text.translate(_NO_SIGN)
    literal = ".".join([parts[0], *written[1:]])
    if _DATE.fullmatch(text):
        return [parts], [(literal,)]
    # A time, or several numbers without blanks; of a decimal, the parts say nothing.
    several = [parts] if len(parts) > 2 or _CLOCK.fullmatch(text) else []
    if joined.isdigit():  # grouped by blanks or apostrophes
        return [(_bare(joined),)], [parts]
    as_point, as_comma = _with_decimal(joined, "."), _with_decimal(joined, ",")
    first, second = (as_point, as_comma) if language in _POINT else (as_comma, as_point)
    usual: list[Reading] = [(first,)] if first else []
    others: list[Reading] = [(value,) for value in (second,) if value and value != first]
    # Sections, versions and times: 3.5, 1.2.3
    if not usual and "," not in joined:
        return [(literal,)], [*others, *several]
    if not language:
        usual, others = [*usual, *others], []
    return usual or [(joined,)], [*others, *several, (literal,)]


def _with_decimal(text: str, sign: str) -> str:
    """The value of digits with this decimal sign; empty if they are not written so."""
    group = "," if sign == "." else "."
    whole, found, fraction = text.partition(sign)
    if not fraction.isdigit() and found:
        return ""
    if group in whole:
        if not _GROUPED.fullmatch(whole) or sign in whole:
            return ""
        whole = whole.replace(group, "")
    if not whole.isdigit():
        return ""
    return f"{_bare(whole)}.{fraction}" if found else _bare(whole)


def _bare(digits: str) -> str:
    """Without zeros in front, and in ASCII digits."""
    plain = "".join(str(int(digit)) if digit.isdecimal() else digit for digit in digits)
    return plain.lstrip("0") or "0"


def _times(value: str, power: int) -> str:
    """The value times a power of ten."""
    whole, _, fraction = value.partition(".")
    digits = whole + fraction.ljust(power, "0")[:power]
    rest = fraction[power:]
    return _bare(digits) + (f".{rest}" if rest else "")


def _is_sure(number: _Written) -> bool:
    """Whether no table of words could be too small for it."""
    value = number.usual[0][0]
    return len(number.usual[0]) > 1 or not value.isdigit() or len(value) > 9 or int(value) > _LARGE


def _counted(text: str, language: str) -> dict[str, str]:
    """Word by value, of words for 2 to 12 that say nothing else: one is an article as well."""
    table = cardinals(language)
    words = [word for word in _WORD.findall(text) if table.get(word.casefold(), "1") not in "01"]
    return {table[word.casefold()]: word for word in words}


def _said(text: str, language: str) -> set[str]:
    return _Side.read(text, language).all


def _named(numbers: Sequence[_Written]) -> str:
    return listed(list(dict.fromkeys(number.text for number in numbers)))
