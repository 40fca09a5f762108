"""nearmt verify"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import echo, progress_bar, waiting
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.datastore.upkeep.verify import LOST, Finding, verify
from nearmt.errors import ConfigError, DatastoreError, IndexServerError
from nearmt.models import ModelConfig, TranslationModel


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--repair", "repairs", is_flag=True, help="rebuild damaged files from the pairs; keep the damaged store")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@config_options(ModelConfig)
def command(folder: Path, repairs: bool, as_json: bool, **options: Any) -> None:
    """Check a datastore for damage, and repair it.

    Reads all files and compares their checksums: every altered byte is found. Needs no model. The exit code is 1 if
    something is damaged, or if an index in Milvus lacks keys or cannot be asked (`nearmt reindex` writes it again).

    With --repair, damaged files are computed again from the pairs, with the model where that is needed; damaged
    pairs are left out and named. The result replaces the store, and the damaged one is kept as DIR.damaged.

    \b
    nearmt verify memory
    nearmt verify memory --repair --device cpu --json
    """
    settings = given_settings(options)
    if settings and not repairs:
        raise ConfigError(f"--{min(settings)} goes with --repair; checking needs no model")
    with waiting("reading all files"):
        found = verify(folder)
    if not as_json:
        _print_table(found)
    damaged = [finding for finding in found if finding.damaged]
    fields: dict[str, Any] = {"datastore": str(folder), "damaged": len(damaged), "files": [asdict(f) for f in found]}
    if repairs and damaged:
        fields |= _repaired(folder, found, settings, as_json)
    if repairs and not damaged and not as_json:
        echo(f"{folder}: is sound; there is nothing to repair")
    if as_json:
        echo(json.dumps(fields, ensure_ascii=False))
    if damaged and not repairs:
        names = ", ".join(finding.file for finding in damaged[:3]) + (" and more" if len(damaged) > 3 else "")
        raise DatastoreError(f"{folder}: damaged: {names}; `nearmt verify {folder} --repair` rebuilds it")
    if lost := [finding for finding in found if finding.verdict == LOST]:
        raise IndexServerError(f"{folder}: its files are sound, its index on a server is not: {lost[0].detail}")


def _repaired(folder: Path, found: Sequence[Finding], settings: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    from nearmt.datastore.upkeep.repair import repair
    from nearmt.models import load_model
    from nearmt.models.naming import name_from_store

    def load(known: dict[str, Any]) -> TranslationModel:
        wanted = {**known, **settings}
        if "model" not in wanted:
            raise DatastoreError(f"{folder}: no longer says which model it was built with; give --model")
        if "model" not in settings:
            name_from_store(wanted["model"], folder)
        return load_model(pick(ModelConfig, wanted))

    with progress_bar("pairs") as progress:
        done = repair(folder, found, load, progress)
    if not as_json:
        for line in done.report:
            echo(line)
        echo(f"{folder}: {done.pairs:,} pairs salvaged; the damaged store is {done.kept_as}")
    return {"report": done.report, "lost": done.lost, "pairs": done.pairs, "kept_as": str(done.kept_as)}


def _print_table(found: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from nearmt.cli.safe_console import SafeConsole

    table = Table(box=None, show_header=False)
    for column in (dict[str, Any](overflow="fold"), {}, {"overflow": "fold"}):
        table.add_column(**column)
    for finding in found:
        style = {"sound": "green", "damaged": "bold red"}.get(finding.verdict, "yellow")
        table.add_row(finding.file, Text(finding.verdict, style=style), finding.detail)
    SafeConsole().print(table)
