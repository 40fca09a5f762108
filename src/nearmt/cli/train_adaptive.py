"""nearmt train-adaptive"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_output, check_pairs
from nearmt.cli.console import echo, progress_bar, warn
from nearmt.cli.given import MODEL_SETTINGS, Given, given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options, setting_options
from nearmt.cli.setup import Loader, Plan, make_plan
from nearmt.config import Config, option
from nearmt.contracts import Pair
from nearmt.corpus import Request, read_pairs
from nearmt.datastore import LiveStore, StoreConfig
from nearmt.errors import OutputError
from nearmt.methods import PRESETS, ChunkConfig, KnnConfig
from nearmt.models import ModelConfig
from nearmt.models.directions import known_direction
from nearmt.research.training.adaptive import AdaptiveConfig, AdaptiveResult, train_adaptive
from nearmt.research.tuning.holdout import hold_out
from nearmt.translator import Translator

#: Pairs of the memory that are held out if there is no dev set.
_HELD_OUT = 500
#: Settings that the network replaces, and that say how to use one.
_REPLACED = ("lambda", "temperature", "cache-lambda", "cache-temperature", "adaptive", "adaptive-boost")
_SHOWN = ("method", "preset", *MODEL_SETTINGS)


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Config):
    """The method that will use the network."""

    method: str = option("chunk", "the method that will use it", choices=("chunk", "knn"))
    preset: str | None = option(None, "a strategy of the paper", choices=tuple(PRESETS))


@dataclasses.dataclass(frozen=True)
class Texts:
    """Files of pairs, and how many of them to use."""

    paths: tuple[Path, ...]
    limit: int | None

    def read(self, translator: Translator) -> list[Pair]:
        if not self.paths:
            return []
        source_lang, target_lang = translator.model.language_pair
        return list(read_pairs(*self.paths, source_lang=source_lang, target_lang=target_lang, limit=self.limit))


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--dev",
    multiple=True,
    type=click.Path(path_type=Path),
    help="pairs of its domain that are not in the memory [default: a part of it]; give it twice for two aligned files",
)
@click.option(
    "--general",
    multiple=True,
    type=click.Path(path_type=Path),
    help="pairs of other text, from which it learns to ignore the memory; give it twice for two aligned files",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="the file to write, for --set adaptive=OUT")
@click.option(
    "--dev-limit",
    type=click.IntRange(min=1),
    help=f"use only the first pairs of the dev set; without one, how many pairs to hold out [default: {_HELD_OUT}]",
)
@click.option("--general-limit", type=click.IntRange(min=1), help="use only the first pairs of the general text")
@click.option("--overwrite", is_flag=True, help="replace a file that is already there")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@config_options(AdaptiveConfig)
@setting_options(NetworkConfig, KnnConfig, ChunkConfig, ModelConfig, StoreConfig, shown=_SHOWN, without=_REPLACED)
def command(
    folder: Path,
    dev: tuple[Path, ...],
    general: tuple[Path, ...],
    out: Path,
    dev_limit: int | None,
    general_limit: int | None,
    overwrite: bool,
    as_json: bool,
    given: Given,
    **options: Any,
) -> None:
    """Train a network that weighs neighbours, for the setting `adaptive`.

    At every step the network sees how far the neighbours are, how many different tokens they say and how sure
    the model is, and decides how many of them count and how much. It is trained for one datastore, one number
    of neighbours and one way to retrieve: give the settings of the method here that you will translate with.
    Without --dev, part of the memory is held out: no search finds these pairs or copies of them.

    \b
    nearmt train-adaptive memory --dev corpus.de --dev corpus.en --method knn --out memory.adaptive
    nearmt train-adaptive memory --dev dev.tsv --general news.tsv --out memory.adaptive
    """
    config = pick(AdaptiveConfig, given_settings(options))
    settings = {**given.settings(), "datastore": str(folder)}
    for name in _REPLACED:  # a file of `nearmt tune` may hold them
        settings.pop(name, None)
    settings["method"] = pick(NetworkConfig, settings).method
    _check_output(out, overwrite, dev + general)
    plan = make_plan(settings, frozenset(given.typed))
    for paths in (dev, general):
        check_pairs(paths, Request(*known_direction(plan.model)), "train on")
    if not general:
        warn("no --general text: the network does not learn to ignore the memory where that has nothing to say")
    result = _train(plan, Texts(dev, dev_limit), Texts(general, general_limit), out, config)
    if as_json:
        echo(json.dumps(dataclasses.asdict(result)))
    else:
        _print(result)
        warn(f"{out}: written; use it with --method {result.method} --set adaptive={out}")


def _check_output(out: Path, overwrite: bool, read: tuple[Path, ...]) -> None:
    """Refuse an output that cannot be written before the training."""
    check_output(out, read, "--out")
    if out.exists() and not overwrite:
        raise OutputError(f"{out}: exists; give another --out, or --overwrite")


def _train(plan: Plan, dev: Texts, general: Texts, out: Path, config: AdaptiveConfig) -> AdaptiveResult:
    translator = Loader().translator(plan)
    assert translator.datastore is not None
    store: LiveStore = translator.datastore
    if dev.paths:
        dev_pairs = dev.read(translator)
    else:
        store, dev_pairs = hold_out(store, dev.limit or _HELD_OUT)
    general_pairs, settings = general.read(translator), plan.method_settings
    with progress_bar("sentences") as progress:
        return train_adaptive(
            translator.model, store, plan.method, dev_pairs, general_pairs, out, config, settings, progress
        )


def _print(result: AdaptiveResult) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    table = Table(box=None)
    for heading in ("steps", "tokens", "updates", "model's loss", "loss", "model's weight", "temperature"):
        table.add_column(heading, justify="left" if heading == "steps" else "right")
    for name, head in result.heads.items():
        losses = (f"{head.loss_model_alone:.4f}", f"{head.loss:.4f}")
        table.add_row(
            name, f"{head.tokens:,}", f"{head.updates:,}", *losses, f"{head.model_weight:.3f}", f"{head.temperature:g}"
        )
    SafeConsole().print(table)
