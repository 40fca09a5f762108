"""nearmt reindex"""

from __future__ import annotations

from pathlib import Path

import click

from nearmt.cli.info import print_info
from nearmt.store import reindex


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--index", "factory", default="auto", help="exact, or a FAISS factory string [default: by size]")
def command(folder: Path, factory: str) -> None:
    """Give a datastore a new index.

    For a store that was built where FAISS was missing, or for another trade of speed against memory.
    Keys that were kept whole because there were too few of them get their reduction now.
    """
    print_info(folder, reindex(folder, factory))
