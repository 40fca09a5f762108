"""nearmt experiment"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import echo, progress_bar, warn
from nearmt.cli.explain import print_explanation
from nearmt.cli.given import MODEL_SETTINGS, Given, given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options, setting_options
from nearmt.datastore import StoreConfig
from nearmt.decoding import BeamConfig
from nearmt.errors import writing
from nearmt.models import ModelConfig
from nearmt.research.evaluation import find_comet
from nearmt.research.experiments import (
    EXPERIMENTS,
    Artefacts,
    Cell,
    Experiment,
    ExperimentConfig,
    Setup,
    WrittenReport,
    run_tasks,
    tasks_of,
    write_report,
)
from nearmt.research.experiments.examples import read_examples
from nearmt.research.experiments.tables import markdown

ALL = "all"
_SHOWN = ("beams", *MODEL_SETTINGS)
#: Options that are paths of this machine.
_PATHS = ("model", "items", "systems")
#: Results are compared with those of the paper, and among machines.
_DEFAULTS = {"precision": "fp32"}


@click.command(cls=ManualCommand)
@click.argument("name", type=click.Choice([*EXPERIMENTS, ALL]))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="folder with a folder for each domain")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="folder of results, datastores and models")
@click.option("--report", "only_report", is_flag=True, help="only write reports of the results in OUT; needs no model")
@config_options(ExperimentConfig)
@setting_options(ModelConfig, StoreConfig, BeamConfig, shown=_SHOWN, defaults=_DEFAULTS)
def command(name: str, data: Path, out: Path, only_report: bool, given: Given, **options: Any) -> None:
    """Measure the systems of the paper and its ablations on one or more domains.

    Each row of the table is measured once on each domain and kept in OUT with everything it needs: datastores,
    tuned settings, trained models. The same command continues an interrupted run; several processes can share OUT.
    The results are OUT/NAME.json, OUT/NAME.md and OUT/NAME.svg. `all` runs every experiment
    but `contrast`, whose items are German and English.

    \b
    nearmt experiment main --data data --out results
    nearmt experiment strategies --data data --out results --domains koran --tune none
    """
    of_parts = {name for part in (ModelConfig, StoreConfig, BeamConfig) for name in part.public_fields()}
    from_given = {name: value for name, value in given.settings().items() if name in of_parts}
    settings = {**given_settings(options), **from_given}
    config = pick(ExperimentConfig, settings)
    parts = pick(ModelConfig, {**_DEFAULTS, **settings}), pick(StoreConfig, settings), pick(BeamConfig, settings)
    if config.comet is not None:
        find_comet(config.comet)
    artefacts = Artefacts(Setup(data, out, config, *parts), progress_bar)
    chosen = [each for each in EXPERIMENTS.values() if (each.runs_with_all if name == ALL else each.name == name)]
    if only_report:
        _report_all(artefacts, chosen, name)
        return
    wanted = [(experiment, tasks_of(artefacts, experiment)) for experiment in chosen]
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    line = _command_line(name, settings)
    for experiment, tasks in wanted:
        run_tasks(artefacts, tasks, line, _say)
        _show(artefacts, experiment, write_report(artefacts, experiment))


def _report_all(artefacts: Artefacts, chosen: list[Experiment], name: str) -> None:
    for experiment in chosen:
        if name != ALL or artefacts.results.cells(experiment.name):
            _show(artefacts, experiment, write_report(artefacts, experiment))


def _say(cell: Cell) -> None:
    """Print a line for every finished cell: runs take hours."""
    found = cell.evaluation
    speed = f"  {found['tokens_per_second']:.0f} tokens/s" if cell.speeds_count and "tokens_per_second" in found else ""
    score = f"  BLEU {found['bleu']:.2f}  chrF {found['chrf']:.2f}" if "bleu" in found else ""
    if "asks" in found:
        score = f"  {sum(ask['right'] for ask in found['asks'])} of {len(found['asks'])} right"
    echo(f"{cell.experiment} {cell.domain} {cell.row}{score}{speed}", err=True)


def _show(artefacts: Artefacts, experiment: Experiment, written: WrittenReport) -> None:
    if experiment.measure is None:
        echo(markdown(written.report) + "\n")
    else:
        for cell in artefacts.results.cells(experiment.name):
            for translation, _ in read_examples(artefacts.results, cell):
                print_explanation(sys.stdout, translation)
    for note in written.notes:
        warn(note)
    warn(f"written to {artefacts.setup.out}: {', '.join(written.files)}")


def _command_line(name: str, settings: dict[str, Any]) -> str:
    """The command line, with names instead of the paths of this machine."""
    words = ["nearmt", "experiment", name, "--data", "DATA", "--out", "OUT"]
    options = {*ExperimentConfig.public_fields(), *_SHOWN}
    for option, value in settings.items():
        if option in ("commit", "comet"):  # the commit has a field of its own, and the path of COMET says nothing
            continue
        if option not in options:
            words += ["--set", f"{option}={value}"]
        elif isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", _named(value) if option in _PATHS else str(value)]
    return shlex.join(words)


def _named(paths: str) -> str:
    """The names of paths that are joined by commas."""
    return ",".join(Path(path.strip()).name for path in paths.split(","))
