"""nearmt translate"""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click

from nearmt.cli.changing import finishing
from nearmt.cli.checking import check_document, check_output
from nearmt.cli.console import explain_run, open_output, progress_bar, shows_bars, warn
from nearmt.cli.explain import print_explanation
from nearmt.cli.given import MODEL_SETTINGS, TRANSLATION, Given, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.cli.resuming import FinishedWork, digest_of
from nearmt.cli.setup import Loader, make_plan
from nearmt.contracts import Progress
from nearmt.corpus import (
    DOCUMENTS,
    Document,
    LabelsConfig,
    LimitsConfig,
    Part,
    Report,
    Request,
    Unit,
    format_of,
    open_document,
)
from nearmt.corpus import check_document as check_whole
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import text_to
from nearmt.documents import FillConfig, FilledUnit, Filler, FillSummary, filled_parts, is_to_fill
from nearmt.errors import ConfigError, InputError
from nearmt.models.directions import known_direction
from nearmt.translator import Translator

# Formats that are read line by line: the first translation does not wait for the end of standard input.
_STREAMED = ("text", "tsv", "jsonl")
_WITHOUT_NOTES = ("text", "tsv")
_WARNINGS_SHOWN = 10
_SHOWN = ("datastore", "filter", "method", "preset", "batch-size", "beams", "matches", *MODEL_SETTINGS)


@click.command(cls=ManualCommand)
@click.argument("file", default="-", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="write here instead of standard output")
@click.option("--format", "format_name", type=click.Choice(list(DOCUMENTS)), help="[default: by the file's suffix]")
@click.option("--all", "everything", is_flag=True, help="also translate units that have a translation")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a unit instead of the document")
@click.option(
    "--explain",
    is_flag=True,
    help="show where the words come from; a document with --output names the pairs in its notes",
)
@click.option("--strict", is_flag=True, help="stop at the first unit that cannot be read")
@click.option("--resume", is_flag=True, help="continue an interrupted run that had the same --output")
@setting_options(*TRANSLATION, FillConfig, LabelsConfig, LimitsConfig, shown=_SHOWN)
def command(
    file: Path,
    output: Path | None,
    format_name: str | None,
    everything: bool,
    as_json: bool,
    explain: bool,
    strict: bool,
    resume: bool,
    given: Given,
) -> None:
    """Translate text and documents.

    FILE is text with one unit a line, or a document: TMX, XLIFF, PO, TSV or JSONL (also with .gz or .xz).
    Without it, or with -, standard input is read as text.

    In text every line is translated, and line n of the output belongs to line n of the input. In documents
    the units without a translation are filled in; everything else is written back unchanged. Machine
    translations are marked (PO: fuzzy; XLIFF: state), with their score. Placeholders and inline tags are
    kept; units in which that failed are named on stderr.

    With --output, finished parts are kept in OUTPUT.resume until the output is complete. After an interruption
    the same command with --resume continues there; other settings or another input are refused.

    \b
    nearmt translate text.txt --datastore memory --output text.en.txt
    nearmt translate app.po --datastore memory --output app.en.po
    nearmt translate manual.xliff --datastore memory --matches --output manual.en.xliff
    echo "Guten Morgen!" | nearmt translate
    nearmt translate text.txt --datastore memory --method knn --set k=16 --set lambda=0.7
    """
    if str(file) != "-" and not file.is_file():
        raise InputError(f"{file}: no such file")
    format_name = format_name or ("text" if str(file) == "-" else format_of(file))
    check_output(output, [file])
    settings = given.settings()
    filling, limits = pick(FillConfig, settings), pick(LimitsConfig, settings)
    labels = pick(LabelsConfig, settings)
    plan = make_plan(settings, frozenset(given.typed))
    check_document(file, Request(*known_direction(plan.model), limits=limits, labels=labels), strict, format_name)
    shown = [format_name, everything, as_json, explain, strict, filling.signature(), labels.signature()]
    work = _work(file, output, shown, resume)
    with _kept(work), _readable(file, format_name) as path:
        if path != file:
            check_whole(path, format_name, limits)
        translator = Loader().translator(plan)
        explain_run(translator.signature())
        if work is not None:
            work.begin(translator.signature())
        # A document in a format with notes names the pairs there.
        explained = explain and (output is None or format_name in _WITHOUT_NOTES)
        shows_matches = filling.matches and output is None and format_name == "text"
        writer = _Writer(as_json, explained or shows_matches, work)
        _run(translator, path, format_name, output, everything, strict, filling, explain, writer, work, limits, labels)


