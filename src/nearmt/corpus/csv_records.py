"""Records of CSV with the positions of their fields (RFC 4180), so that one field can be replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig

_QUOTE = '"'
#: What follows an opening quotation mark, up to the closing one.
_CLOSING = re.compile(r'[^"]*+(?:""[^"]*+)*+"')
#: Maximum number of columns, as in a spreadsheet.
MOST_COLUMNS = 1 << 14


@dataclass
class Record:
    """A line of a table, or several if a field has line breaks."""

    #: Number of its first line.
    line: int
    raw: str = ""
    #: Start and end of each field, with its quotation marks.
    spans: list[tuple[int, int]] = field(default_factory=list)
    #: Why it cannot be used.
    problem: str = ""

    @property
    def end(self) -> int:
        """The offset of the line end."""
        return len(self.raw.removesuffix("\n").removesuffix("\r"))

    def text(self, column: int) -> str:
        """The text of a field; empty if the record has too few."""
        if column >= len(self.spans):
            return ""
        start, end = self.spans[column]
        content = self.raw[start:end]
        return content[1:-1].replace('""', _QUOTE) if content.startswith(_QUOTE) else content

    def with_text(self, column: int, text: str, delimiter: str) -> str:
        """Return the record with a field replaced, or added at its end."""
        if column >= len(self.spans):
            missing = delimiter * (column - len(self.spans) + 1)
            return self.raw[: self.end] + missing + quoted(text, delimiter) + self.raw[self.end :]
        start, end = self.spans[column]
        new = quoted(text, delimiter, always=self.raw.startswith(_QUOTE, start))
        return self.raw[:start] + new + self.raw[end:]


def quoted(text: str, delimiter: str, *, always: bool = False) -> str:
    """Write the text of a field, in quotation marks if it needs them."""
    if always or any(letter in text for letter in (delimiter, _QUOTE, "\n", "\r")) or text != text.strip():
        return _QUOTE + text.replace(_QUOTE, '""') + _QUOTE
    return text


def split_lines(chunks: Iterable[str], most: int) -> Iterator[tuple[str, bool]]:
    """Yield lines with their ends, at LF only, and True; longer lines come in several parts, with False."""
    begun, size, is_whole = list[str](), 0, True
    for chunk in chunks:
        *ended, rest = chunk.split("\n")
        for line in ended:
            yield "".join([*begun, line, "\n"]), is_whole and size + len(line) <= most
            begun, size, is_whole = [], 0, True
        begun.append(rest)
        size += len(rest)
        if size > most:
            yield "".join(begun), False
            begun, size, is_whole = [], 0, False
    if last := "".join(begun):
        yield last, is_whole


def records(chunks: Iterable[str], delimiter: str, limits: LimitsConfig = DEFAULT_LIMITS) -> Iterator[Record]:
    """Yield the records of a table; one that is too large, or broken, has a problem."""
    unclosed = f"a quotation mark is missing, or a field of {limits.too_large}"
    draft: _Draft | None = None
    number, is_continued = 1, False
    for line, is_whole in split_lines(chunks, limits.unit_bytes):
        if not is_whole or is_continued:
            if draft is not None:
                yield draft.record(unclosed)
                draft = None
            yield Record(number, line, problem=f"a line of {limits.too_large}")
            is_continued = not line.endswith("\n")
        else:
            draft = draft or _Draft(number, delimiter)
            if draft.add(line):
                yield draft.record()
                draft = None
            elif draft.size > limits.unit_bytes:
                yield draft.record(unclosed)
                draft = None
        number += line.endswith("\n")
    if draft is not None:
        yield draft.record("the file ends in the middle of a quoted field; get a complete one")


class _Draft:
    """A record while its lines are read."""

    def __init__(self, line: int, delimiter: str) -> None:
        self.size = 0
        self._line, self._delimiter = line, delimiter
        self._lines: list[str] = []
        self._spans: list[tuple[int, int]] = []
        self._start = 0  # of the present field
        self._is_quoted = False  # the present field, and it goes on in the next line
        self._problem = ""

    def add(self, line: str) -> bool:
        """Read a line and return whether the record ends with it."""
        before, stop = self.size, len(line.removesuffix("\n").removesuffix("\r"))
        self._lines.append(line)
        self.size += len(line)
        position = 0
        while True:
            after_quotes = self._after_quotes(line, position)
            if after_quotes is None:
                self._is_quoted = True
                return False
            end = line.find(self._delimiter, after_quotes, stop)
            is_last = end < 0
            end = stop if is_last else end
            if after_quotes > position and end != after_quotes:
                self._problem = self._problem or "text after a closing quotation mark"
            self._close_field(before + end)
            if is_last:
                return True
            position = end + 1

    def _after_quotes(self, line: str, position: int) -> int | None:
        """Return where the quoted part of a field ends; its start if it has none; None if the line ends before."""
        if not self._is_quoted:
            if not line.startswith(_QUOTE, position):
                return position
            position += 1
        self._is_quoted = False
        closing = _CLOSING.match(line, position)
        return None if closing is None else closing.end()

    def _close_field(self, end: int) -> None:
        if len(self._spans) < MOST_COLUMNS:
            self._spans.append((self._start, end))
        else:
            self._problem = f"more than {MOST_COLUMNS:,} columns"
        self._start = end + 1

    def record(self, problem: str = "") -> Record:
        return Record(self._line, "".join(self._lines), self._spans, problem or self._problem)
