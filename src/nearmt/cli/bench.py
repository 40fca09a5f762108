"""nearmt bench"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearmt.cli.checking import check_output, check_pairs
from nearmt.cli.console import echo, open_output, progress_bar, warn
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.corpus import Request, read_pairs
from nearmt.datastore.disk.files import json_text, write_json
from nearmt.errors import ConfigError
from nearmt.research.bench import Bench, BenchConfig, opened
from nearmt.research.bench.tables import caption, share_rows, speed_rows


@click.command(cls=ManualCommand)
@click.option(
    "--data",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="pairs whose sources are translated; give it twice for two aligned files",
)
@click.option("--out", type=click.Path(path_type=Path), help="also write everything as JSON here")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")
@config_options(BenchConfig)
def command(data: tuple[Path, ...], out: Path | None, as_json: bool, **options: Any) -> None:
    """Measure how fast nearmt and others translate: in one run, in turns, several times.

    All systems translate the first block of sentences, then all the second, and so on, in rotating order.
    Other load on the machine then affects all systems alike, and ratios between them hold even where absolute
    numbers do not. Tokens per second count the tokens of the best translations, end of sentence included, over
    the time of translating without loading. A system that cannot run is named with the reason.

    \b
    nearmt bench --data test.tsv --datastore memory --threads 2 --out speed.json
    nearmt bench --data test.tsv --datastore memory --systems plain,chunk --precisions fp32 --beams 1 --limit 4
    """
    settings = given_settings(options)
    config = pick(BenchConfig, settings)
    check_pairs(data, Request(), "translate")
    check_output(out, data, "--out")
    with opened(config) as loader:
        languages = loader.model("fp32").language_pair
        pairs = read_pairs(*data, source_lang=languages[0], target_lang=languages[1])
        bench = Bench.of(loader, pairs, _name(data), progress_bar)
        for report in bench.run():
            if out is not None:
                write_json(out, report)  # keep the results so far
        report = bench.report()
    _warn_about(report["not_run"])
    if not report["cells"]:
        raise ConfigError("no system could run; name others with --systems and --precisions")
    _show(report, as_json)


def _name(data: tuple[Path, ...]) -> str:
    """The names of the data files, without most of their path."""
    return " ".join(str(Path(*path.absolute().parts[-2:])) for path in data)


def _warn_about(not_run: list[dict[str, Any]]) -> None:
    """Warn once for each system and reason, whatever the batch sizes."""
    found: dict[tuple[str, str], None] = {}
    for cell in not_run:
        found[f"{cell['system']} {cell['precision']}", cell["reason"]] = None
    for name, reason in found:
        warn(f"{name}: not run: {reason}")


def _show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        with open_output(None) as file:
            file.write(json_text(report))
        return
    echo(caption(report))
    for rows in (speed_rows(report), share_rows(report)):
        if len(rows) > 1:
            _print_table(rows)


def _print_table(rows: list[list[str]]) -> None:
    """Print a table whose columns are never cut off."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in [[""] * len(widths), *rows]:
        first, *others = zip(row, widths, strict=True)
        echo("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip())
