"""Reading of plain and compressed files, with a limit on the compression ratio."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

COMPRESSED = (".gz", ".xz")
STDIN = Path("-")
#: Unpacked bytes to which the limit does not apply.
FREE_BYTES = 1 << 26
_BUFFER = 1 << 17


def inner_suffix(path: Path) -> str:
    """Return the suffix that names the format: `.tsv` for `a.tsv` and for `a.tsv.xz`."""
    return (Path(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix).lower()


def inner_stem(path: Path) -> str:
    """Return the name without folder and suffixes: `a` for `a.tsv` and for `a.tsv.xz`."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into errors with a one-line message."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged compressed file ({error})") from error
    except MemoryError as error:  # LZMA files set the size of their dictionary
        raise InputError(f"{path}: there is too little memory to read it") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def open_bytes(path: Path, limits: LimitsConfig = DEFAULT_LIMITS) -> IO[bytes]:
    """Open a file for reading its unpacked content."""
    if path == STDIN:
        return sys.stdin.buffer
    if path.suffix.lower() in COMPRESSED:
        return io.BufferedReader(_Unpacked(path, limits), _BUFFER)
    return path.open("rb")


def read_up_to(file: IO[bytes], most: int) -> bytearray:
    """Read at most `most` bytes, allocating only as much memory as needed."""
    data = bytearray()
    while len(data) < most and (chunk := file.read(min(_BUFFER, most - len(data)))):
        data += chunk
    return data


def check_ratio(path: Path, unpacked: int, packed: int, limits: LimitsConfig) -> None:
    """Refuse a file that unpacks to more than the limits allow."""
    if unpacked > max(FREE_BYTES, limits.max_unpacked * packed):
        raise InputError(
            f"{path}: unpacks to more than {limits.max_unpacked} times its size (see the setting max-unpacked)"
        )


class _Unpacked(io.RawIOBase):
    """The content of a compressed file, up to a multiple of the compressed bytes read."""

    def __init__(self, path: Path, limits: LimitsConfig) -> None:
        super().__init__()
        self._path, self._limits = path, limits
        self._file = path.open("rb")
        self._packed = _Counting(self._file)
        # Both call `read` only.
        packed = cast(IO[bytes], self._packed)
        self._content: gzip.GzipFile | lzma.LZMAFile = (
            gzip.GzipFile(mode="rb", fileobj=packed) if path.suffix.lower() == ".gz" else lzma.LZMAFile(packed)  # noqa: SIM115
        )
        self._given_out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._content.read(len(view))
        view[: len(data)] = data
        self._given_out += len(data)
        check_ratio(self._path, self._given_out, self._packed.count, self._limits)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Counting:
    """Counts the bytes that are read from a file, which may be a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data
