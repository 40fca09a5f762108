"""Parsing of PO files entry by entry: a broken entry does not affect others, and every line can be written back.

polib reads whole files, and accepts a missing quotation mark by dropping the last letter, so it is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nearmt.corpus.cleaning import digest
from nearmt.corpus.encoding import Encoding, decoded
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[[0-9]{1,3}\])?)\s*")
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_ESCAPE = re.compile(r'\\([abfnrtv\\"])|((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]+))+)')
_UNDECODABLE = re.compile("[\ud800-\udfff]")
FUZZY = re.compile(r"(?:^|[,\s])\s*fuzzy(?=[,\s]|$)")

_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
# Estimated RAM of a line in addition to its characters.
_LINE_COST = 100
#: The kind of a part of a line that is too long.
_OVERLONG = "…"
# Not \a: gettext reads the bare character as well, and polib only that.
ESCAPES = str.maketrans({character: "\\" + letter for letter, character in _ESCAPED.items() if letter != "a"})


class Message(NamedTuple):
    source: str
    plural: str | None
    #: Translations; several only if there is a plural.
    forms: Sequence[str]
    metadata: Mapping[str, str]

    @property
    def sides(self) -> list[tuple[str, str, str]]:
        """Ids within the catalogue, sources and translations, of singular and plural."""
        identity = digest(self.metadata.get("context", ""), self.source).hex()
        if self.plural is None:
            return [(identity, self.source, self.forms[0])]
        # In a language with one form, it translates the plural.
        singular = [(identity, self.source, self.forms[0])] if len(self.forms) > 1 else []
        return [*singular, (f"{identity}:plural", self.plural, self.forms[-1])]


class Line(NamedTuple):
    #: With its line end.
    text: str
    #: Empty for a blank line; the mark of a comment; the keyword; `"` for a string alone; `?` for anything else;
    #: `…` for a part of a line that is too long.
    kind: str
    #: The text after mark or keyword.
    rest: str = ""
    is_obsolete: bool = False

    @property
    def cost(self) -> int:
        return len(self.text) + _LINE_COST

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


def _lines(chunks: Iterable[str], most: int) -> Iterator[Line]:
    """Split text into lines at LF only, since other Unicode separators occur in strings; cut overlong lines."""
    begun: list[str] = []
    size, is_overlong = 0, False
    for chunk in chunks:
        *ended, rest = chunk.split("\n")
        for text in ended:
            whole = "".join([*begun, text, "\n"])
            yield Line(whole, _OVERLONG) if is_overlong else as_line(whole)
            begun.clear()
            size, is_overlong = 0, False
        if rest:
            begun.append(rest)
            size += len(rest)
        if size > most:
            yield Line("".join(begun), _OVERLONG)
            begun.clear()
            size, is_overlong = 0, True
    if begun:
        yield Line("".join(begun), _OVERLONG) if is_overlong else as_line("".join(begun))


@dataclass(frozen=True)
class Block:
    """An entry with its comments, or lines between entries."""

    #: Number of its first line.
    line: int
    lines: list[Line]
    #: The beginning, or the rest, of an entry that is too large.
    is_cut: bool = False
    is_rest: bool = False

    @property
    def raw(self) -> str:
        return "".join(line.text for line in self.lines)

    @property
    def has_message(self) -> bool:
        return self.lines[-1].is_message

    @property
    def is_obsolete(self) -> bool:
        return self.lines[-1].is_obsolete


def _blocks(lines: Iterable[Line], most: int) -> Iterator[Block]:
    number = 1
    for group, is_cut, is_rest in _groups(lines, most):
        if group:
            yield Block(number, group, is_cut, is_rest)
            number += sum(line.text.endswith("\n") for line in group)


def _groups(lines: Iterable[Line], most: int) -> Iterator[tuple[list[Line], bool, bool]]:
    """Group lines into entries with the comments before them, and lines between entries.

    An entry that is too large comes in several groups: the first has is_cut set, the others is_rest.
    """
    group: list[Line] = []
    keyword, is_obsolete, is_rest, size = "", False, False, 0
    # Blank lines and comments since the last message line; the next one decides to which entry they belong.
    waiting: list[Line] = []
    for line in lines:
        if size > most:
            yield group, not is_rest, is_rest
            yield waiting, False, False
            is_rest = is_rest or bool(group)
            group, waiting, size = [], [], 0
        size += line.cost
        if not line.is_message:
            waiting.append(line)
            continue
        is_next = line.is_obsolete != is_obsolete or not _continues(keyword, waiting, line.kind)
        if is_next or not (group or is_rest):
            yield group, False, is_rest
            blank = next(index for index, other in enumerate([*waiting, line]) if other.kind)
            yield waiting[:blank], False, False
            group, waiting, keyword, is_rest = waiting[blank:], [], "", False
            size = line.cost + sum(other.cost for other in group)
        group += [*waiting, line]
        waiting.clear()
        is_obsolete = line.is_obsolete
        keyword = line.kind if line.kind not in ('"', "?", _OVERLONG) else keyword
    yield group, False, is_rest
    yield waiting, False, False


def _continues(keyword: str, waiting: Sequence[Line], kind: str) -> bool:
    """Whether a line belongs to the entry whose last keyword is given, after the waiting lines.

    Adjacent lines stay together even if they are out of order, so that a broken entry is refused as a whole.
    """
    if kind == '"' or (keyword and kind in _followers(keyword)):
        return True
    return not waiting and not (kind in _followers("") and keyword.startswith("msgstr"))


@dataclass(frozen=True)
class Entry:
    """A valid entry."""

    block: Block
    #: Line number of its msgid.
    line: int
    #: Strings by keyword, in order.
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


class _UnfinishedEntry(_BrokenEntry):
    """An entry without translation; at the end of a file, it was cut off."""


def entries_of(
    path: Path, encoding: Encoding, request: Request, report: Report, must_end: bool = False
) -> Iterator[tuple[Block, Entry | None]]:
    """Yield all blocks of a catalogue with their entries; None for text between entries, obsolete and broken entries.

    With `must_end`, a file that is empty or ends in the middle of an entry is an error.
    """
    has_header = has_message = False
    unfinished: _BrokenEntry | None = None
    limits = request.limits
    for block in _blocks(_lines(decoded(path, encoding, limits), limits.unit_bytes), limits.unit_bytes):
        entry = None
        if block.has_message:
            has_message, unfinished = True, None
        if block.is_cut:
            report.problem(path, block.line, f"an entry of {limits.too_large}")
        elif block.has_message and not block.is_obsolete and not block.is_rest:
            try:
                entry = _parsed(block, encoding, has_header)
            except _BrokenEntry as error:
                report.problem(path, error.line, str(error))
                is_unfinished = isinstance(error, _UnfinishedEntry) or not block.lines[-1].text.endswith("\n")
                unfinished = error if is_unfinished else None
        yield block, entry
        has_header = has_header or (entry is not None and entry.is_header)
    if must_end and unfinished:
        reason = f"{unfinished}: the file ends in the middle; get a complete one"
        raise InputError(f"{path}, line {unfinished.line}: {reason}")
    if must_end and not has_message:
        raise InputError(f"{path}: is empty, or no catalogue: it has no entries")


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
        if line.kind == _OVERLONG:
            raise _BrokenEntry(number, "a line that is too long (see the setting max-unit)")
        if line.kind == "?":
            raise _BrokenEntry(number, "neither a comment nor a string nor a keyword of gettext")
        if line.kind != '"' or not keyword:
            if line.kind not in _followers(keyword):
                raise _BrokenEntry(number, f"{_named(line.kind)} is out of place here")
            keyword = line.kind
            msgid_line = number if keyword == "msgid" else msgid_line
        strings.setdefault(keyword, []).append(_string(line.rest, number, encoding))
    if not keyword.startswith("msgstr"):
        raise _UnfinishedEntry(msgid_line, "an entry without msgstr")
    texts = {keyword: "".join(parts) for keyword, parts in strings.items()}
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
    r"""Decode adjacent escapes together: `\303\244` is one letter in UTF-8."""
    codes = [int(code[1:], 16) if code.startswith("x") else int(code, 8) for code in escapes.split("\\")[1:]]
    return bytes(code & 0xFF for code in codes).decode(encoding.name)
