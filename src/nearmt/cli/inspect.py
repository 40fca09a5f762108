"""nearmt inspect"""

from __future__ import annotations

import dataclasses
import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearmt.cli.console import counted, echo, progress_bar
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.reading import reading_options
from nearmt.cli.terminal import neutral
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, Report, Request
from nearmt.corpus.inspection import Inspection, Lengths, inspect
from nearmt.corpus.locating import locate
from nearmt.corpus.reading import raw_pairs
from nearmt.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

_PROBLEMS_SHOWN = 10


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--source-lang", help="source language [default: the one the file names first]")
@click.option("--target-lang", help="target language [default: the one the file names next]")
@click.option("--examples", type=click.IntRange(min=0), default=3, show_default=True, help="examples of each rule")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@reading_options
def command(
    files: tuple[Path, ...],
    source_lang: str | None,
    target_lang: str | None,
    examples: int,
    as_json: bool,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    **options: Any,
) -> None:
    """Show what is in translation memories.

    Counts units and pairs of FILES, their languages and lengths, what cannot be read, and what each cleaning
    rule of `nearmt build` would leave out, with examples. Needs no model.

    \b
    nearmt inspect memory.tmx
    nearmt inspect memories/ --source-lang de --target-lang en --json
    """
    settings = given_settings(options)
    limits, labels = pick(LimitsConfig, settings), pick(LabelsConfig, settings)
    request, report = Request(source_lang, target_lang, unconfirmed, limits, labels), Report(strict=strict)
    sources = locate(list(files), request)
    pairs = raw_pairs(sources, request, report)
    with progress_bar("pairs") as progress:
        seen = counted(islice(pairs, limit), progress)
        config = pick(CleaningConfig, settings)
        found = inspect(seen, report, source_lang, target_lang, config, examples, files=len(sources))
    if as_json:
        echo(json.dumps(dataclasses.asdict(found), ensure_ascii=False))
    else:
        _print(found, knows_languages=bool(source_lang and target_lang))
    if found.problems and not found.pairs and not found.skipped:
        raise InputError(f"nothing could be read: {found.problems[0]}")


def _print(found: Inspection, knows_languages: bool) -> None:
    from rich.text import Text

    from nearmt.cli.safe_console import SafeConsole

    console = SafeConsole()
    console.print(_counts(found))
    console.print(_rules(found, knows_languages))
    if found.examples:
        console.print(_example_table("the first pairs", found.examples))
    for rule in found.rules:
        if rule.examples:
            console.print(_example_table(f"{rule.setting}: {rule.count:,}", rule.examples))
    for note in found.notes:
        console.print(Text(note))
    for problem in found.problems[:_PROBLEMS_SHOWN]:
        console.print(Text("cannot be read", style="red"), problem)
    if found.problem_count > _PROBLEMS_SHOWN:
        console.print(f"and {found.problem_count - _PROBLEMS_SHOWN:,} more that cannot be read")


def _counts(found: Inspection) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    rows = {
        "files": f"{found.files:,}",
        "units": f"{found.units:,}",
        "pairs": f"{found.pairs:,}",
        "distinct sources": f"{found.distinct_sources:,}",
        "left out": ", ".join(f"{count:,} {reason}" for reason, count in found.skipped.items()) or "none",
        "languages": ", ".join(f"{name} ({count:,})" for name, count in found.languages.items()) or "not named",
        "source length": _lengths(found.source_lengths),
        "target length": _lengths(found.target_lengths),
        "cannot be read": f"{found.problem_count:,}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _lengths(lengths: Lengths) -> str:
    return (
        f"{lengths.mean:g} characters on average, median {lengths.median:,}, "
        f"95 % up to {lengths.p95:,}, longest {lengths.max:,}; {lengths.words:,} words"
    )


def _rules(found: Inspection, knows_languages: bool) -> Table:
    from rich.table import Table

    table = Table(title="effect of each rule", box=None, title_justify="left")
    table.add_column("option of nearmt build")
    table.add_column("pairs", justify="right")
    for rule in found.rules:
        known = rule.rule != "drop-wrong-script" or knows_languages
        table.add_row(f"--{rule.setting}", f"{rule.count:,}" if known else "give --source-lang and --target-lang")
    return table


def _example_table(title: str, examples: list[tuple[str, str]]) -> Table:
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left", expand=False)
    for left, right in examples:
        table.add_row(neutral(left), neutral(right))  # escapes line ends too
    return table
