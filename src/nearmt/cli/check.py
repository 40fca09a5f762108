"""nearmt check"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearmt.cli.check_report import TextReport, as_fields
from nearmt.cli.checking import check_output
from nearmt.cli.console import echo, explain_run, waiting, warn
from nearmt.cli.given import Given, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.config.model import DEFAULT_MODEL, ModelConfig
from nearmt.corpus import (
    DOCUMENTS,
    ONE_LANGUAGE,
    WITH_NOTES,
    Document,
    LimitsConfig,
    Report,
    Request,
    check_document,
    format_of,
    open_document,
)
from nearmt.corpus.direction import Direction, language_of_name, language_of_path, named_direction
from nearmt.corpus.glossary import read_glossary
from nearmt.documents.annotating import write_annotated
from nearmt.documents.checking import Align, LineUnit, checked_units, units_of_document, units_of_texts, units_of_two
from nearmt.documents.checks import TEXT_CHECKS, Check, CheckedUnit, Finding, Severity, text_checks
from nearmt.documents.checks.summary import FindingSummary
from nearmt.documents.checks.terms import TermCheck
from nearmt.errors import ConfigError, InputError
from nearmt.languages import base_language

if TYPE_CHECKING:
    from nearmt.models import TranslationModel

#: The check by alignment, which alone needs a model: `nearmt.documents.dropped`, not imported for its name.
_DROPPED = "dropped"
_SEVERITIES = [severity.label for severity in reversed(Severity)]
_PROBLEMS_SHOWN = 10


@dataclass(frozen=True)
class _Plan:
    """What is checked, and how."""

    files: tuple[Path, ...]
    #: None for two aligned texts.
    format: str | None
    direction: Direction
    checks: list[Check]
    model: ModelConfig | None
    limits: LimitsConfig


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SOURCE TARGET | DOCUMENT")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([name for name in DOCUMENTS if name != "text"]),
    help="format of a document [default: by its suffix]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="write the DOCUMENT here, with what is shown in the notes of its units (PO, XLIFF, TMX, JSONL)",
)
@click.option("--glossary", type=click.Path(path_type=Path), help="terms to check: TSV, CSV or TBX")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice([*TEXT_CHECKS, _DROPPED]),
    help="leave out a check; may be given several times",
)
@click.option(
    "--least",
    type=click.Choice(_SEVERITIES),
    default="warning",
    show_default=True,
    help="show findings of this severity and above; all are counted",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="exit code 1 if there are findings of this severity or above",
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a unit with findings, then a summary")
@click.option("--strict", is_flag=True, help="stop at the first unit that cannot be read")
@setting_options(ModelConfig, LimitsConfig, shown=("model", "source-lang", "target-lang", "device"))
def command(
    files: tuple[Path, ...],
    format_name: str | None,
    output: Path | None,
    glossary: Path | None,
    without: tuple[str, ...],
    least: str,
    fail_on: str,
    as_json: bool,
    strict: bool,
    given: Given,
) -> None:
    """Check translations for mistakes.

    Compares each unit of a DOCUMENT (PO, XLIFF, TMX, CSV, XLSX, TSV, JSONL) with its translation, or SOURCE with
    TARGET: each line of two texts, or each unit of two documents in one language (JSON, Fluent, HTML, ...). Looks
    at numbers, placeholders, tags, addresses, negation, length, untranslated and dropped parts, repetition, white
    space, punctuation, capitals, and the terms of a glossary.

    The languages are those that the files name; --source-lang and --target-lang override them. Dropped parts are
    found with a model that aligns words: --model, or the embedded one if the languages are its own. All other checks
    need no model.

    With --output, a copy of the document has the findings in its notes, in place of those of an earlier check; all
    else is written back byte for byte.

    The exit code is 1 if something of severity error is found (--fail-on).

    \b
    nearmt check corpus.de corpus.en
    nearmt check app.po --glossary terms.csv --fail-on never
    nearmt check manual.xliff --without dropped --json
    nearmt check draft.po --output checked.po --fail-on never
    """
    plan = _plan(files, format_name, output, glossary, without, given)
    model = _load(plan)
    align = None if model is None else _aligner(model)
    report, summary, untranslated = Report(strict=strict), FindingSummary(), 0
    shown, noted = TextReport(), dict[int, list[Finding]]()
    for each in checked_units(_units(plan, report), plan.checks, align):
        if not each.is_translated:
            untranslated += 1
            continue
        texts = each.unit.source_prose, each.unit.target_prose
        summary.add(each.line, each.findings, *texts)
        found = [finding for finding in each.findings if finding.severity.label in _from(least)]
        if found and output is not None:
            noted[each.number] = found
        if found and as_json:
            echo(json.dumps(as_fields(each, found), ensure_ascii=False))
        elif found:
            shown.print_unit(each, found)
    if output is not None:
        write_annotated(_open(plan, plan.files[0], Report()), noted, output)
    _warn_about(report, summary)
    if as_json:
        about = {"languages": list(plan.direction), "aligned": model is not None, "untranslated": untranslated}
        echo(json.dumps({"summary": summary.fields() | about | {"unreadable": report.problem_count}}))
    else:
        shown.print_summary(summary, untranslated)
    if fail_on != "never" and any(summary.count(severity) for severity in Severity if severity.label in _from(fail_on)):
        raise click.exceptions.Exit(1)


def _check_output(output: Path, files: tuple[Path, ...], format: str | None) -> None:
    """Refuse a file that cannot be written, and formats that have no place for findings."""
    if format not in WITH_NOTES:
        name = "two texts" if format is None else f"documents in the format {format}"
        raise ConfigError(f"--output: {name} have no notes; those in {', '.join(sorted(WITH_NOTES))} have them")
    if str(output) == "-":
        raise ConfigError("--output: name a file; the report goes to standard output")
    check_output(output, files)


def _from(least: str) -> list[str]:
    """The names of the severities from this one on."""
    return _SEVERITIES[: _SEVERITIES.index(least) + 1]


def _plan(
    files: tuple[Path, ...],
    format_name: str | None,
    output: Path | None,
    glossary: Path | None,
    without: Sequence[str],
    given: Given,
) -> _Plan:
    settings = given.settings()
    limits, model = pick(LimitsConfig, settings), pick(ModelConfig, settings)
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    format_name = _format(files, format_name)
    if output is not None:
        _check_output(output, files, format_name)
    _read_through(files, format_name, limits)
    direction = _direction(files, format_name, model, limits)
    if "model" in settings and _DROPPED in without:
        raise ConfigError("--model is for the check 'dropped', which --without leaves out; give one of them")
    chosen = _model(settings, model, direction) if _DROPPED not in without else None
    if chosen is not None and not all(direction):
        from nearmt.models.directions import known_direction

        known = known_direction(chosen)
        direction = direction[0] or base_language(known[0] or ""), direction[1] or base_language(known[1] or "")
    if not all(direction):
        warn("the files do not name their languages; --source-lang and --target-lang make the checks more precise")
    checks = text_checks(without)
    if glossary is not None:
        problems = Report()
        terms = read_glossary(glossary, *direction, report=problems, limits=limits)
        checks.append(TermCheck(terms, direction[0] or ""))
        for problem in problems.problems[:_PROBLEMS_SHOWN]:
            warn(problem)
    return _Plan(files, format_name, direction, checks, chosen, limits)


def _format(files: tuple[Path, ...], format_name: str | None) -> str | None:
    """The format of a document; None for two texts."""
    formats = [format_name or format_of(path) for path in files]
    if len(files) == 1:
        if formats[0] in {"text", *ONE_LANGUAGE}:
            raise ConfigError(
                f"{files[0]}: has no translations; give SOURCE and TARGET, or a document of two languages"
            )
        return formats[0]
    if len(files) > 2 or len(set(formats)) > 1 or formats[0] not in {"text", *ONE_LANGUAGE}:
        raise ConfigError("give one document, or SOURCE and TARGET: two texts, or two documents in one language each")
    return None if formats[0] == "text" else formats[0]


def _read_through(files: tuple[Path, ...], format_name: str | None, limits: LimitsConfig) -> None:
    """Read the files to their ends, so that errors are reported before anything is printed or loaded."""
    if format_name is not None:
        for path in files:
            check_document(path, format_name, limits)
        return
    for _ in units_of_texts(files[0], files[1], "", "", limits):
        pass


def _direction(files: tuple[Path, ...], format: str | None, model: ModelConfig, limits: LimitsConfig) -> Direction:
    """The languages that were given, else those that the files name."""
    if format is None:
        named = language_of_name(files[0]), language_of_name(files[1])
    elif format in ONE_LANGUAGE:
        named = language_of_path(files[0]), language_of_path(files[1])
    else:
        named = named_direction(files[0], format, limits)
    return base_language(model.source_lang or named[0]), base_language(model.target_lang or named[1])


def _model(settings: dict[str, Any], model: ModelConfig, direction: Direction) -> ModelConfig | None:
    """The model that was asked for, else the embedded one if the languages are its own."""
    if "model" not in settings and "-".join(direction) != DEFAULT_MODEL:
        explain_run("without the check 'dropped': no --model, and the embedded one has other languages")
        return None
    source, target = direction
    return ModelConfig(**{**vars(model), "source_lang": source or None, "target_lang": target or None})


def _load(plan: _Plan) -> TranslationModel | None:
    if plan.model is None:
        return None
    from nearmt.models import load_model

    with waiting("loading the model"):
        return load_model(plan.model)


def _aligner(model: TranslationModel) -> Align:
    from nearmt.documents.dropped import dropped_clauses

    done = 0

    def find(units: Sequence[CheckedUnit]) -> list[tuple[Finding, ...]]:
        nonlocal done
        with waiting(f"aligning the words of units {done + 1:,} to {done + len(units):,}"):
            found = dropped_clauses(model, units)
        done += len(units)
        return found

    return find


def _units(plan: _Plan, report: Report) -> Iterator[LineUnit]:
    if plan.format is None:
        return units_of_texts(plan.files[0], plan.files[1], *plan.direction, plan.limits)
    documents = [_open(plan, path, report) for path in plan.files]
    if len(documents) == 2:
        return units_of_two(documents[0], documents[1], *plan.direction)
    return units_of_document(documents[0], *plan.direction)


def _open(plan: _Plan, path: Path, report: Report) -> Document:
    # Only units of TMX have several languages to choose from; other formats would refuse what --source-lang overrides.
    source, target = plan.direction if plan.format == "tmx" else ("", "")
    return open_document(path, Request(source or None, target or None, limits=plan.limits), report, plan.format)


def _warn_about(report: Report, summary: FindingSummary) -> None:
    for number, problem in enumerate(report.problems):
        (warn if number < _PROBLEMS_SHOWN else explain_run)(problem)
    if summary.is_copied:
        warn("most words are the same on both sides; is the second one a translation?")
