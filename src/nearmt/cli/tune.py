"""nearmt tune"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_output, check_pairs
from nearmt.cli.console import echo, progress_bar, warn
from nearmt.cli.given import TRANSLATION, Given, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.cli.setup import Loader, make_plan
from nearmt.contracts import Pair
from nearmt.corpus import Request, read_pairs
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError, OutputError
from nearmt.methods import METHOD_CONFIGS, PRESETS
from nearmt.models.directions import known_direction
from nearmt.research.tuning import TuneConfig, Tuned, tune, write_config
from nearmt.translator import Translator

_TRIALS_SHOWN = 8
_SHOWN = ("tune", "strategy", "ranges", "budget", "metric", "method", "preset", "filter", "batch-size", "beams")
_MODEL_SHOWN = ("model", "precision", "device")


@click.command(cls=ManualCommand)
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--dev",
    multiple=True,
    type=click.Path(path_type=Path),
    help="pairs to tune on [default: a part of the memory]; give it twice for two aligned files",
)
@click.option("--limit", type=click.IntRange(min=1), help="use only the first pairs of the dev set")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("tuned.toml"),
    show_default=True,
    help="the configuration file to write; the trials are kept in OUT.trials.jsonl",
)
@click.option("--overwrite", is_flag=True, help="discard the trials of another run")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@setting_options(TuneConfig, *TRANSLATION, shown=(*_SHOWN, *_MODEL_SHOWN), without={"datastore"})
def command(
    folders: tuple[str, ...],
    dev: tuple[Path, ...],
    limit: int | None,
    out: Path,
    overwrite: bool,
    as_json: bool,
    given: Given,
) -> None:
    """Find the settings of a method that suit a datastore, or several that are searched together (FOLDER=WEIGHT).

    Each trial translates the dev set with other settings; those that score best are written as a configuration
    file for `translate --config` and `evaluate --config`. Without --dev, part of the memory is held out: no
    search finds these pairs or copies of them.

    Settings that are given, on the command line or with --config, stay fixed; the others are tuned. The same
    command continues an interrupted run.

    \b
    nearmt tune memory --dev test.tsv --budget 4
    nearmt tune memory --dev test.tsv --method knn --tune lambda --strategy grid --budget 7 --out knn.toml
    """
    settings = {**given.settings(), "datastore": folders}
    config = pick(TuneConfig, settings)
    if settings.get("method") == "plain":
        raise ConfigError("method 'plain' has nothing to tune; use one that retrieves")
    record = out.with_name(out.name + ".trials.jsonl")
    _check_output(out, record, overwrite)
    plan = make_plan(settings, frozenset(given.typed))
    check_pairs(dev, Request(*known_direction(plan.model)), "tune on")
    translator = Loader().translator(plan)
    assert translator.datastore is not None
    name = settings.get("method") or "chunk"
    with progress_bar("sentences") as progress:
        tuned = tune(
            translator.model,
            translator.datastore,
            name,
            _dev_pairs(translator, dev, limit),
            config if limit is None else dataclasses.replace(config, held_out=min(limit, config.held_out)),
            _fixed(name, settings),
            record,
            progress,
            translator.batch_size,
            translator.beam,
            overwrite=overwrite,
        )
    write_config(out, tuned, {n: v for n, v in settings.items() if n in BeamConfig.public_fields()})
    if as_json:
        echo(json.dumps({"out": str(out), "method": tuned.method, "settings": tuned.settings, **tuned.facts()}))
    else:
        _print(tuned)
        warn(f"{out}: written; use it with --config {out}")


def _check_output(out: Path, record: Path, overwrite: bool) -> None:
    """Refuse an output that cannot be written before the trials, which take hours."""
    check_output(out, option="--out")
    if out.exists() and not record.exists() and not overwrite:
        raise OutputError(f"{out}: exists, and not from an unfinished run; give another --out, or --overwrite")


def _dev_pairs(translator: Translator, dev: tuple[Path, ...], limit: int | None) -> list[Pair] | None:
    if not dev:
        return None
    source_lang, target_lang = translator.model.language_pair
    return list(read_pairs(*dev, source_lang=source_lang, target_lang=target_lang, limit=limit))


def _fixed(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings of the method, including those of a preset."""
    chosen = {**PRESETS.get(settings.get("preset") or "", {}), **settings}
    return {name: chosen[name] for name in METHOD_CONFIGS[method].public_fields() if name in chosen}


def _print(tuned: Tuned) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    names = list(tuned.trials[0].settings)
    table = Table(box=None)
    for heading in (*names, tuned.metric, ""):
        table.add_column(heading, justify="right" if heading else "left")
    full = [trial for trial in tuned.trials if trial.share == 1]
    defaults = full[0].settings
    ranked = sorted(full, key=lambda trial: trial.score, reverse=True)
    best = [trial for trial in ranked if trial.settings == {name: tuned.settings[name] for name in names}]
    rest = [trial for trial in ranked if trial not in best and trial.settings != defaults]
    for trial in [*best, *rest[: _TRIALS_SHOWN - 1]]:
        note = "tuned" if trial in best else ""
        table.add_row(*(str(trial.settings[name]) for name in names), f"{trial.score:.2f}", note)
    table.add_row(*(str(defaults[name]) for name in names), f"{tuned.default_score:.2f}", "defaults")
    if tuned.base_score is not None:
        table.add_row(*("" for _ in names), f"{tuned.base_score:.2f}", "the model alone")
    SafeConsole().print(table)
