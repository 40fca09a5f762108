"""Help with the options under headings."""

from __future__ import annotations

from typing import Any

import click

#: Heading of options that are not settings.
OWN_SECTION = "Options"


class ManualOption(click.Option):
    """An option with a heading."""

    def __init__(self, *arguments: Any, section: str = OWN_SECTION, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class ManualCommand(click.Command):
    """A command whose help has headings."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for section, options in sections(self, context).items():
            with formatter.section(section):
                formatter.write_dl([record for option in options if (record := option.get_help_record(context))])


def sections(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """The options of a command that are not hidden, by heading in order of first appearance."""
    found: dict[str, list[click.Option]] = {}
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            found.setdefault(getattr(option, "section", OWN_SECTION), []).append(option)
    return found
