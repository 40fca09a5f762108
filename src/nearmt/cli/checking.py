"""What can be known before a model is loaded: inputs that cannot be read, outputs that cannot be written."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from nearmt.cli.reading import check_not_empty
from nearmt.corpus import PairStream, Report, Request, open_document
from nearmt.corpus import check_document as check_whole
from nearmt.corpus.output import check_writable
from nearmt.errors import ConfigError, OutputError, writing

#: So much of an input is read to find out whether it can be.
_PAIRS = 100
_CHARACTERS = 1 << 18


def check_pairs(paths: Sequence[Path], request: Request, purpose: str) -> None:
    """Pairs that are read strictly, at their beginning."""
    if paths:
        stream = PairStream(list(paths), request, strict=True)
        for _ in islice(stream, _PAIRS):
            pass
        check_not_empty(stream.report, purpose)


def check_document(path: Path, request: Request, strict: bool, format_name: str | None) -> None:
    """A file that is to be filled in: that it is whole, and its beginning; standard input cannot be read twice."""
    if not path.is_file():
        return
    check_whole(path, format_name, request.limits)
    read = 0
    for part in open_document(path, request, Report(strict=strict), format_name).parts:
        read += len(part.raw)
        if read > _CHARACTERS:
            return


def check_output(path: Path | None, read: Sequence[Path] = (), option: str = "--output") -> None:
    """A file that is to be written, and is none of those that are read; nothing for standard output."""
    if path is None or str(path) == "-":
        return
    if path.exists() and any(other.exists() and path.samefile(other) for other in read):
        raise ConfigError(f"{path}: is a file that is read; name another {option}")
    check_writable(path)


def check_folder(path: Path) -> None:
    """A folder that is to be made, with those that it lies in."""
    above = next(folder for folder in (path.absolute().parent, *path.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise OutputError(f"{path}: cannot be written ({above} is not a folder)")
    with writing(path), tempfile.TemporaryFile(dir=above):
        pass
