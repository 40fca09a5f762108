"""nearmt fit-reduction"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearmt.cli.build_run import Reading
from nearmt.cli.checking import check_folder
from nearmt.cli.console import waiting
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import print_info
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.reading import read_ahead, reading_options, warn_about
from nearmt.datastore.edit.build import check_free
from nearmt.datastore.edit.shards import fit_reduction
from nearmt.models import ModelConfig, load_model, resolve_device

_PATH = click.Path(path_type=Path)


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=_PATH)
@click.option("--out", required=True, type=_PATH, help="folder of the new datastore, which has the PCA and no pairs")
@click.option("--overwrite", is_flag=True, help="replace a datastore that is already there")
@reading_options
@config_options(ModelConfig)
def command(
    files: tuple[Path, ...],
    out: Path,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    overwrite: bool,
    **options: Any,
) -> None:
    """Fit the PCA that all parts of a corpus share.

    FILES are the memories of `nearmt build`; the PCA is fitted on the first pairs, as there. The result is a
    datastore without pairs. `nearmt build --shard I/N --reduction-of DIR` takes its PCA. Models that come with a
    PCA, such as the embedded one, do not need this.

    \b
    nearmt fit-reduction memory.tmx --out pca
    nearmt build memory.tmx --shard 1/2 --reduction-of pca --out part-1 --overwrite
    """
    settings = given_settings(options)
    config = pick(ModelConfig, settings)
    check_free(out, overwrite)
    check_folder(out)
    resolve_device(config.device)
    with waiting("loading the model"):
        model = load_model(config)
    found = Reading(list(files), settings, unconfirmed, limit, strict).of(model.language_pair)()
    pairs, _ = read_ahead(found, "fit on")
    with waiting("fitting"):
        manifest = fit_reduction(out, pairs, model, overwrite=overwrite, cleaning=found.signature)
    warn_about(found.report)
    print_info(out, manifest)
