"""The syntax of ICU MessageFormat: text, arguments, and choices (plural, select, selectordinal).

Apostrophes are read as ICU does: two are one, and one quotes braces (and, in a plural, `#`) up to the next. Beyond ICU,
`{{name}}`, `{$name}` and `{}` are arguments, and a choice may lack its branch `other`, as Angular allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEEPEST = 16
_MOST_CHOICES = 100
_LONGEST = 50_000
_CHOICE = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,")
_SIMPLE = re.compile(r"\{\{\s*[\w.$-]+\s*\}\}|\{\s*\$?(?P<name>[\w.-]*)\s*(?:,\s*number\s*)?\}")
_FORMATTED = re.compile(r"\{\s*[\w.-]+\s*,\s*\w+\s*(?:,(?:[^{}']|'[^']*')*)?\}")
_HEAD = re.compile(
    r"\{\s*(?P<name>[\w.-]+)\s*,\s*(?P<type>plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*(\d{1,6})\s*)?"
)
_KEYWORD = re.compile(r"\s*(=\d{1,6}|[\w-]+)\s*\{")
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_TEXT = re.compile(r"[^{}'#]+")
_CATEGORIES = frozenset({"zero", "one", "two", "few", "many", "other"})


class MessageError(ValueError):
    """A text that has a choice, but is no ICU message."""


@dataclass(frozen=True)
class Simple:
    """An argument without branches, or quoted syntax."""

    raw: str
    #: The name of an argument that is formatted as text or number; empty for others.
    name: str = ""


@dataclass(frozen=True)
class NumberSign:
    """`#`: the number of the plural around it."""

    name: str
    offset: int


@dataclass(frozen=True)
class Choice:
    """An argument with branches."""

    name: str
    type: str
    offset: int
    cases: dict[str, Pattern]

    @property
    def key(self) -> tuple[str, str, int]:
        return self.name, self.type, self.offset


Pattern = tuple["str | Simple | NumberSign | Choice", ...]


def has_choice(text: str) -> bool:
    """Whether a text is meant to be a message with branches."""
    return "{" in text and _CHOICE.search(text) is not None


def parse(text: str) -> Pattern:
    """Parse a whole message."""
    if len(text) > _LONGEST:
        raise MessageError(f"longer than {_LONGEST:,} characters")
    parser = _Parser(text)
    pattern = parser.pattern(0, None)
    if parser.place < len(text):
        raise parser.error("'}' without '{'")
    return pattern


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.place, self.choices = text, 0, 0

    def error(self, reason: str) -> MessageError:
        return MessageError(f"{reason} at character {self.place + 1}")

    def pattern(self, depth: int, plural: NumberSign | None) -> Pattern:
        """Parse up to the end or to the brace that closes this branch."""
        if depth > _DEEPEST:
            raise self.error(f"more than {_DEEPEST} levels")
        parts: list[str | Simple | NumberSign | Choice] = []
        while self.place < len(self.text) and self.text[self.place] != "}":
            part = self._part(depth, plural)
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
        return tuple(parts)

    def _part(self, depth: int, plural: NumberSign | None) -> str | Simple | NumberSign | Choice:
        character = self.text[self.place]
        if character == "{":
            return self._argument(depth, plural)
        if character == "'":
            return self._apostrophe(plural)
        if character == "#":
            self.place += 1
            return plural or "#"
        found = _TEXT.match(self.text, self.place)
        assert found is not None
        self.place = found.end()
        return found[0]

    def _apostrophe(self, plural: NumberSign | None) -> str | Simple:
        start, following = self.place, self.text[self.place + 1 : self.place + 2]
        if following == "'":
            self.place += 2
            return "'"
        if not following or following not in "{}" + "#" * (plural is not None):
            self.place += 1
            return "'"
        end = _QUOTED.match(self.text, start)
        if end is None:
            raise self.error("an apostrophe quotes all that follows; double it")
        self.place = end.end()
        return Simple(end[0])

    def _argument(self, depth: int, plural: NumberSign | None) -> Simple | Choice:
        head = _HEAD.match(self.text, self.place)
        if head is not None:
            return self._choice(head, depth, plural)
        found = _SIMPLE.match(self.text, self.place) or _FORMATTED.match(self.text, self.place)
        if found is None:
            raise self.error("'{' without an argument")
        self.place = found.end()
        return Simple(found[0], found.groupdict().get("name") or "")

    def _choice(self, head: re.Match[str], depth: int, plural: NumberSign | None) -> Choice:
        name, kind, offset = head["name"], head["type"], int(head[3] or 0)
        self.choices += 1
        if self.choices > _MOST_CHOICES:
            raise self.error(f"more than {_MOST_CHOICES} plurals and selections")
        start, self.place = self.place, head.end()
        number = plural if kind == "select" else NumberSign(name, offset)
        cases: dict[str, Pattern] = {}
        while keyword := _KEYWORD.match(self.text, self.place):
            if keyword[1] in cases or (kind != "select" and keyword[1] not in _CATEGORIES and keyword[1][0] != "="):
                raise self.error(f"'{keyword[1]}' is not a further branch of a {kind}")
            self.place = keyword.end()
            cases[keyword[1]] = self.pattern(depth + 1, number)
            self._close()
        self._close()
        if not cases:
            self.place = start
            raise self.error(f"a {kind} without branches")
        return Choice(name, kind, offset, cases)

    def _close(self) -> None:
        found = _END.match(self.text, self.place)
        if found is None:
            raise self.error("'}' is missing")
        self.place = found.end()