def _work(file: Path, output: Path | None, shown: list[Any], resume: bool) -> FinishedWork | None:
    """The record of finished parts, where a file is translated into a file."""
    if output is None or str(output) == "-" or str(file) == "-" or (output.exists() and not output.is_file()):
        if resume:
            raise ConfigError("--resume needs a FILE to read and a file as --output; nothing else is kept")
        return None
    work = FinishedWork(output, {"input": digest_of(file), "options": shown}, resume)
    if work.path.exists() and not resume:
        warn(f"{work.path}: holds finished parts of an interrupted run and will be replaced (--resume continues it)")
    return work


@contextmanager
def _readable(file: Path, format_name: str) -> Iterator[Path]:
    """The file itself; a copy of standard input for formats that are read more than once."""
    if str(file) != "-" or format_name in _STREAMED:
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="standard-input-", suffix=f".{format_name}") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _run(
    translator: Translator,
    path: Path,
    format_name: str,
    output: Path | None,
    everything: bool,
    strict: bool,
    filling: FillConfig,
    explain: bool,
    writer: _Writer,
    work: FinishedWork | None,
    limits: LimitsConfig,
    labels: LabelsConfig,
) -> None:
    source_lang, target_lang = translator.model.language_pair
    request, report = Request(source_lang, target_lang, limits=limits, labels=labels), Report(strict=strict)
    document = open_document(path, request, report, format_name)
    filler = Filler(translator, filling, paragraphs=document.paragraphs, explain=explain)
    total = _count(path, request, format_name, everything) if shows_bars() else 0
    done = _skip(document, everything, 0 if work is None else work.parts)

    encoding = Encoding() if writer.as_json or writer.as_explanation else document.encoding

    def fill(units: list[Unit]) -> list[FilledUnit]:
        nonlocal done
        if work is not None:  # everything before these units is finished
            with finishing() as interruption:
                writer.keep(work, encoding)
                interruption.check()
        # The bar is gone before results are printed, which may be on the same terminal.
        with progress_bar("units", total, done) as bar:
            found = filler.fill(units, _in_units(bar, len(units)))
        done += len(units)
        return found

    with _opened(output, encoding, work) as out:
        for part, found in filled_parts(document, filler, fill, everything=everything):
            writer.write(out, part, found)
    writer.summarise(report, document.paragraphs)


def _skip(document: Document, everything: bool, parts: int) -> int:
    """Skip finished parts and return how many of their units were filled in."""
    finished = islice(document.parts, parts)
    return sum(is_to_fill(unit, everything) for part in finished for unit in part.units)


@contextmanager
def _opened(output: Path | None, encoding: Encoding, work: FinishedWork | None) -> Iterator[TextIO]:
    """Standard output; or a buffer that is written to the file when it is complete, after the parts finished before."""
    if work is None:
        with open_output(output, encoding) as out:
            yield out
        return
    rest = io.StringIO(newline="")
    yield rest
    with open_output(output, encoding) as out:
        for text in work.texts():
            out.write(text)
        out.write(rest.getvalue())
    work.remove()


