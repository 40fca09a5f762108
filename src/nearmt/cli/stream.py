"""nearmt stream"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_output
from nearmt.cli.console import explain_run, open_output, warn
from nearmt.cli.given import MODEL_SETTINGS, TRANSLATION, Given, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.cli.review import Review
from nearmt.cli.setup import Loader, make_plan, method_name, model_of, weighted_stores
from nearmt.cli.stopping import Terminated
from nearmt.config.run import RunConfig
from nearmt.corpus import (
    DOCUMENTS,
    LabelsConfig,
    LimitsConfig,
    Report,
    Request,
    Unit,
    check_document,
    clean,
    format_of,
    open_document,
    plain_text,
)
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.filters import Filter
from nearmt.documents import FillConfig
from nearmt.errors import ConfigError, InputError
from nearmt.models import ModelConfig
from nearmt.models.directions import known_direction
from nearmt.stream import ConfirmedFile, Session, serve
from nearmt.translator import Translator

_SHOWN = ("datastore", "filter", "method", "beams", "matches", *MODEL_SETTINGS)


@click.command(cls=ManualCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--jsonl", is_flag=True, help="FILE (- for standard input) holds requests of a program, one JSON a line")
@click.option("--create", is_flag=True, help="start with an empty datastore if there is none")
@click.option("--output", type=click.Path(path_type=Path), help="add confirmed pairs to this TSV file as they come")
@click.option("--references", is_flag=True, help="do not ask: confirm the translations in FILE")
@click.option("--all", "everything", is_flag=True, help="also units that have a translation in FILE or in the memory")
@click.option("--learn-every", type=click.IntRange(min=1), default=1, show_default=True, help="pairs learnt together")
@click.option("--format", "format_name", type=click.Choice(list(DOCUMENTS)), help="[default: by the file's suffix]")
@click.option("--explain", is_flag=True, help="show where the words come from")
@setting_options(*TRANSLATION, FillConfig, LabelsConfig, LimitsConfig, shown=_SHOWN)
def command(
    file: Path,
    jsonl: bool,
    create: bool,
    output: Path | None,
    references: bool,
    everything: bool,
    learn_every: int,
    format_name: str | None,
    explain: bool,
    given: Given,
) -> None:
    """Translate interactively and learn every correction at once.

    FILE is text with one unit a line, or a document (as in `nearmt translate`). Each unit is shown with its
    translation and similar pairs of the memory; Enter accepts it, e edits it, s skips it, u takes the last one back,
    q quits. A confirmed pair is added to the datastore and used from the next unit on. It is on disk before the next
    unit is shown. The same command continues after an interruption: units that are in the memory word for word are
    passed over.

    With --jsonl a program drives the session: one JSON object a line in, one a line out.

    \b
    nearmt stream text.txt --datastore memory --output text.tsv
    nearmt stream text.txt --datastore corrections --create
    nearmt stream test.tsv --datastore memory --references
    echo '{"op": "translate", "source": "Guten Morgen!"}' | nearmt stream - --datastore memory --jsonl
    """
    settings = given.settings()
    _check(file, settings, output, jsonl, references, explain)
    filling = pick(FillConfig, {"matches": not (jsonl or references), **settings})
    labels = _labels(settings)
    limits, languages_of_file = pick(LimitsConfig, settings), pick(LabelsConfig, settings)
    if not jsonl:
        format_name = format_name or format_of(file)
        check_document(file, format_name, limits)
    wanted, units, paragraphs = _wanted(references, everything), list[Unit](), False
    languages = _languages(settings, create)
    if not jsonl and all(languages):  # a file that cannot be read is refused before the model is loaded
        units, paragraphs = _units(
            Request(*languages, limits=limits, labels=languages_of_file), file, format_name, wanted
        )
    translator = _translator(settings, frozenset(given.typed), create)
    explain_run(translator.signature())
    if not jsonl and not all(languages):
        request = Request(*translator.model.language_pair, limits=limits, labels=languages_of_file)
        units, paragraphs = _units(request, file, format_name, wanted)
    if filling.split_sentences is None:
        filling = replace(filling, split_sentences=paragraphs)
    origin = labels.pop("origin", "session" if jsonl else file.name)
    session = Session(translator, learn_every=learn_every, filling=filling, origin=origin, metadata=labels)
    if jsonl:
        with session, open_output(None) as out:
            serve(session, file, out)
    else:
        _review(session, units, output, references, everything, explain)


def _check(
    file: Path, settings: Mapping[str, Any], output: Path | None, jsonl: bool, references: bool, explain: bool
) -> None:
    """Refuse options that do not go together before anything is loaded."""
    if not settings.get("datastore"):
        raise ConfigError("no datastore to learn into: give --datastore DIR (with --create it need not be there yet)")
    if method_name(settings) == "plain":
        raise ConfigError("method 'plain' uses no memory; `nearmt stream` is for methods that do")
    if jsonl and (output is not None or references or explain):
        raise ConfigError("--jsonl does not go with --output, --references or --explain; requests ask for these")
    if str(file) == "-":
        if not jsonl:
            raise ConfigError("answers are read from standard input; name a FILE, or give --jsonl")
    elif not file.is_file():
        raise InputError(f"{file}: no such file")
    if str(output) == "-":
        raise ConfigError("units are shown on standard output; name a file as --output")
    check_output(output, [file])


def _translator(settings: dict[str, Any], typed: frozenset[str], create: bool) -> Translator:
    loader = Loader()
    *others, (folder, _) = weighted_stores(pick(RunConfig, settings).datastore or ())
    if not create or Path(folder).exists():
        return loader.translator(make_plan(settings, typed))
    names = ModelConfig.public_fields()
    searched = {"datastore": tuple(other for other, _ in others)}
    before = make_plan({name: value for name, value in settings.items() if name in names} | searched)
    # Stores that are searched together have the same reduction.
    config = BuildConfig(reduction_of=others[0][0] if others else None)
    Datastore.build(folder, [], loader.translator(before).model, config)
    warn(f"{folder}: a new, empty datastore")
    # The plan of the new store, with the model that is already loaded.
    return loader.translator(replace(make_plan(settings, typed), model=before.model))


def _labels(settings: dict[str, Any]) -> dict[str, str]:
    """Origin and metadata of new pairs: those that the filters ask for, so that the pairs are found."""
    filters = [Filter.parse(text) for text in pick(RunConfig, settings).filter or ()]
    literal = {part.key: part.value for part in filters if "*" not in part.value}
    return {key: value for key, value in literal.items() if key not in ("id", "source", "target")}


def _wanted(references: bool, everything: bool) -> Callable[[Unit], bool]:
    def wanted(unit: Unit) -> bool:
        if not clean(plain_text(unit.source)):
            return False
        translated = bool(clean(unit.target))
        return translated if references else everything or not translated

    return wanted


def _languages(settings: Mapping[str, Any], create: bool) -> tuple[str | None, str | None]:
    """The languages of the store, or of the model of a new store, as far as they are known."""
    folder, _ = weighted_stores(pick(RunConfig, settings).datastore or ())[-1]
    known = {} if create and not Path(folder).exists() else model_of(folder, Manifest.load(Path(folder)), settings)
    return known_direction(pick(ModelConfig, {**known, **settings}))


def _units(
    request: Request, file: Path, format_name: str | None, wanted: Callable[[Unit], bool]
) -> tuple[list[Unit], bool]:
    """All units to review, read completely so that errors show before the first one."""
    report = Report()
    document = open_document(file, request, report, format_name)
    everything = [unit for part in document.parts for unit in part.units]
    for message in (*report.notes, *report.problems):
        warn(message)
    units = [unit for unit in everything if wanted(unit)]
    if not units:
        raise InputError(
            f"{file}: none of its {len(everything)} units needs a translation (--all includes those that have one, "
            "--references confirms them)"
        )
    return units, document.paragraphs


def _review(
    session: Session, units: list[Unit], output: Path | None, references: bool, everything: bool, explain: bool
) -> None:
    ended: KeyboardInterrupt | None = None
    with nullcontext() if output is None else ConfirmedFile(output) as confirmed:
        review = Review(session, units, confirmed, everything=everything, explain=explain, out=sys.stdout)
        try:
            with session:
                review.run(ask=not references)
        except KeyboardInterrupt as error:
            ended = error
    review.summarise(interrupted=ended is not None)
    if isinstance(ended, Terminated):  # Ctrl-C is one of the ways to quit
        ended.args = ("interrupted; confirmed pairs are on disk",)
        raise ended
