"""Terminal output: progress bars, notes, tables, files."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO, cast

from nearmt.contracts import Progress
from nearmt.corpus.encoding import Encoding
from nearmt.errors import OutputError, writing
from nearmt.timing import Timings


@dataclass
class Verbosity:
    """How much is said on stderr."""

    quiet: bool = False  # errors only
    verbose: bool = False


#: Set by `--quiet` and `--verbose`, for one run of the command line.
verbosity = Verbosity()


@contextmanager
def progress_bar(label: str, total: int = 0, done: int = 0) -> Iterator[Progress | None]:
    """A bar with rate and time left on stderr while the block runs; nothing unless stderr is a terminal."""
    if not _shows_bars():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")

    columns: list[ProgressColumn] = [TextColumn(label), BarColumn(), MofNCompleteColumn(), RateColumn()]
    columns += [TimeElapsedColumn(), TimeRemainingColumn()]
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=total or None, completed=done)
        yield lambda count, of: bars.update(task, completed=done + count, total=max(total, done + of) or None)


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Says what is being waited for; nothing unless stderr is a terminal."""
    if not _shows_bars():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(label):
        yield


def _shows_bars() -> bool:
    return sys.stderr.isatty() and not verbosity.quiet


def warn(message: str) -> None:
    if not verbosity.quiet:
        print(f"nearmt: {message}", file=sys.stderr)


def explain_run(message: str) -> None:
    """Details that `--verbose` asks for."""
    if verbosity.verbose and not verbosity.quiet:
        print(f"nearmt: {message}", file=sys.stderr)


def print_timings(timings: Timings) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="where the time went", box=None)
    for heading in ("", "seconds", "calls", "ms a call", "share"):
        table.add_column(heading, justify="right" if heading else "left")
    named = timings.rows()
    for name, seconds, calls in named:
        share = seconds / timings.elapsed if timings.elapsed else 0.0
        table.add_row(name, f"{seconds:.3f}", f"{calls:,}", f"{1000 * seconds / calls:.2f}", f"{share:.1%}")
    other = timings.elapsed - sum(seconds for _, seconds, _ in named)
    table.add_row("everything else", f"{max(0.0, other):.3f}", "", "", f"{max(0.0, other) / timings.elapsed:.1%}")
    table.add_row("all", f"{timings.elapsed:.3f}", "", "", "", style="bold")
    Console(stderr=True).print(table)


@contextmanager
def open_output(path: Path | None, encoding: Encoding | None = None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its name only when it is complete."""
    encoding = encoding or Encoding()
    if path is None or str(path) == "-":
        with writing("standard output"):
            yield from _standard_output(encoding)
        return
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file")
        with writing(path), path.open("wb") as raw:
            yield from _text_to(raw, encoding, path)
        return
    partial = path.with_name(path.name + ".partial")
    try:
        with writing(path), _packed(partial, path.suffix) as raw:
            yield from _text_to(raw, encoding, path)
        with writing(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _standard_output(encoding: Encoding) -> Iterator[TextIO]:
    if encoding == Encoding():
        yield sys.stdout
        sys.stdout.flush()
    else:
        sys.stdout.flush()
        yield from _text_to(sys.stdout.buffer, encoding, Path("standard output"))


def _text_to(raw: IO[bytes], encoding: Encoding, path: Path) -> Iterator[TextIO]:
    """Text into bytes, with the line ends and the byte-order mark as they are."""
    raw.write(encoding.bom)
    out = io.TextIOWrapper(raw, encoding=encoding.name, errors=encoding.errors, newline="")
    try:
        yield out
        out.flush()
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        raise OutputError(
            f"{path}: '{letter}' cannot be written in {encoding.name}; convert the document to UTF-8 first"
        ) from error
    finally:
        out.detach()


def _packed(path: Path, suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "wb"))
    return lzma.open(path, "wb") if suffix == ".xz" else path.open("wb")
