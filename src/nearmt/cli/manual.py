"""Help that reads like a manual page: options under headings, by what they are about."""

from __future__ import annotations

from typing import Any

import click

#: Options of a command that belong to none of its settings.
OWN_SECTION = "Options"


class ManualOption(click.Option):
    """An option that knows its heading."""

    def __init__(self, *arguments: Any, section: str = OWN_SECTION, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class ManualCommand(click.Command):
    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for section, options in sections(self, context).items():
            with formatter.section(section):
                formatter.write_dl([record for option in options if (record := option.get_help_record(context))])


def sections(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """The options of a command by heading, in the order in which headings first appear."""
    found: dict[str, list[click.Option]] = {}
    for option in command.get_params(context):
        if isinstance(option, click.Option):
            found.setdefault(getattr(option, "section", OWN_SECTION), []).append(option)
    return found
