"""The output of `nearmt evaluate`: JSON, Markdown or tables."""

from __future__ import annotations

import dataclasses
import json
from typing import Literal

from nearmt.cli.console import echo
from nearmt.research.evaluation.report import Row, markdown, signatures, table

#: Least width of the table of several systems, so that no number is cut off.
_WIDTH = 110


def print_rows(rows: list[Row], baseline: str, as_json: bool, as_markdown: bool) -> None:
    """Print one system or several as JSON, Markdown or a table."""
    if as_markdown:
        echo(markdown(rows))
    elif as_json and len(rows) == 1:
        echo(json.dumps(dataclasses.asdict(rows[0].system.result)))
    elif as_json:
        echo(json.dumps({"baseline": baseline, "systems": [row.as_dict() for row in rows]}, ensure_ascii=False))
    elif len(rows) == 1:
        _print_one(rows[0])
    else:
        _print_several(rows)


def _print_one(row: Row) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    found = dataclasses.asdict(row.system.result)
    values = {name: value for name, value in found.items() if value is not None or not name.startswith("ter")}
    shown = Table(box=None, show_header=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    # Numbers first: signatures are long.
    for name in sorted(values, key=lambda name: name.endswith("signature")):
        shown.add_row(name.replace("_", " "), "none" if values[name] is None else str(values[name]))
    SafeConsole().print(shown)


def _print_several(rows: list[Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    from nearmt.cli.safe_console import SafeConsole

    console = SafeConsole(width=max(SafeConsole().width, _WIDTH))
    headings, *cells = table(rows)
    shown = Table(box=None, padding=(0, 1, 0, 0))
    for heading in headings:
        justify: Literal["left", "right"] = "left" if heading == "system" else "right"
        shown.add_column(heading.replace(" ", "\n"), justify=justify, no_wrap=True)
    for row in cells:
        shown.add_row(*row)
    console.print(shown)
    for name, signature in signatures(rows).items():
        console.print(Text(name, style="bold"), signature, soft_wrap=True)
