"""Files that clients upload."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from nearmt.errors import InputError, writing
from nearmt.serve.errors import TooLarge

_CHUNK = 1 << 20
_UNSAFE = re.compile(r"[^\w.() -]|^[.\s]+")
_LONGEST = 100


def safe_name(filename: str, suffix: str | None = None) -> str:
    """The name of an upload as the name of a file, with a suffix that says its format if it has another one."""
    name = _UNSAFE.sub("_", filename.replace("\\", "/").rpartition("/")[2].strip()) or "upload"
    encoded = name.encode("utf-8", "replace")
    if len(encoded) > _LONGEST:  # the end has the suffix
        name = encoded[-_LONGEST:].decode("utf-8", "ignore")
    return name + suffix if suffix else name


def save(stream: BinaryIO, path: Path, most: int) -> int:
    """Write an upload to disk and return its bytes; it is complete when this returns."""
    size = 0
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with path.open("xb") as file:
                while chunk := stream.read(_CHUNK):
                    size += len(chunk)
                    if size > most:
                        raise TooLarge(f"the file has more than {most >> 20} MiB")
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if not size:
        path.unlink()
        raise InputError("the file is empty")
    return size
