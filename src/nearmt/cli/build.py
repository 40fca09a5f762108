"""nearmt build"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from nearmt.cli.build_run import BuildRun, Languages, RayRun, Reading, ShardRun, WholeRun
from nearmt.cli.checking import check_folder
from nearmt.cli.console import echo, explain_run, waiting, warn
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import print_info
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.reading import reading_options, warn_about
from nearmt.config.ray import RayConfig
from nearmt.config.shard import Shard
from nearmt.datastore import BuildConfig
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.build import check_free
from nearmt.datastore.edit.shards import check_part
from nearmt.datastore.upkeep.description import describe
from nearmt.errors import ConfigError
from nearmt.models import ModelConfig, load_model, resolve_device
from nearmt.models.directions import known_direction


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="folder of the new datastore")
@click.option("--overwrite", is_flag=True, help="replace a datastore that is already there")
@click.option("--shard", help="build only part I of N of the corpus, as I/N; `nearmt merge` joins the parts")
@click.option("--ray", "on_ray", is_flag=True, help="build parts of the corpus on a Ray cluster, and merge them")
@click.option("--json", "as_json", is_flag=True, help="describe the result as JSON")
@reading_options
@config_options(BuildConfig, ModelConfig, RayConfig)
def command(
    files: tuple[Path, ...],
    out: Path,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    overwrite: bool,
    shard: str | None,
    on_ray: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn translation memories into a datastore.

    FILES are memories: TMX, XLIFF, PO, MO, TSV, CSV, XLSX, JSONL (each also with .gz or .xz), two aligned plain
    files named after their languages (corpus.de corpus.en), folders of such files, or patterns in quotes.
    `nearmt inspect` shows what is in them and what the cleaning rules would leave out.

    \b
    nearmt build memory.tmx --out memory
    nearmt build memories/ --out memory --drop-duplicates --max-ratio 4
    nearmt build corpus.de corpus.en --out memory --precision int8
    nearmt build memory.tmx --shard 1/2 --out part-1
    """
    settings = given_settings(options)
    part = None if shard is None else Shard.parse(shard)
    build_config, model_config, ray = (
        pick(BuildConfig, settings),
        pick(ModelConfig, settings),
        pick(RayConfig, settings),
    )
    _check_way(part, on_ray, ray)
    # Processes of a cluster have other current folders.
    paths = [path.absolute() for path in files] if on_ray else list(files)
    reading = Reading(paths, settings, unconfirmed, limit, strict)
    _check_output(out, part, overwrite, build_config)
    resolve_device(model_config.device)
    # Missing files, and unreadable ones if the languages are known, are refused before the model is loaded.
    languages = known_direction(model_config)
    reading.of(languages)()
    make_run = partial(_run, reading, part, (model_config, ray) if on_ray else None)
    ahead = make_run(languages) if all(languages) else None
    with waiting("loading the model"):
        model = load_model(model_config)
    ahead = ahead or make_run(model.language_pair)
    manifest = ahead.build(out, model, build_config, overwrite)
    warn_about(ahead.report)
    explain_run(f"cleaning {manifest.cleaning}")
    _tell_too_long(manifest, model.seq2seq.positions)
    if as_json:
        echo(json.dumps({**describe(out, manifest), "reading": ahead.report.summary()}))
    else:
        print_info(out, manifest)


def _run(
    reading: Reading, part: Shard | None, ray: tuple[ModelConfig, RayConfig] | None, languages: Languages
) -> BuildRun:
    """What reads ahead and builds."""
    if ray is not None:
        return RayRun(reading.of(languages), *ray)
    return WholeRun(reading.of(languages)()) if part is None else ShardRun(reading.of(languages), part)


def _check_output(out: Path, part: Shard | None, overwrite: bool, config: BuildConfig) -> None:
    if part is None:
        check_free(out, overwrite)
    else:
        check_part(out, part, overwrite)
    check_folder(out)
    if config.reduction_of is not None:
        Manifest.load(Path(config.reduction_of))


def _check_way(part: Shard | None, on_ray: bool, config: RayConfig) -> None:
    if part is not None and on_ray:
        raise ConfigError("--ray builds all parts, --shard one of them; give one of them")
    if not on_ray and config != RayConfig():
        raise ConfigError("--workers and --parts need --ray")


def _tell_too_long(manifest: Manifest, positions: int) -> None:
    too_long = sum(segment.too_long for segment in manifest.segments)
    if too_long:
        warn(f"{too_long} pairs are longer than the model's {positions} positions: kept as text only")
