"""Shared by the commands that read memories: options, counts, warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

import click

from nearmt.cli.console import counted, explain_run, progress_bar, warn
from nearmt.cli.options import config_options
from nearmt.contracts import Pair
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, PairStream, Report
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])

_PROBLEMS_SHOWN = 5


def reading_options(command: Command) -> Command:
    """Add the options for reading and cleaning memories."""
    options = [
        click.option("--limit", type=click.IntRange(min=1), help="use only the first pairs"),
        click.option("--strict", is_flag=True, help="stop at the first unit that cannot be read"),
        click.option(
            "--unconfirmed", is_flag=True, help="also fuzzy entries of PO files and unconfirmed states of XLIFF"
        ),
        config_options(CleaningConfig, LabelsConfig, LimitsConfig),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def warn_about(report: Report) -> None:
    """Say how tables were read, and warn about pairs that were left out and units that could not be read."""
    for note in report.notes:
        warn(note)
    for what, counts in (("left out", report.skipped), ("dropped", report.dropped), ("cleaned", report.changed)):
        if counts:
            warn(f"{what}: " + ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common()))
    for number, problem in enumerate(report.problems):
        (warn if number < _PROBLEMS_SHOWN else explain_run)(problem)
    hidden = report.problem_count - _PROBLEMS_SHOWN
    if hidden > 0:
        warn(f"and {hidden:,} more that could not be read (--verbose shows them, --strict stops at the first)")


def check_not_empty(report: Report, purpose: str) -> None:
    """Refuse files without a pair, and say why they have none."""
    if not report.pairs and report.problems:
        raise InputError(f"no pairs could be read: {report.problems[0]}")
    if not report.pairs:
        reasons = ", ".join(f"{count} {reason}" for reason, count in (report.skipped + report.dropped).items())
        raise InputError(f"no pairs to {purpose}{': ' + reasons if reasons else ''} (see `nearmt inspect`)")


def read_ahead(pairs: PairStream, purpose: str) -> tuple[Iterator[Pair], int]:
    """Read the first block of pairs, so that input that cannot be read is refused before a model is loaded.

    Returns all pairs, and their number where the block holds all of them (0: unknown).
    """
    first = next(blocks_of(pairs), [])
    check_not_empty(pairs.report, purpose)
    following = next(pairs, None)
    if following is None:
        return iter(first), len(first)
    return chain(first, [following], pairs), 0


def count_pairs(pairs: PairStream, purpose: str) -> int:
    """Read all pairs once to count them, for the progress bar; refuse files without pairs."""
    with progress_bar("reading") as progress:
        for _ in counted(pairs, progress):
            pass
    check_not_empty(pairs.report, purpose)
    return pairs.report.pairs
