"""nearmt build"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import progress_bar, warn
from nearmt.cli.info import describe, print_info
from nearmt.cli.options import config_options, pick
from nearmt.corpus import read_pairs
from nearmt.models import ModelConfig, load_model
from nearmt.store import BuildConfig
from nearmt.store.build import build, check_free


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="folder of the new datastore")
@click.option("--limit", type=click.IntRange(min=1), help="use only the first pairs")
@click.option("--overwrite", is_flag=True, help="replace a datastore that is already there")
@click.option("--json", "as_json", is_flag=True, help="describe the result as JSON")
@config_options(BuildConfig, ModelConfig)
def command(
    files: tuple[Path, ...], out: Path, limit: int | None, overwrite: bool, as_json: bool, **options: Any
) -> None:
    """Turn translation memories into a datastore.

    FILES are tab-separated pairs (.tsv, also .tsv.xz and .tsv.gz), or two aligned plain files named
    after their languages (corpus.de corpus.en).

    \b
    nearmt build memory.tsv --out memory
    nearmt build corpus.de corpus.en --out memory --precision int8
    """
    settings = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    build_config, model_config = pick(BuildConfig, settings), pick(ModelConfig, settings)
    check_free(out, overwrite)
    # Reading one pair finds missing files and wrong formats before the model is loaded.
    next(read_pairs(*files, limit=1), None)
    model = load_model(model_config)
    source_lang, target_lang = model.language_pair
    pairs = read_pairs(*files, source_lang=source_lang, target_lang=target_lang, limit=limit)
    with progress_bar("pairs") as progress:
        manifest = build(out, pairs, model, build_config, overwrite=overwrite, progress=progress)
    too_long = sum(segment.too_long for segment in manifest.segments)
    if too_long:
        warn(f"{too_long} pairs are longer than the model's {model.seq2seq.positions} positions: kept as text only")
    if as_json:
        click.echo(json.dumps(describe(out, manifest)))
    else:
        print_info(out, manifest)
