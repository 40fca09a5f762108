"""nearmt finetune"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_folder, check_pairs
from nearmt.cli.console import counted, echo, explain_run, progress_bar, waiting, warn
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.reading import check_not_empty, reading_options, warn_about
from nearmt.cli.training_tables import print_epochs, print_table, shown, tell_epoch
from nearmt.contracts import Pair
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, PairStream, Request
from nearmt.errors import ConfigError
from nearmt.models import ModelConfig, load_trainable
from nearmt.models.directions import known_direction
from nearmt.research.training.finetune import FinetuneResult, check_free, finetune
from nearmt.research.training.grid import GridConfig, GridResult, finetune_grid
from nearmt.research.training.loop import FinetuneConfig


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--dev",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="dev set, not part of FILES; give it twice for two aligned files",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="folder of the new model")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@config_options(FinetuneConfig, GridConfig)
@reading_options
@config_options(ModelConfig, defaults={"precision": "fp32"})
def command(
    files: tuple[Path, ...],
    dev: tuple[Path, ...],
    out: Path,
    as_json: bool,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    **options: Any,
) -> None:
    """Train a model on a memory, for comparison with retrieval.

    FILES are memories as in `nearmt build`. The new model is an ordinary model folder, for `--model` and for
    other tools. The epoch with the lowest loss on the dev set is kept; epoch 0 is the model before training.
    Training in reasonable time needs a GPU.

    With --grid finished points are kept in the folder OUT.grid, and the same command continues after an
    interruption. Several processes can share a grid, each with its own --shard; a last call without one picks
    the best point.

    \b
    nearmt finetune memory.tmx --dev test.tsv --out tuned --epochs 1
    nearmt finetune train.tsv --dev dev.tsv --out tuned --grid paper --shard 1/4
    nearmt finetune train.tsv --dev dev.tsv --out tuned --grid paper
    """
    settings = given_settings(options)
    config, grid = pick(FinetuneConfig, settings), pick(GridConfig, settings)
    model = pick(ModelConfig, settings)
    if grid.grid is None and (grid.shard or "select" in settings):
        raise ConfigError("--shard and --select belong to a grid: give --grid paper")
    check_free(out)
    check_folder(out)
    limits, labels = pick(LimitsConfig, settings), pick(LabelsConfig, settings)
    request = Request(*known_direction(model), limits=limits, labels=labels)
    PairStream(list(files), request)
    check_pairs(dev, request, "validate on")
    with waiting("loading the model"):
        trainable = load_trainable(model)
    request = Request(*trainable.translation.language_pair, unconfirmed, limits, labels)
    cleaning = pick(CleaningConfig, settings)
    pairs = _read(PairStream(list(files), request, cleaning, limit=limit, strict=strict), "train on")
    dev_pairs = _read(PairStream(list(dev), request, strict=True), "validate on")
    explain_run(f"cleaning {cleaning.signature()}")
    if grid.grid is None:
        with progress_bar("updates") as progress:
            result = finetune(trainable, pairs, dev_pairs, out, config, progress=progress, on_epoch=tell_epoch)
        _print_result(out, result, as_json)
    else:
        del trainable  # every point loads the model again
        with progress_bar("updates") as progress:
            results = finetune_grid(model, pairs, dev_pairs, out, config, grid, progress=progress, on_point=_tell_point)
        _print_grid(out, results, as_json)


def _read(stream: PairStream, purpose: str) -> list[Pair]:
    with progress_bar("reading") as progress:
        pairs = list(counted(stream, progress))
    check_not_empty(stream.report, purpose)
    warn_about(stream.report)
    return pairs


def _tell_point(result: FinetuneResult) -> None:
    explain_run(
        f"{_point(result)}: dev loss {shown(result.dev_loss)}, dev BLEU {shown(result.dev_bleu, 2)}, "
        f"{result.seconds:.1f} s"
    )


def _print_result(out: Path, result: FinetuneResult, as_json: bool) -> None:
    _warn_of(result)
    if as_json:
        echo(json.dumps(dataclasses.asdict(result)))
        return
    print_epochs(result.history, result.best_epoch)
    bleu = f", dev BLEU {result.dev_bleu} on {result.dev_bleu_sentences} sentences" if result.dev_bleu_sentences else ""
    echo(f"epoch {result.best_epoch} written to {out}{bleu}")


def _print_grid(out: Path, results: GridResult, as_json: bool) -> None:
    for result in results.points:
        _warn_of(result)
    if as_json:
        echo(json.dumps(dataclasses.asdict(results)))
        return
    rows = [
        (
            f"{_point(result)}{' *' if results.best == result else ''}",
            str(result.best_epoch),
            shown(result.dev_loss),
            shown(result.dev_bleu, 2),
            f"{result.seconds:.1f}",
        )
        for result in results.points
    ]
    print_table(("point", "epoch", "dev loss", "dev BLEU", "seconds"), rows)
    if results.best:
        echo(f"{_point(results.best)} written to {out}")
    else:
        echo(f"{len(results.points)} of {results.total} points are finished; a call without --shard picks the best")


def _warn_of(result: FinetuneResult) -> None:
    if result.too_long:
        warn(f"{result.too_long} pairs are longer than the model's positions: not trained on")
    if result.stopped == "diverged":
        warn(f"{_point(result)}: the loss became NaN or infinite; a smaller --learning-rate may help")
    if result.best_epoch == 0:
        warn(f"{_point(result)}: no epoch has a lower dev loss than the model before training, which is kept")


def _point(result: FinetuneResult) -> str:
    settings = result.settings
    warmup = "with" if settings["warmup"] else "without"
    return f"{settings['learning-rate']:g} {settings['schedule']} {warmup} warm-up"
