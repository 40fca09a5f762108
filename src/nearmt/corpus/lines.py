"""Bytes and lines of files, plain or compressed, with errors that name file and line."""

from __future__ import annotations

import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from nearmt.errors import InputError

COMPRESSED = (".gz", ".xz")
STDIN = Path("-")
_BREAKS = re.compile(r"[\t\r\n]+")

#: Told the number of a line that cannot be read, and why.
OnBadLine = Callable[[int, str], None]


def numbered_lines(path: Path, on_bad_line: OnBadLine | None = None) -> Iterator[tuple[int, str]]:
    """(number, text without its line end) of every line; `-` is standard input.

    Only LF ends a line (and a CR before it goes): other separators of Unicode occur inside segments.
    A line that is not UTF-8 is an error, or left out if there is somebody to tell.
    """
    for number, line in lines_with_ends(path, on_bad_line):
        yield number, split_end(line)[0].removeprefix("\ufeff" if number == 1 else "")


def lines_with_ends(path: Path, on_bad_line: OnBadLine | None = None) -> Iterator[tuple[int, str]]:
    """(number, text with its line end, byte-order mark included) of every line."""
    number = 0
    with reading(path), open_bytes(path) as file:
        for number, raw in enumerate(file, 1):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                reason = f"not UTF-8 (byte {error.start + 1}); convert the file, e.g. with iconv"
                if on_bad_line is None:
                    raise InputError(f"{path}, line {number}: {reason}") from error
                on_bad_line(number, reason)
            else:
                yield number, text


def split_end(line: str) -> tuple[str, str]:
    """A line and its end: LF, CR LF, or nothing at the end of the file."""
    text = line.removesuffix("\n")
    if text != line:
        text = text.removesuffix("\r")
    return text, line[len(text) :]


def one_line(text: str) -> str:
    """Text for a format in which tabs and line breaks mean something else."""
    return _BREAKS.sub(" ", text)


def inner_suffix(path: Path) -> str:
    """The suffix that names the format: `.tsv` for `a.tsv` and for `a.tsv.xz`."""
    return (Path(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix).lower()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what can go wrong while a file is read into one line."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged compressed file ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def open_bytes(path: Path) -> IO[bytes]:
    """The file's content, unpacked."""
    if path == STDIN:
        return sys.stdin.buffer
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix.lower() == ".xz":
        return lzma.open(path, "rb")
    return path.open("rb")