@contextmanager
def _kept(work: FinishedWork | None) -> Iterator[None]:
    """When the block fails, say which finished parts are kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        told = "what is not printed is not kept (--output FILE keeps it)" if work is None else work.told
        error.args = (f"interrupted; {told}",)
        raise
    except ConfigError:
        raise
    except Exception as error:
        if work is not None and isinstance(error, InputError) and not isinstance(error.__cause__, OSError):
            work.remove()  # the input has to change before it can be read
        elif work is not None and work.parts:
            warn(work.told)
        raise


def _count(path: Path, request: Request, format_name: str, everything: bool) -> int:
    """Units to fill in, the total of the progress bar; 0 for input that can be read only once."""
    if not path.is_file():
        return 0
    document = open_document(path, request, Report(), format_name)
    return sum(is_to_fill(unit, everything) for part in document.parts for unit in part.units)


def _in_units(bar: Progress | None, units: int) -> Progress | None:
    """Progress in sentences converted to progress in units."""
    return (lambda count, of: bar(units * count // max(1, of), units)) if bar else None


class _Writer:
    """Writes parts as the document, as JSON or as explanations, and collects the summary."""

    def __init__(self, as_json: bool, as_explanation: bool, work: FinishedWork | None = None) -> None:
        self.as_json, self.as_explanation = as_json, as_explanation
        self._summary = FillSummary() if work is None else copy.deepcopy(work.summary)
        self._out: TextIO | None = None
        self._parts = 0  # written since the last call of `keep`

    def write(self, out: TextIO, part: Part, found: list[FilledUnit | None]) -> None:
        self._out = out
        self._parts += 1
        for unit, filled in zip(part.units, found, strict=True):
            self._summary.add(unit, filled)
            if self.as_json:
                out.write(json.dumps(_fields(unit, filled), ensure_ascii=False) + "\n")
            elif self.as_explanation and filled is not None:
                print_explanation(out, filled.translation, filled.filling.matches)
        if not self.as_json and not self.as_explanation:
            out.write(part.filled([None if filled is None else filled.filling for filled in found]))
        out.flush()

    def keep(self, work: FinishedWork, encoding: Encoding) -> None:
        """Move the text of finished parts from the buffer to the record."""
        if isinstance(self._out, io.StringIO):
            with text_to(io.BytesIO(), encoding, work.output) as trial:  # an encoding error shows here
                trial.write(self._out.getvalue())
            work.keep(self._out.getvalue(), self._parts, self._summary)
            self._out.seek(0)
            self._out.truncate()
            self._parts = 0

    def summarise(self, report: Report, document: bool) -> None:
        """Print issues, problems and counts to stderr."""
        shown = [*self._summary.issues.notes(), *report.problems, *dict.fromkeys(self._summary.warnings)]
        for message in shown[:_WARNINGS_SHOWN]:
            warn(message)
        for message in shown[_WARNINGS_SHOWN:]:
            explain_run(message)
        if len(shown) > _WARNINGS_SHOWN:
            warn(f"and {len(shown) - _WARNINGS_SHOWN} more like these (--verbose shows all)")
        if document:
            names = {
                "machine": "translated",
                "memory": "exact matches",
                "repaired": "repaired matches",
                "copy": "copied",
                "kept": "unchanged",
            }
            counts = self._summary.counts
            warn(", ".join(f"{name}: {counts[key]:,}" for key, name in names.items() if counts[key]) or "no units")


def _fields(unit: Unit, filled: FilledUnit | None) -> dict[str, Any]:
    """A unit as JSON; source and text with their markup."""
    source = "".join(part if isinstance(part, str) else part.markup for part in unit.source)
    if filled is None:
        return {"line": unit.line, "source": source, "text": unit.target, "origin": "kept"}
    fields = dataclasses.asdict(filled.translation)
    if filled.translation.provenance is None:
        del fields["provenance"]
    fields |= {"source": source, "text": filled.filling.text, "origin": filled.filling.origin.value}
    fields |= {"context": True} if filled.filling.in_context else {}
    fields |= {"review": filled.filling.review} if filled.filling.review else {}
    if filled.filling.matches:
        fields["matches"] = [dataclasses.asdict(match) for match in filled.filling.matches]
    return {"line": unit.line, **fields}
