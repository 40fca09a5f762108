"""nearmt info"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import echo, waiting
from nearmt.cli.manual import ManualCommand
from nearmt.datastore.disk.manifest import Manifest
from nearmt.datastore.upkeep.description import describe


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="compare the checksums of all files, including large ones")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def command(folder: Path, verify: bool, as_json: bool) -> None:
    """Describe a datastore. Needs no model."""
    manifest = Manifest.load(folder)
    with waiting("checking the files"):
        manifest.check_files(folder, thorough=verify or None)
    if as_json:
        echo(json.dumps(describe(folder, manifest)))
    else:
        print_info(folder, manifest)


def print_info(folder: Path, manifest: Manifest) -> None:
    print_fields(describe(folder, manifest))


def print_fields(fields: dict[str, Any]) -> None:
    """Print a table of names and values."""
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        table.add_row(name.replace("_", " "), shown if value is not None else "none")
    SafeConsole().print(table)
