"""nearmt export-model"""

from __future__ import annotations

from pathlib import Path

import click

from nearmt.cli.console import echo
from nearmt.cli.manual import ManualCommand
from nearmt.models.embedded import EMBEDDED, export_embedded


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--model", type=click.Choice(sorted(EMBEDDED)), default="de-en", help="which embedded model")
def command(folder: Path, model: str) -> None:
    """Write the embedded model as an ordinary Hugging Face folder.

    Other tools can load it, and nearmt too: `--model FOLDER` is the same model as `--model de-en`.
    """
    export_embedded(model, folder)
    echo(f"{model} written to {folder}")
