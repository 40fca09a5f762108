"""nearmt translate"""

from __future__ import annotations

from pathlib import Path

import click

from nearmt.cli.document_run import RunOptions, translate_file
from nearmt.cli.given import MODEL_SETTINGS, TRANSLATION, Given
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.cli.tree_run import translate_tree
from nearmt.corpus import DOCUMENTS, LabelsConfig, LimitsConfig
from nearmt.documents import FillConfig

_SHOWN = ("datastore", "filter", "method", "preset", "batch-size", "beams", "matches", *MODEL_SETTINGS)


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="write here instead of standard output; a folder for several files or a folder",
)
@click.option("--format", "format_name", type=click.Choice(list(DOCUMENTS)), help="[default: by the file's suffix]")
@click.option("--all", "everything", is_flag=True, help="also translate units that have a translation")
@click.option(
    "--json", "as_json", is_flag=True, help="one JSON object a unit instead of the document; the summary of a folder"
)
@click.option(
    "--explain",
    is_flag=True,
    help="show where the words come from; a document with --output names the pairs in its notes",
)
@click.option("--strict", is_flag=True, help="stop at the first unit that cannot be read")
@click.option("--resume", is_flag=True, help="continue an interrupted run that had the same --output")
@setting_options(*TRANSLATION, FillConfig, LabelsConfig, LimitsConfig, shown=_SHOWN, unlisted=("index-fallback",))
def command(
    files: tuple[Path, ...],
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

    FILE is text with one unit a line, or a document (also with .gz or .xz): TMX, XLIFF, PO, TSV, CSV, XLSX, JSONL;
    HTML, Markdown, Android's strings.xml; JSON, ARB or Fluent of an app, .strings or .xcstrings of iOS. Without it, or
    with -, standard input is read as text.

    In text every line is translated, and line n of the output belongs to line n of the input. In documents
    the units without a translation are filled in; everything else is written back unchanged. In documents of one
    language translations replace the texts. In others machine translations are marked where the format can say so
    (PO: fuzzy; XLIFF: state), with their score. Placeholders and inline tags are kept; units in which that failed
    are named on stderr.

    Several files and folders are translated into the folder --output, with the same paths below it. In folders,
    files in other formats are left alone. A file that cannot be read does not stop the others.

    With --output, finished parts are kept in OUTPUT.resume until the output is complete. After an interruption
    the same command with --resume continues there; other settings or another input are refused. In a folder, files
    that are finished and have not changed are left out.

    \b
    nearmt translate text.txt --datastore memory --output text.en.txt
    nearmt translate app.po --datastore memory --output app.en.po
    nearmt translate manual.xliff --datastore memory --matches --output manual.en.xliff
    nearmt translate app.po manual.xliff --datastore memory --output english
    echo "Guten Morgen!" | nearmt translate
    nearmt translate text.txt --datastore memory --method knn --set k=16 --set lambda=0.7
    """
    options = RunOptions(format_name, everything, as_json, explain, strict, resume)
    file, *others = files or (Path("-"),)
    if others or file.is_dir():
        translate_tree(files, output, options, given)
        return
    if output is not None and output.is_dir() and str(file) != "-":
        output /= file.name
    translate_file(file, output, options, given)
