"""nearmt compact"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearmt.cli.changing import open_with_model, say
from nearmt.cli.console import waiting
from nearmt.cli.given import given_settings
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.config.building import MOST_SECONDS
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.upkeep.description import describe, kept_bytes
from nearmt.models import ModelConfig


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--index",
    "factory",
    default="auto",
    help="exact, a FAISS factory string, or milvus://HOST:PORT[/DATABASE] [default: where it is, else by size]",
)
@click.option(
    "--keep-replaced",
    type=click.IntRange(0, MOST_SECONDS),
    help="seconds that replaced files stay for other machines, from now on [default: as before]",
)
@click.option("--json", "as_json", is_flag=True, help="describe the result as JSON")
@config_options(ModelConfig)
def command(folder: Path, factory: str, keep_replaced: int | None, as_json: bool, **options: Any) -> None:
    """Merge all segments into one, without deleted pairs.

    Search is then as fast as in a newly built store. The replaced files, which hold the deleted text, stay for an
    hour, because other machines may read them; --keep-replaced 0 removes them at once. The store is calibrated again
    for its size. A model is loaded only if logged pairs are not encoded yet, or if an option of the model is
    given: then the weight of the memory is calibrated again too. Pruned entries come back.

    \b
    nearmt compact memory
    nearmt compact memory --device cpu --json
    """
    settings = given_settings(options)
    manifest, ledger = Manifest.load(folder), Ledger(folder)
    before = _size(folder)
    if settings or ledger.pending:
        store, model = open_with_model(folder, manifest, settings)
        with waiting("compacting"):
            store.compact(model, factory, keep_replaced=keep_replaced)
    else:
        store = Datastore.open(folder)
        with waiting("compacting"):
            store.compact(None, factory, keep_replaced=keep_replaced)
    found = describe(folder, store.manifest)
    kept = kept_bytes(folder, store.manifest) / 1e6
    freed = (before - _size(folder)) / 1e6
    line = f"{folder}: {found['pairs']:,} pairs, {found['entries']:,} entries in one segment; {freed:+.1f} MB free"
    if kept:
        line += f", {kept:.1f} MB are kept for readers on other machines"
    say(as_json, line, {**found, "freed_megabytes": round(freed, 1)})


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
