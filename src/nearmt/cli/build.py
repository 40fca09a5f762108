"""nearmt build"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_folder
from nearmt.cli.console import echo, explain_run, progress_bar, waiting, warn
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import describe, print_info
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.reading import read_ahead, reading_options, warn_about
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, PairStream, Request
from nearmt.datastore import BuildConfig
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.build import build, check_free
from nearmt.models import ModelConfig, load_model, resolve_device
from nearmt.models.directions import known_direction


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="folder of the new datastore")
@click.option("--overwrite", is_flag=True, help="replace a datastore that is already there")
@click.option("--json", "as_json", is_flag=True, help="describe the result as JSON")
@reading_options
@config_options(BuildConfig, ModelConfig)
def command(
    files: tuple[Path, ...],
    out: Path,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    overwrite: bool,
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
    """
    settings = given_settings(options)
    build_config, model_config = pick(BuildConfig, settings), pick(ModelConfig, settings)
    cleaning, limits = pick(CleaningConfig, settings), pick(LimitsConfig, settings)
    labels = pick(LabelsConfig, settings)
    check_free(out, overwrite)
    check_folder(out)
    if build_config.reduction_of is not None:
        Manifest.load(Path(build_config.reduction_of))
    resolve_device(model_config.device)
    languages = known_direction(model_config)

    def stream(source_lang: str | None, target_lang: str | None) -> PairStream:
        request = Request(source_lang, target_lang, unconfirmed, limits, labels)
        return PairStream(list(files), request, cleaning, limit=limit, strict=strict)

    # Missing files, and unreadable ones if the languages are known, are refused before the model is loaded.
    found = stream(*languages)
    ahead = read_ahead(found, "build from") if all(languages) else None
    with waiting("loading the model"):
        model = load_model(model_config)
    if ahead is None:
        found = stream(*model.language_pair)
        ahead = read_ahead(found, "build from")
    pairs, total = ahead
    with progress_bar("pairs", total) as progress:
        manifest = build(
            out, pairs, model, build_config, overwrite=overwrite, cleaning=cleaning.signature(), progress=progress
        )
    warn_about(found.report)
    explain_run(f"cleaning {cleaning.signature()}")
    _tell_too_long(manifest, model.seq2seq.positions)
    if as_json:
        echo(json.dumps({**describe(out, manifest), "reading": found.report.summary()}))
    else:
        print_info(out, manifest)


def _tell_too_long(manifest: Manifest, positions: int) -> None:
    too_long = sum(segment.too_long for segment in manifest.segments)
    if too_long:
        warn(f"{too_long} pairs are longer than the model's {positions} positions: kept as text only")
