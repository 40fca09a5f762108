"""nearmt adapt"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.changing import say
from nearmt.cli.console import Teller, echo, progress_bar, waiting, warn
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import print_info
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.setup import model_of
from nearmt.cli.training_tables import print_epochs, tell_epoch
from nearmt.datastore import BuildConfig, rebuild
from nearmt.datastore.disk import Manifest, stored_pairs
from nearmt.datastore.edit.tokens import marks_of
from nearmt.datastore.upkeep.description import describe
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import Adapter, ModelConfig, load_model, load_trainable, resolve_device
from nearmt.models.directions import known_direction
from nearmt.research.training.adapt import AdaptConfig, AdapterData, AdapterResult, check_enough, train_adapter
from nearmt.research.training.adapting import training_folder


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--remove", is_flag=True, help="take the adapter out again: encode the pairs with the model alone")
@click.option("--resume", is_flag=True, help="continue an interrupted run that had the same settings")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@config_options(AdaptConfig, ModelConfig)
def command(folder: Path, remove: bool, resume: bool, as_json: bool, **options: Any) -> None:
    """Train an adapter of the model on a datastore's pairs.

    The adapter is a small change of the model, kept in the datastore (a few MB) and merged into the model whenever the
    datastore is used. Sentences that the datastore knows nothing about are still translated by the model alone. Some
    pairs are held out, and the epoch with the lowest loss on them is kept; if no epoch is better than the model alone,
    nothing is changed. Then all pairs are encoded again; the old datastore stays in place until that is complete.

    After an interruption, the same command with --resume continues. Pairs that are added later are encoded with the
    adapter; `nearmt info` shows how many it was not trained on. Training in reasonable time needs a GPU if there are
    more than a few thousand pairs.

    \b
    nearmt adapt memory
    nearmt adapt memory --rank 16 --epochs 5 --device cpu
    nearmt adapt memory --resume
    nearmt adapt memory --remove
    """
    settings = given_settings(options)
    config, manifest = pick(AdaptConfig, settings), Manifest.load(folder)
    of_model = {name: value for name, value in settings.items() if name in ModelConfig.public_fields()}
    model = pick(ModelConfig, {**model_of(folder, manifest, of_model), **of_model})
    resolve_device(model.device)
    known_direction(model)
    manifest.check_files(folder)
    if remove:
        if resume or settings.keys() - of_model.keys():
            raise ConfigError("--remove trains nothing; leave the settings of the training out")
        _remove(folder, manifest, model, as_json)
        return
    pairs = list(stored_pairs(folder, manifest))
    check_enough(len(pairs))
    with training_folder(folder, resume) as work:
        with waiting("loading the model"):
            trainable = load_trainable(dataclasses.replace(model, precision="fp32"))
        with waiting("tokenizing"):
            data = AdapterData.encoded(pairs, trainable, marks_of(trainable.translation))
        with progress_bar("updates") as progress:
            result = train_adapter(trainable, data, config, work, progress=progress, on_epoch=tell_epoch)
        del trainable  # before the adapted model is loaded
        found = manifest if result.adapter is None else _encode(folder, model, result.adapter, manifest.pairs)
    _print_result(folder, found, data, result, as_json)


def _encode(folder: Path, config: ModelConfig, adapter: Adapter | None, pairs: int) -> Manifest:
    """Encode all pairs with the model, with an adapter or without."""
    with waiting("loading the model"):
        model = load_model(config, adapter)
    with progress_bar("pairs", pairs) as progress:
        return rebuild(folder, model, BuildConfig(), progress, Teller())


def _remove(folder: Path, manifest: Manifest, model: ModelConfig, as_json: bool) -> None:
    if manifest.adapter is None:
        raise DatastoreError(f"{folder}: has no adapter; there is nothing to remove")
    found = _encode(folder, model, None, manifest.pairs)
    removed = manifest.adapter.identity
    say(as_json, f"{folder}: adapter {removed} removed", {"removed": removed, **describe(folder, found)})


def _print_result(folder: Path, manifest: Manifest, data: AdapterData, result: AdapterResult, as_json: bool) -> None:
    outcome = result.outcome
    if data.train.too_long:
        warn(f"{data.train.too_long} pairs are longer than the model's positions: not trained on")
    if outcome.stopped == "diverged":
        warn("the loss became NaN or infinite; a smaller --learning-rate may help")
    if result.adapter is None:
        warn(f"{folder}: no epoch has a lower loss on held-out pairs than the model alone: nothing was changed")
    if as_json:
        fields = {"adapted": result.adapter is not None, "base_loss": result.base_loss, "loss": result.loss}
        training = {"seconds": result.seconds, "training": dataclasses.asdict(outcome)}
        echo(json.dumps({**fields, **training, **describe(folder, manifest)}))
        return
    print_epochs(outcome.history, outcome.best.number)
    if result.adapter is not None:
        print_info(folder, manifest)
