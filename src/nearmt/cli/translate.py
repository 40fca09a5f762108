"""nearmt translate"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from nearmt.cli.console import explain_run, open_output, progress_bar, shows_bars, warn
from nearmt.cli.explain import print_explanation
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options, gather, pick, run_options
from nearmt.cli.setup import make_translator
from nearmt.contracts import Progress
from nearmt.corpus import (
    DOCUMENTS,
    LimitsConfig,
    Part,
    Report,
    Request,
    Unit,
    check_document,
    format_of,
    open_document,
)
from nearmt.documents import FillConfig, FilledUnit, Filler, FillSummary, filled_parts, is_to_fill
from nearmt.errors import ConfigError, InputError
from nearmt.translator import Translator

# Formats that are read line by line, so that standard input need not end before the first answer.
_STREAMED = ("text", "tsv", "jsonl")
_WARNINGS_SHOWN = 10


@click.command(cls=ManualCommand)
@click.argument("file", default="-", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="write here instead of standard output")
@click.option("--format", "format_name", type=click.Choice(list(DOCUMENTS)), help="[default: by the file's suffix]")
@click.option("--all", "everything", is_flag=True, help="translate what has a translation, too")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a unit instead of the document")
@click.option(
    "--explain",
    is_flag=True,
    help="show where the words come from; a document with --output names the pairs in its notes",
)
@click.option("--strict", is_flag=True, help="stop at the first unit that cannot be read")
@config_options(FillConfig, LimitsConfig)
@run_options
def command(
    file: Path,
    output: Path | None,
    format_name: str | None,
    everything: bool,
    as_json: bool,
    explain: bool,
    strict: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Translate text and documents.

    FILE is text with one unit a line, or a document: TMX, XLIFF, PO, TSV or JSONL (also with .gz or .xz).
    Without it, or with -, standard input is read as text.

    Of text every line is translated, and line n of the output belongs to line n of the input. In documents
    the units without a translation are filled in; everything else is written back as it was. Machine
    translations are marked (PO: fuzzy; XLIFF: state), with their score. Placeholders and inline tags are
    kept; units in which they could not be are named on stderr.

    \b
    nearmt translate text.txt --datastore memory --output text.en.txt
    nearmt translate app.po --datastore memory --output app.en.po
    nearmt translate manual.xliff --datastore memory --matches --output manual.en.xliff
    echo "Guten Morgen!" | nearmt translate
    nearmt translate text.txt --datastore memory --method knn --k 16 --lambda 0.7
    """
    if str(file) != "-" and not file.is_file():
        raise InputError(f"{file}: no such file")
    format_name = format_name or ("text" if str(file) == "-" else format_of(file))
    if output is not None and output.exists() and file.exists() and output.samefile(file):
        raise ConfigError(f"{output}: is the file that is read; name another --output")
    typed = frozenset(name.replace("_", "-") for name, value in options.items() if value is not None)
    settings = gather(options, config_file)
    filling, limits = pick(FillConfig, settings), pick(LimitsConfig, settings)
    if str(file) != "-":
        check_document(file, format_name, limits)
    translator = make_translator(settings, typed)
    explain_run(translator.signature())
    with _readable(file, format_name) as path:
        if path != file:
            check_document(path, format_name, limits)
        writer = _Writer(as_json, explain or (filling.matches and output is None and format_name == "text"))
        _run(translator, path, format_name, output, everything, strict, filling, explain, writer, limits)


@contextmanager
def _readable(file: Path, format_name: str) -> Iterator[Path]:
    """The file itself; standard input as a file where a format is read more than once."""
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
    limits: LimitsConfig,
) -> None:
    source_lang, target_lang = translator.model.language_pair
    request, report = Request(source_lang, target_lang, limits=limits), Report(strict=strict)
    document = open_document(path, request, report, format_name)
    filler = Filler(translator, filling, paragraphs=document.paragraphs, explain=explain)
    total = _count(path, request, format_name, everything) if shows_bars() else 0
    done = 0

    def fill(units: list[Unit]) -> list[FilledUnit]:
        nonlocal done
        # The bar is gone before results are printed, which may be on the same terminal.
        with progress_bar("units", total, done) as bar:
            found = filler.fill(units, _in_units(bar, len(units)))
        done += len(units)
        return found

    plain = writer.as_json or writer.as_explanation
    with open_output(output, None if plain else document.encoding) as out:
        for part, found in filled_parts(document, filler, fill, everything=everything):
            writer.write(out, part, found)
            out.flush()
    writer.summarise(report, document.paragraphs)


def _count(path: Path, request: Request, format_name: str, everything: bool) -> int:
    """Units to fill in, for a bar that knows its end; 0 if they can be read only once."""
    if not path.is_file():
        return 0
    document = open_document(path, request, Report(), format_name)
    return sum(is_to_fill(unit, everything) for part in document.parts for unit in part.units)


def _in_units(bar: Progress | None, units: int) -> Progress | None:
    """Progress in sentences as progress in the units they belong to."""
    return (lambda count, of: bar(units * count // max(1, of), units)) if bar else None


class _Writer:
    """Writes parts as the document, as JSON or as explanations, and remembers what to tell at the end."""

    def __init__(self, as_json: bool, as_explanation: bool) -> None:
        self.as_json, self.as_explanation = as_json, as_explanation
        self._summary = FillSummary()

    def write(self, out: TextIO, part: Part, found: list[FilledUnit | None]) -> None:
        for unit, filled in zip(part.units, found, strict=True):
            self._summary.add(unit, filled)
            if self.as_json:
                out.write(json.dumps(_fields(unit, filled), ensure_ascii=False) + "\n")
            elif self.as_explanation and filled is not None:
                print_explanation(out, filled.translation, filled.filling.matches)
        if not self.as_json and not self.as_explanation:
            out.write(part.filled([None if filled is None else filled.filling for filled in found]))

    def summarise(self, report: Report, document: bool) -> None:
        """What people should know after the run, on stderr."""
        shown = [*self._summary.doubts.notes(), *report.problems, *dict.fromkeys(self._summary.warnings)]
        for message in shown[:_WARNINGS_SHOWN]:
            warn(message)
        for message in shown[_WARNINGS_SHOWN:]:
            explain_run(message)
        if len(shown) > _WARNINGS_SHOWN:
            warn(f"and {len(shown) - _WARNINGS_SHOWN} more like these (--verbose shows all)")
        if document:
            names = {"machine": "translated", "memory": "exact matches", "copy": "copied", "kept": "left as they were"}
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
    if filled.filling.matches:
        fields["matches"] = [dataclasses.asdict(match) for match in filled.filling.matches]
    return {"line": unit.line, **fields}
