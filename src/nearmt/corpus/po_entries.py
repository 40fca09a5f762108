"""The entries of a PO file, one by one: a broken one costs no other, and every line can be written back.

polib reads files as a whole, and lets a missing quote pass with the last letter; so PO files are taken
apart here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nearmt.corpus.encoding import Encoding, decoded
from nearmt.corpus.report import Report

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[[0-9]{1,3}\])?)\s*")
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_ESCAPE = re.compile(r'\\([abfnrtv\\"])|((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]+))+)')
_UNDECODABLE = re.compile("[\ud800-\udfff]")
FUZZY = re.compile(r"(?:^|[,\s])\s*fuzzy(?=[,\s]|$)")

_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
# Not \a: gettext reads the bare character as well, and polib reads nothing else.
ESCAPES = str.maketrans({character: "\\" + letter for letter, character in _ESCAPED.items() if letter != "a"})


class Message(NamedTuple):
    source: str
    plural: str | None
    #: Translations; several only if there is a plural.
    forms: Sequence[str]
    metadata: Mapping[str, str]

    @property
    def sides(self) -> list[tuple[str, str]]:
        if self.plural is None:
            return [(self.source, self.forms[0])]
        # A language with one form says it of any number: it translates the plural.
        singular = [(self.source, self.forms[0])] if len(self.forms) > 1 else []
        return [*singular, (self.plural, self.forms[-1])]


class Line(NamedTuple):
    #: With its end.
    text: str
    #: Empty for a blank line; the mark of a comment; the keyword; `"` for a string alone; `?` for anything else.
    kind: str
    #: What stands behind mark or keyword.
    rest: str = ""
    is_obsolete: bool = False

    @property
    def is_message(self) -> bool:
        return bool(self.kind) and not self.is_comment

    @property
    def is_comment(self) -> bool:
        return self.kind.startswith("#")


def as_line(text: str) -> Line:
    rest = text.strip()
    is_obsolete = rest.startswith("#~") and not rest.startswith("#~|")
    if rest.startswith("#") and not is_obsolete:
        mark = rest[:2] if rest[1:2] in (".", ":", ",", "=", "|") else "#"
        return Line(text, mark, rest[len(mark) :])
    if is_obsolete:
        rest = rest[2:].lstrip()
    elif not rest:
        return Line(text, "")
    if keyword := _KEYWORD.match(rest):
        return Line(text, keyword[1], rest[keyword.end() :], is_obsolete)
    if rest.startswith('"'):
        return Line(text, '"', rest, is_obsolete)
    return Line(text, "#" if is_obsolete else "?")


def _lines(chunks: Iterable[str]) -> Iterator[Line]:
    """Only LF ends a line: other separators of Unicode occur inside strings."""
    begun: list[str] = []
    for chunk in chunks:
        *ended, rest = chunk.split("\n")
        for text in ended:
            yield as_line("".join([*begun, text, "\n"]))
            begun.clear()
        if rest:
            begun.append(rest)
    if begun:
        yield as_line("".join(begun))


@dataclass(frozen=True)
class Block:
    """An entry with the comments before it, or lines between entries."""

    #: The number of its first line.
    line: int
    lines: list[Line]

    @property
    def raw(self) -> str:
        return "".join(line.text for line in self.lines)

    @property
    def has_message(self) -> bool:
        return self.lines[-1].is_message

    @property
    def is_obsolete(self) -> bool:
        return self.lines[-1].is_obsolete


def _blocks(lines: Iterable[Line]) -> Iterator[Block]:
    number = 1
    for group in _groups(lines):
        if group:
            yield Block(number, group)
            number += len(group)


def _groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines of one entry each, with the comments before it; lines that belong to none."""
    group: list[Line] = []
    keyword = ""
    # Blank lines and comments since: only what follows them shows whose they are.
    waiting: list[Line] = []
    for line in lines:
        if not line.is_message:
            waiting.append(line)
            continue
        if not group or line.is_obsolete != group[-1].is_obsolete or not _continues(keyword, waiting, line.kind):
            yield group
            blank = next(at for at, other in enumerate([*waiting, line]) if other.kind)
            yield waiting[:blank]
            group, waiting, keyword = waiting[blank:], [], ""
        group += [*waiting, line]
        waiting.clear()
        keyword = line.kind if line.kind not in ('"', "?") else keyword
    yield group
    yield waiting


def _continues(keyword: str, waiting: Sequence[Line], kind: str) -> bool:
    """Whether a line belongs to the entry whose last keyword is given, behind the lines that wait.

    Lines with nothing between them stay together even where they make no sense, so that what is broken
    is broken as a whole.
    """
    if kind == '"' or (keyword and kind in _followers(keyword)):
        return True
    return not waiting and not (kind in _followers("") and keyword.startswith("msgstr"))


