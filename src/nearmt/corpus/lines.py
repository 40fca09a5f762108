"""Reading of lines, with errors that name file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.unpacking import open_bytes, reading
from nearmt.errors import InputError

_BREAKS = re.compile(r"[\t\r\n]+")

#: Called with the number of an unreadable line and the reason.
OnBadLine = Callable[[int, str], None]


def numbered_lines(
    path: Path, on_bad_line: OnBadLine | None = None, limits: LimitsConfig = DEFAULT_LIMITS
) -> Iterator[tuple[int, str]]:
    """Yield (number, text without its line end) of every line; `-` is standard input.

    Lines end with LF or CR LF only, because other Unicode separators occur inside segments. A line that is too long
    or not UTF-8 is an error; with `on_bad_line`, it is reported and left out.
    """
    for number, line in lines_with_ends(path, on_bad_line, limits):
        yield number, split_end(line)[0].removeprefix("\ufeff" if number == 1 else "")


def lines_with_ends(
    path: Path, on_bad_line: OnBadLine | None = None, limits: LimitsConfig = DEFAULT_LIMITS
) -> Iterator[tuple[int, str]]:
    """Yield (number, text with its line end and byte-order mark) of every line."""

    def refuse(number: int, reason: str) -> None:
        if on_bad_line is None:
            raise InputError(f"{path}, line {number}: {reason}")
        on_bad_line(number, reason)

    with reading(path), open_bytes(path, limits) as file:
        refused = 0
        for number, raw, is_whole in bounded_lines(file, limits.unit_bytes):
            if not is_whole:
                if number != refused:
                    refuse(number, f"a line of {limits.too_large}")
                refused = number
                continue
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                refuse(number, f"not UTF-8 (byte {error.start + 1}); convert the file, e.g. with iconv")
            else:
                yield number, text


def bounded_lines(file: IO[bytes], most: int) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (number, bytes with the line end, True) of every line; longer lines come in several parts, with False."""
    number = 0
    while line := file.readline(most + 1):
        number += 1
        is_whole = len(line) <= most or line.endswith(b"\n")
        yield number, line, is_whole
        while not is_whole and not line.endswith(b"\n") and (line := file.readline(most)):
            yield number, line, False


def split_end(line: str) -> tuple[str, str]:
    """Split a line from its end: LF, CR LF, or nothing at the end of the file."""
    text = line.removesuffix("\n")
    if text != line:
        text = text.removesuffix("\r")
    return text, line[len(text) :]


def one_line(text: str) -> str:
    """Replace tabs and line breaks by blanks, for formats where they are separators."""
    return _BREAKS.sub(" ", text)
