"""nearmt export"""

from __future__ import annotations

from pathlib import Path

import click

from nearmt.cli.checking import check_output
from nearmt.cli.console import counted, open_output, progress_bar, warn
from nearmt.cli.manual import ManualCommand
from nearmt.corpus.writers import WRITERS
from nearmt.datastore.disk import Manifest, stored_pairs


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--format", "format_name", type=click.Choice(list(WRITERS)), default="tmx", show_default=True, help="what to write"
)
@click.option("--output", type=click.Path(path_type=Path), help="write here instead of standard output")
def command(folder: Path, format_name: str, output: Path | None) -> None:
    """Write a datastore's pairs as a file.

    All pairs are written, with their ids and metadata. Needs no model.

    \b
    nearmt export memory --format tmx --output memory.tmx
    nearmt export memory --format jsonl
    """
    manifest = Manifest.load(folder)
    check_output(output)
    with open_output(output) as out, progress_bar("pairs", manifest.pairs) as progress:
        pairs = counted(stored_pairs(folder, manifest), progress)
        altered = WRITERS[format_name](pairs, out, manifest.source_lang, manifest.target_lang)
    if altered:
        warn(f"{altered:,} pairs have characters that {format_name} cannot hold: they were left out or replaced")
