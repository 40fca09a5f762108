"""JSON with the positions of its values, so that some are replaced and everything else is written back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nearmt.corpus.encoding import is_text
from nearmt.errors import InputError

_DEEPEST = 64
_TOKEN = re.compile(
    r"[ \t\r\n]*+(?:([{}\[\]:,])"
    r'|("(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null))"
)
#: What a file that was cut off ends with: nothing, the beginning of a string, or of a word.
_CUT = re.compile(r'[ \t\r\n]*+(?:"(?:[^"\\\x00-\x1f]++|\\.)*+\\?|[\w.+-]*+)\Z')
_VALUES = frozenset({"{", "[", "string", "other"})
#: The kinds of tokens that may come in a state of the parser.
_ALLOWED = {
    "value": _VALUES,
    "first item": _VALUES | {"]"},
    "first key": frozenset({"key", "}"}),
    "key": frozenset({"key"}),
    "colon": frozenset({":"}),
    "after {": frozenset({",", "}"}),
    "after [": frozenset({",", "]"}),
}


class Token(NamedTuple):
    """A bracket, a key, or a value that is no container."""

    #: One of `{`, `}`, `[`, `]`, `key`, `string`, `other`.
    kind: str
    start: int
    end: int
    #: The number of containers around it.
    depth: int


class JsonError(Exception):
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the tokens of the value at an offset; RFC 8259 is kept to."""
    open_containers: list[str] = []
    state, position = "value", start
    while state:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _error(text, position)
        kind = match[1] or (("key" if state.endswith("key") else "string") if match[2] else "other")
        begin, position = match.start(match.lastindex or 0), match.end()
        if kind not in _ALLOWED[state]:
            raise JsonError(begin, f"{text[begin:position][:20]} is out of place")
        if kind in ("}", "]"):
            open_containers.pop()
        if kind not in (":", ","):
            yield Token(kind, begin, position, len(open_containers))
        if kind in ("{", "["):
            open_containers.append(kind)
            if len(open_containers) > _DEEPEST:
                raise JsonError(begin, f"nested more than {_DEEPEST} deep")
        state = _next_state(kind, open_containers)


def _next_state(kind: str, open_containers: list[str]) -> str:
    """Return what comes next; nothing after the whole value."""
    fixed = {"{": "first key", "[": "first item", "key": "colon", ":": "value"}
    if kind in fixed:
        return fixed[kind]
    if not open_containers:
        return ""
    if kind == ",":
        return "key" if open_containers[-1] == "{" else "value"
    return f"after {open_containers[-1]}"


def _error(text: str, position: int) -> JsonError:
    if _CUT.match(text, position):
        return JsonError(len(text), "the file ends in the middle; get a complete one")
    begin = position + len(text[position : position + 1000]) - len(text[position : position + 1000].lstrip(" \t\r\n"))
    return JsonError(begin, "a value, a quotation mark or a bracket is missing or wrong")


def check_json(path: Path, text: str) -> None:
    """Refuse a text that is not one JSON value."""
    end = 0
    try:
        for token in tokens(text):
            end = token.end
        if text[end:].strip(" \t\r\n"):
            raise JsonError(end, "text after the end")
    except JsonError as error:
        line = text.count("\n", 0, error.offset) + 1
        column = error.offset - text.rfind("\n", 0, error.offset)
        raise InputError(f"{path}, line {line}: not JSON ({error}, column {column})") from error


def string_of(raw: str) -> str | None:
    """Decode a string with its quotation marks; None if it has half a character, or bytes that are not text."""
    text: str = json.loads(raw)
    return text if is_text(text) else None


def written(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)


def spliced(text: str, start: int, end: int, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a span of the text with edits (start, end, new text), which must not overlap."""
    parts, offset = [], start
    for first, last, new in sorted(edits):
        parts += [text[offset:first], new]
        offset = last
    return "".join([*parts, text[offset:end]])


class Member(NamedTuple):
    """A member of an object: where its key begins, and where its value is."""

    start: int
    value: int
    end: int


class JsonObject:
    """An object, or another value, which has no members, within a text that was checked."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end

    @classmethod
    def whole(cls, text: str) -> JsonObject:
        first = next(tokens(text))
        return cls(text, first.start, len(text.rstrip(" \t\r\n")))

    @cached_property
    def members(self) -> dict[str, Member]:
        """Members by key, in order; of a repeated key the last."""
        found: dict[str, Member] = {}
        key: Token | None = None
        opened = 0
        for token in tokens(self.text, self.start):
            if token.depth != 1:
                continue
            if token.kind == "key":
                key = token
            elif token.kind in ("{", "["):
                opened = token.start
            elif key is not None:
                name = json.loads(self.text[key.start : key.end])
                begin = opened if token.kind in ("}", "]") else token.start
                found[name] = Member(key.start, begin, token.end)
        return found

    @property
    def raw(self) -> str:
        return self.text[self.start : self.end]

    @property
    def is_object(self) -> bool:
        return self.text.startswith("{", self.start)

    def member(self, key: str) -> JsonObject | None:
        found = self.members.get(key)
        return None if found is None else JsonObject(self.text, found.value, found.end)

    def string(self, key: str) -> str | None:
        """The text of a member; None if there is none, or it is no string that can be read."""
        found = self.member(key)
        return string_of(found.raw) if found is not None and found.raw.startswith('"') else None
