"""Lines of text files, plain or compressed, with errors that name file and line."""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from nearmt.errors import InputError

COMPRESSED = (".gz", ".xz")
STDIN = Path("-")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text without its line end) of every line; `-` is standard input.

    Only LF ends a line (and a CR before it goes): other separators of Unicode occur inside segments.
    """
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                text = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte {error.start + 1}); convert the file, e.g. with iconv"
        ) from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: damaged compressed file ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def inner_suffix(path: Path) -> str:
    """The suffix that names the format: `.tsv` for `a.tsv` and for `a.tsv.xz`."""
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _open(path: Path) -> IO[bytes]:
    if path == STDIN:
        return sys.stdin.buffer
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return path.open("rb")
