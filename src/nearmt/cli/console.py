"""Terminal output: progress bars, notes, tables, files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeVar, cast

import click

from nearmt.cli.terminal import TerminalText, neutral
from nearmt.contracts import Progress
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file, text_to
from nearmt.errors import writing
from nearmt.timing import Timings

Item = TypeVar("Item")


@dataclass
class Verbosity:
    """How much is printed to stderr."""

    quiet: bool = False  # errors only
    verbose: bool = False


#: Set by `--quiet` and `--verbose`, for one run of the command line.
verbosity = Verbosity()


@contextmanager
def progress_bar(label: str, total: int = 0, done: int = 0) -> Iterator[Progress | None]:
    """Show a bar with rate and time left on stderr while the block runs, if stderr is a terminal."""
    if not shows_bars():
        yield None
        return
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

    from nearmt.cli.safe_console import SafeConsole

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")

    # The label may be a file name: not a format string, no markup.
    name = TextColumn("{task.description}", markup=False)
    columns: list[ProgressColumn] = [name, BarColumn(), MofNCompleteColumn(), RateColumn()]
    columns += [TimeElapsedColumn(), TimeRemainingColumn()]
    with Bars(*columns, console=SafeConsole(stderr=True), transient=True) as bars:
        task = bars.add_task(neutral(label), total=total or None, completed=done)
        yield lambda count, of: bars.update(task, completed=done + count, total=max(total, done + of) or None)


def counted(items: Iterable[Item], progress: Progress | None) -> Iterator[Item]:
    """The items, with progress reported for every thousand."""
    for number, item in enumerate(items, 1):
        if progress and number % 1000 == 0:
            progress(number, 0)
        yield item


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Show what the block is doing, if stderr is a terminal."""
    if not shows_bars():
        yield
        return
    from rich.text import Text

    from nearmt.cli.safe_console import SafeConsole

    with SafeConsole(stderr=True).status(Text(neutral(label))):
        yield


class Teller:
    """Prints what a command waits for elsewhere, every few seconds."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds, self._next = seconds, 0.0

    def __call__(self, message: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._seconds
            warn(message)


def shows_bars() -> bool:
    return sys.stderr.isatty() and not verbosity.quiet


def echo(text: str, *, err: bool = False) -> None:
    """Print text that may contain text from files: control characters are escaped."""
    click.echo(neutral(text, keep="\n\t"), err=err)


def warn(message: str) -> None:
    if not verbosity.quiet:
        echo(f"nearmt: {message}", err=True)


def complain(message: str) -> None:
    """Print an error after which the command goes on, also with `--quiet`."""
    echo(f"nearmt: error: {' '.join(message.split())}", err=True)


def explain_run(message: str) -> None:
    """Print a note with `--verbose`."""
    if verbosity.verbose and not verbosity.quiet:
        echo(f"nearmt: {message}", err=True)


def print_timings(timings: Timings) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    table = Table(title="times", box=None)
    for heading in ("", "seconds", "calls", "ms per call", "share"):
        table.add_column(heading, justify="right" if heading else "left")
    named, shares = timings.rows(), timings.shares()
    for name, seconds, calls in named:
        each = f"{1000 * seconds / calls:.2f}"
        table.add_row(name, f"{seconds:.3f}", f"{calls:,}", each, f"{shares[name]:.1%}")
    other = max(0.0, timings.elapsed - sum(seconds for _, seconds, _ in named))
    table.add_row("other", f"{other:.3f}", "", "", f"{shares['']:.1%}")
    table.add_row("total", f"{timings.elapsed:.3f}", "", "", "", style="bold")
    SafeConsole(stderr=True).print(table)


@contextmanager
def open_output(path: Path | None, encoding: Encoding | None = None) -> Iterator[TextIO]:
    """Standard output, or a file that is renamed into place when it is complete.

    Files and pipes get the text unchanged; on a terminal control characters are escaped.
    """
    encoding = encoding or Encoding()
    if path is not None and str(path) != "-":
        with open_file(path, encoding) as out:
            yield out
        return
    with writing("standard output"):
        if encoding == Encoding():
            yield cast(TextIO, TerminalText(sys.stdout)) if sys.stdout.isatty() else sys.stdout
        else:
            sys.stdout.flush()
            with text_to(sys.stdout.buffer, encoding, "standard output") as out:
                yield out
        sys.stdout.flush()
