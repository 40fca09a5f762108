"""Terminal output: progress bars, tables, files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nearmt.contracts import Progress
from nearmt.errors import OutputError, writing


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """A bar on stderr while the block runs; nothing unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = [TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)


def warn(message: str) -> None:
    print(f"nearmt: {message}", file=sys.stderr)


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its name only when it is complete."""
    if path is None or str(path) == "-":
        with writing("standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file")
        with writing(path), path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
        return
    partial = path.with_name(path.name + ".partial")
    try:
        with writing(path), partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
        with writing(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
