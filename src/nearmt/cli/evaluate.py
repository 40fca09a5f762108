"""nearmt evaluate"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import click

from nearmt.cli.checking import check_output, check_pairs
from nearmt.cli.console import open_output, progress_bar, waiting, warn
from nearmt.cli.evaluation_tables import print_rows
from nearmt.cli.given import MODEL_SETTINGS, TRANSLATION, Given, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.cli.setup import Loader
from nearmt.cli.stopping import patient
from nearmt.cli.systems import Wanted, check_baseline, wanted_systems
from nearmt.config.tuning import ScoringConfig
from nearmt.contracts import Pair
from nearmt.corpus import Request, read_pairs
from nearmt.corpus.lines import one_line
from nearmt.corpus.unpacking import COMPRESSED
from nearmt.errors import ConfigError, MissingPackageError, NearmtError
from nearmt.models.directions import known_direction
from nearmt.research.evaluation import Comet, System, evaluate, evaluate_file, find_comet, side_by_side
from nearmt.research.evaluation.report import Row
from nearmt.translator import Translator

#: Environment variable with the path of COMET's program, if `--comet` is not given.
COMET_VARIABLE = "NEARMT_COMET"
_SHOWN = ("datastore", "method", "batch-size", "beams", *MODEL_SETTINGS)


@click.command(cls=ManualCommand)
@click.option(
    "--test",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="pairs to translate and compare with; give it twice for two aligned files",
)
@click.option("--limit", type=click.IntRange(min=1), help="use only the first pairs")
@click.option(
    "--compare-config",
    "other_configs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="TOML file of a further system, named after the file; may be given several times",
)
@click.option(
    "--hypotheses",
    multiple=True,
    type=click.Path(path_type=Path),
    help="translations of another system, one a line; may be given several times",
)
@click.option("--baseline", help="the system that the others are compared with [default: the first]")
@click.option("--ter", is_flag=True, help="also score with TER, which is slow on long lines")
@click.option(
    "--comet",
    "comet_command",
    metavar="COMMAND",
    help=f"also score with COMET: the path of its comet-score [default: the variable {COMET_VARIABLE}]",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="write the translations here; a file for each of several systems"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--markdown", "as_markdown", is_flag=True, help="print a Markdown table")
@setting_options(*TRANSLATION, ScoringConfig, shown=_SHOWN, several={"method"})
def command(
    test: tuple[Path, ...],
    limit: int | None,
    other_configs: tuple[Path, ...],
    hypotheses: tuple[Path, ...],
    baseline: str | None,
    ter: bool,
    comet_command: str | None,
    output: Path | None,
    as_json: bool,
    as_markdown: bool,
    given: Given,
) -> None:
    """Translate a test set and score it with BLEU and chrF (sacrebleu), and with COMET if it is installed.

    The test set is a file of pairs in any format of `nearmt build`. Exact matches are not taken from the
    memory here: everything is translated. Tokens per second count the tokens of the best translations, end of
    sentence included, over the time of translating without loading.

    With several --method, --compare-config or --hypotheses, each system is compared with the first by paired
    bootstrap resampling. Then --output out.txt writes out.NAME.txt for each system, or NAME.txt in there if it
    is a folder.

    \b
    nearmt evaluate --test test.tsv --datastore memory --method chunk --json
    nearmt evaluate --test test.tsv --datastore memory --method plain --method knn --method chunk
    """
    if as_json and as_markdown:
        raise ConfigError("--json and --markdown cannot both be printed: choose one")
    read_pairs(*test)  # a missing file or an unknown format is reported before errors in the settings
    comet = _find_comet(comet_command, pick(ScoringConfig, given.settings()).comet_model)
    wanted = wanted_systems(given, other_configs, hypotheses)
    baseline = check_baseline(baseline, wanted)
    outputs = _output_paths(output, wanted, [*test, *hypotheses])
    languages = (given.typed.get("source-lang"), given.typed.get("target-lang"))
    first = next((system.plan.model for system in wanted if system.plan is not None), None)
    check_pairs(test, Request(*(known_direction(first) if first else languages)), "evaluate on")
    systems, pairs = _measure(wanted, test, limit, languages, outputs, ter)
    failure: NearmtError | KeyboardInterrupt | None = None
    if comet is not None:
        try:
            systems = _with_comet(comet, systems, pairs)
        except (NearmtError, KeyboardInterrupt) as error:
            failure = error
    with patient():  # after an interruption too: the scores are not lost
        _print(systems, pairs, baseline, as_json, as_markdown)
    if comet is None and not as_json and not as_markdown:
        warn(f"COMET was not run: --comet or the variable {COMET_VARIABLE} give the path of its comet-score")
    if failure is not None:  # raised after the scores have been printed
        if comet_command or isinstance(failure, KeyboardInterrupt):
            raise failure
        warn(str(failure))


def _print(systems: list[System], pairs: list[Pair], baseline: str, as_json: bool, as_markdown: bool) -> None:
    rows = [Row(systems[0])]
    if len(systems) > 1:
        with waiting("paired bootstrap resampling"):
            rows = side_by_side(systems, [pair.target for pair in pairs], baseline)
    print_rows(rows, baseline, as_json, as_markdown)


def _find_comet(command: str | None, model: str) -> Comet | None:
    """COMET's program: required if the option names it; a warning if the environment does and it is missing."""
    if command is not None:
        return find_comet(command, model) if command else None
    if default := os.environ.get(COMET_VARIABLE):
        try:
            return find_comet(default, model)
        except (ConfigError, MissingPackageError) as error:
            warn(f"{COMET_VARIABLE}: {error}; COMET is not run")
    return None


