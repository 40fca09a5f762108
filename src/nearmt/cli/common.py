"""Options that every command has."""

from __future__ import annotations

from typing import Any

import click

from nearmt.cli.console import print_timings, verbosity
from nearmt.cli.manual import ManualOption
from nearmt.timing import Timings


def _quiet(context: click.Context, option: click.Parameter, value: bool) -> None:
    verbosity.quiet = verbosity.quiet or value


def _verbose(context: click.Context, option: click.Parameter, value: bool) -> None:
    verbosity.verbose = verbosity.verbose or value


def _timings(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        timings = Timings()
        # Closed in the opposite order: the clock stops before the table is printed.
        context.call_on_close(lambda: print_timings(timings))
        context.with_resource(timings.active())


def with_common_options(command: click.Command) -> click.Command:
    """Append the common options to those of a command, once."""
    if not any(option.name == "timings" for option in command.params):
        command.params += [
            _flag(
                "--quiet",
                "-q",
                callback=_quiet,
                is_eager=True,
                help="only errors on stderr, no progress bars or notes",
            ),
            _flag("--verbose", "-v", callback=_verbose, is_eager=True, help="settings and every problem on stderr"),
            _flag("--timings", callback=_timings, help="print a table of times to stderr"),
        ]
    return command


def _flag(*names: str, **settings: Any) -> click.Option:
    return ManualOption([*names], section="In every command", is_flag=True, expose_value=False, **settings)
