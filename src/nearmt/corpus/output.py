"""Writing of files with a given encoding, byte-order mark and line ends."""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TextIO, cast

from nearmt.corpus.encoding import Encoding
from nearmt.errors import OutputError, writing


def check_writable(path: Path) -> None:
    """Raise an error if a file cannot be written, before its content is computed; leaves no file behind."""
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name a file")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: cannot be written (there is no folder {path.parent})")
    with writing(path):
        if path.exists() and not path.is_file():  # a pipe or a device: opening it may wait for its reader
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        with tempfile.TemporaryFile(dir=path.parent):  # has no name where the system supports that
            pass


@contextmanager
def open_file(path: Path, encoding: Encoding) -> Iterator[TextIO]:
    """Open a text file that gets its name only when it is complete; `.gz` and `.xz` are compressed."""
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():  # a pipe or a device cannot be renamed
        with writing(path), path.open("wb") as device, text_to(device, encoding, path) as out:
            yield out
        return
    partial = path.with_name(path.name + ".partial")
    try:
        with writing(path), _packed(partial, path.suffix) as raw, text_to(raw, encoding, path) as out:
            yield out
        with writing(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def text_to(raw: IO[bytes], encoding: Encoding, name: Path | str) -> Iterator[TextIO]:
    """Encode text into a byte stream, after the byte-order mark; a container is written when the text is complete."""
    if encoding.container is not None:
        with tempfile.TemporaryFile() as held:
            with text_to(held, replace(encoding, container=None), name) as out:
                yield out
            held.seek(0)
            encoding.container.pack(held, raw)
        return
    raw.write(encoding.bom)
    out = io.TextIOWrapper(raw, encoding=encoding.name, errors=encoding.errors, newline="")
    try:
        yield out
        out.flush()
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        raise OutputError(
            f"{name}: '{letter}' cannot be written in {encoding.name}; convert the document to UTF-8 first"
        ) from error
    finally:
        # Otherwise the wrapper would close the stream.
        out.detach()


@contextmanager
def _packed(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    path.unlink(missing_ok=True)  # what is left of an earlier run, or a link to another file
    with path.open("xb") as raw:
        if suffix == ".gz":
            # Without name and time, so that equal content gives equal files.
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif suffix == ".xz":
            with lzma.open(raw, "wb") as packed_xz:
                yield packed_xz
        else:
            yield raw