def _output_paths(output: Path | None, wanted: Sequence[Wanted], read: Sequence[Path]) -> dict[str, Path]:
    """The output file of each system: writable, and none of the input files."""
    names = [system.name for system in wanted if system.plan is not None]
    if output is None or not names:
        return {}
    if len(wanted) == 1 or str(output) == "-":
        paths = dict.fromkeys(names, output)
    elif output.is_dir():
        paths = {name: output / f"{name}.txt" for name in names}
    else:
        suffixes = output.suffixes[-2:] if output.suffix.lower() in COMPRESSED else output.suffixes[-1:]
        stem = output.name.removesuffix("".join(suffixes))
        paths = {name: output.with_name(f"{stem}.{name}{''.join(suffixes)}") for name in names}
    for path in paths.values():
        check_output(path, read)
    return paths


def _measure(
    wanted: Sequence[Wanted],
    test: tuple[Path, ...],
    limit: int | None,
    languages: tuple[str | None, str | None],
    outputs: dict[str, Path],
    ter: bool,
) -> tuple[list[System], list[Pair]]:
    """Translate and score every system; files are checked before anything is translated."""
    loader = Loader()
    first = next((loader.translator(system.plan) for system in wanted if system.plan is not None), None)
    source_lang, target_lang = first.model.language_pair if first else languages
    # A file of translations has a line for every pair: all pairs are read to compare the counts.
    whole = any(system.file is not None for system in wanted)
    read_limit = None if whole else limit
    pairs = list(read_pairs(*test, source_lang=source_lang, target_lang=target_lang, limit=read_limit))
    counted, pairs = len(pairs), pairs[:limit]
    lines = {system.name: system.first_lines(counted, limit) for system in wanted if system.file is not None}
    systems = []
    for system in wanted:
        if system.plan is not None:
            translator = loader.translator(system.plan)
            _check_languages(translator, system.name, (source_lang, target_lang))
            systems.append(_translated(translator, system.name, pairs, outputs.get(system.name), ter))
        elif system.file is not None:
            found = lines[system.name]
            result = evaluate_file(system.file.name, found, [pair.target for pair in pairs], ter=ter)
            systems.append(System(system.name, result, found))
    return systems, pairs


def _check_languages(translator: Translator, name: str, languages: tuple[str | None, str | None]) -> None:
    if translator.model.language_pair != languages:
        found = " to ".join(translator.model.language_pair)
        raise ConfigError(f"system '{name}' translates {found}, the first system {languages[0]} to {languages[1]}")


def _translated(translator: Translator, name: str, pairs: list[Pair], output: Path | None, ter: bool) -> System:
    with progress_bar(name) as progress:
        result, translations = evaluate(translator, pairs, progress, ter=ter)
    texts = [one_line(translation.text) for translation in translations]
    if output is not None:
        with open_output(output) as file:
            file.writelines(text + "\n" for text in texts)
    return System(name, result, texts)


def _with_comet(comet: Comet, systems: list[System], pairs: list[Pair]) -> list[System]:
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with waiting("COMET"):
        scores = comet.scores(sources, references, [system.outputs for system in systems])
    return [
        dataclasses.replace(
            system, result=dataclasses.replace(system.result, comet=round(score, 4), comet_model=comet.model)
        )
        for system, score in zip(systems, scores, strict=True)
    ]