@dataclass(frozen=True)
class Entry:
    """An entry that gettext understands."""

    block: Block
    #: Of its msgid.
    line: int
    #: By keyword, in order.
    texts: Mapping[str, str]
    is_header: bool

    @property
    def header(self) -> dict[str, str]:
        return header_fields(self.texts["msgstr"])

    @property
    def is_fuzzy(self) -> bool:
        return any(FUZZY.search(flags) for flags in self._comments("#,"))

    @property
    def printf(self) -> bool | None:
        flags = re.split(r"[,\s]+", " ".join(self._comments("#,") + self._comments("#=")))
        formats = [flag for flag in flags if flag.endswith("-format") and "brace" not in flag]
        return any(not flag.startswith("no-") for flag in formats) if formats else None

    @cached_property
    def message(self) -> Message:
        metadata = {
            "context": self.texts.get("msgctxt", ""),
            "comment": "\n".join(rest.removeprefix(" ") for rest in self._comments("#.")),
            "occurrences": " ".join(" ".join(self._comments("#:")).split()),
        }
        forms = [text for keyword, text in self.texts.items() if keyword.startswith("msgstr")]
        present = {name: text for name, text in metadata.items() if text}
        return Message(self.texts["msgid"], self.texts.get("msgid_plural"), forms, present)

    def _comments(self, mark: str) -> list[str]:
        return [line.rest for line in self.block.lines if line.kind == mark and line.rest]


def header_fields(text: str) -> dict[str, str]:
    fields = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, _, value in fields}


class _BrokenEntry(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def entries_of(path: Path, encoding: Encoding, report: Report) -> Iterator[tuple[Block, Entry | None]]:
    """All of a catalogue; no entry where there is none, or an obsolete one, or a broken one."""
    has_header = False
    for block in _blocks(_lines(decoded(path, encoding))):
        entry = None
        if block.has_message and not block.is_obsolete:
            try:
                entry = _parsed(block, encoding, has_header)
            except _BrokenEntry as error:
                report.problem(path, error.line, str(error))
        yield block, entry
        has_header = has_header or (entry is not None and entry.is_header)


def _parsed(block: Block, encoding: Encoding, has_header: bool) -> Entry:
    strings: dict[str, list[str]] = {}
    keyword, msgid_line = "", block.line
    for number, line in enumerate(block.lines, block.line):
        if _UNDECODABLE.search(line.text):
            raise _BrokenEntry(number, f"not {encoding.name}; convert the file, e.g. with iconv")
        if keyword and line.is_comment:
            raise _BrokenEntry(number, "a comment inside an entry")
        if not line.is_message:
            continue
        if line.kind == "?":
            raise _BrokenEntry(number, "neither a comment nor a string nor a keyword of gettext")
        if line.kind != '"' or not keyword:
            if line.kind not in _followers(keyword):
                raise _BrokenEntry(number, f"{_named(line.kind)} is out of place here")
            keyword = line.kind
            msgid_line = number if keyword == "msgid" else msgid_line
        strings.setdefault(keyword, []).append(_string(line.rest, number, encoding))
    if not keyword.startswith("msgstr"):
        raise _BrokenEntry(msgid_line, "an entry without msgstr")
    texts = {keyword: "".join(pieces) for keyword, pieces in strings.items()}
    is_header = not has_header and not texts["msgid"] and "msgctxt" not in texts and "msgstr" in texts
    return Entry(block, msgid_line, texts, is_header)


def _named(kind: str) -> str:
    return "a string" if kind == '"' else f"'{kind}'"


def _followers(keyword: str) -> tuple[str, ...]:
    if keyword.startswith("msgstr["):
        return (f"msgstr[{int(keyword[7:-1]) + 1}]",)
    return {
        "": ("msgctxt", "msgid"),
        "msgctxt": ("msgid",),
        "msgid": ("msgid_plural", "msgstr"),
        "msgid_plural": ("msgstr[0]",),
        "msgstr": (),
    }[keyword]


def _string(quoted: str, number: int, encoding: Encoding) -> str:
    match = _QUOTED.fullmatch(quoted)
    if not match:
        raise _BrokenEntry(number, "a quotation mark is missing, or is one too many")
    try:
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1]) or _from_bytes(escape[2], encoding), match[1])
    except UnicodeError as error:
        raise _BrokenEntry(number, f"escaped bytes that are not {encoding.name}") from error


def _from_bytes(escapes: str, encoding: Encoding) -> str:
    r"""`\303\244` is one letter in UTF-8, so neighbours are decoded together."""
    codes = [int(code[1:], 16) if code.startswith("x") else int(code, 8) for code in escapes.split("\\")[1:]]
    return bytes(code & 0xFF for code in codes).decode(encoding.name)
