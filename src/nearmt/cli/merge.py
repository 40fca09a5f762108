"""nearmt merge"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_folder
from nearmt.cli.console import Teller, echo, waiting
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import print_info
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.setup import model_of
from nearmt.datastore.edit.build import check_free
from nearmt.datastore.edit.merge_shards import merge_shards, ordered_parts
from nearmt.datastore.search.index_store import Indexing
from nearmt.datastore.upkeep.description import describe
from nearmt.models import ModelConfig, load_model, resolve_device

_PATH = click.Path(path_type=Path)


@click.command(cls=ManualCommand)
@click.argument("shards", nargs=-1, required=True, type=_PATH)
@click.option("--out", required=True, type=_PATH, help="folder of the new datastore")
@click.option("--overwrite", is_flag=True, help="replace a datastore that is already there")
@click.option(
    "--index", default="auto", help="exact, a FAISS factory string, or milvus://HOST:PORT[/DATABASE] [default: by size]"
)
@click.option("--json", "as_json", is_flag=True, help="describe the result as JSON")
@config_options(ModelConfig)
def command(shards: tuple[Path, ...], out: Path, overwrite: bool, index: str, as_json: bool, **options: Any) -> None:
    """Join the parts of a corpus to one datastore.

    SHARDS are all parts that `nearmt build --shard I/N` made, in any order. The result has the pairs, ids and keys
    of a single build. Files are hard-linked where possible, so the parts can be removed afterwards; the index and
    the calibration are made here. `nearmt compact` makes one segment of all, which is faster to search.

    \b
    nearmt build memory.tmx --shard 1/2 --out part-1
    nearmt build memory.tmx --shard 2/2 --out part-2
    nearmt merge part-1 part-2 --out merged
    """
    check_free(out, overwrite)
    check_folder(out)
    parts = ordered_parts(shards)
    folder, manifest = parts[0]
    settings = given_settings(options)
    config = pick(ModelConfig, {**model_of(str(folder), manifest, settings), **settings})
    resolve_device(config.device)
    with waiting("loading the model"):
        model = load_model(config)
    with waiting("merging"):
        found = merge_shards(out, shards, model, Indexing(index, tell=Teller()), overwrite=overwrite)
    if as_json:
        echo(json.dumps(describe(out, found)))
    else:
        print_info(out, found)
