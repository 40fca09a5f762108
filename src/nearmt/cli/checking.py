"""Checks before a model is loaded: can the inputs be read, can the outputs be written?"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from nearmt.cli.reading import check_not_empty
from nearmt.corpus import BINARY, PairStream, Report, Request, open_document
from nearmt.corpus import check_document as check_whole
from nearmt.corpus.output import check_writable
from nearmt.errors import ConfigError, OutputError, writing

#: How much of an input is read to check it.
_PAIRS = 100
_CHARACTERS = 1 << 18


def check_pairs(paths: Sequence[Path], request: Request, purpose: str) -> None:
    """Read the first pairs strictly; errors and files without pairs are refused."""
    if paths:
        stream = PairStream(list(paths), request, strict=True)
        for _ in islice(stream, _PAIRS):
            pass
        check_not_empty(stream.report, purpose)


def check_document(path: Path, request: Request, strict: bool, format_name: str | None) -> None:
    """Check that a document is complete and that its beginning can be read; not for standard input."""
    if not path.is_file():
        return
    check_whole(path, format_name, request.limits)
    read = 0
    for part in open_document(path, request, Report(strict=strict), format_name).parts:
        read += len(part.raw)
        if read > _CHARACTERS:
            return


def check_output(path: Path | None, read: Sequence[Path] = (), option: str = "--output") -> None:
    """Refuse an output file that cannot be written or is an input; standard output passes."""
    if path is None or str(path) == "-":
        return
    if path.exists() and any(other.exists() and path.samefile(other) for other in read):
        raise ConfigError(f"{path}: is an input file; name another {option}")
    check_writable(path)


def check_terminal(output: Path | None, format_name: str) -> None:
    """Refuse to show a binary document on a terminal."""
    if format_name in BINARY and (output is None or str(output) == "-") and sys.stdout.isatty():
        raise ConfigError(f"a document in the format {format_name} is no text; give --output FILE, or --json")


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be created."""
    above = next(folder for folder in (path.absolute().parent, *path.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise OutputError(f"{path}: cannot be written ({above} is not a folder)")
    with writing(path), tempfile.TemporaryFile(dir=above):
        pass


def check_output_folder(path: Path) -> None:
    """Refuse a folder in which files cannot be created; it need not exist."""
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path}: is not a folder; name a folder for several files")
    if not path.exists():
        check_folder(path)
        return
    with writing(path), tempfile.TemporaryFile(dir=path):
        pass
