"""nearmt info"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import waiting
from nearmt.cli.manual import ManualCommand
from nearmt.datastore.manifest import Manifest


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="read all files and compare their checksums, however large they are")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def command(folder: Path, verify: bool, as_json: bool) -> None:
    """Show what a datastore holds. Needs no model."""
    manifest = Manifest.load(folder)
    with waiting("checking the files"):
        manifest.check_files(folder, thorough=verify or None)
    if as_json:
        click.echo(json.dumps(describe(folder, manifest)))
    else:
        print_info(folder, manifest)


def describe(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The manifest as a flat mapping."""
    calibration = manifest.calibration
    return {
        "datastore": str(folder),
        "identity": manifest.identity,
        "pairs": manifest.pairs,
        "entries": manifest.entries,
        "kept_entries": manifest.kept,
        "too_long": sum(segment.too_long for segment in manifest.segments),
        "segments": len(manifest.segments),
        "model": manifest.model,
        "fingerprint": manifest.fingerprint,
        "languages": f"{manifest.source_lang}-{manifest.target_lang}",
        "key_layer": manifest.key_layer,
        "precision": manifest.precision,
        "columns": manifest.columns,
        "reduction": manifest.reduction,
        "index": ", ".join(segment.index.get("factory", "exact") for segment in manifest.segments) or "none",
        "recall": 1.0 if calibration.recall is None else calibration.recall,
        "likely_weight": calibration.likely_weight,
        "familiar": calibration.familiar,
        "search_scale": round(calibration.search_scale, 3),
        "cache_scale": round(calibration.cache_scale, 3),
        "megabytes": round(_size(manifest) / 1e6, 1),
        "cleaning": manifest.cleaning or "none known",
        "created": manifest.created,
        "nearmt": manifest.nearmt,
        "format": manifest.format,
    }


def print_info(folder: Path, manifest: Manifest) -> None:
    print_fields(describe(folder, manifest))


def print_fields(fields: dict[str, Any]) -> None:
    """A table of names and values for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in fields.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        table.add_row(f"[bold]{name.replace('_', ' ')}", shown if value is not None else "none")
    Console().print(table)


def _size(manifest: Manifest) -> int:
    return sum(file.bytes for segment in manifest.segments for file in segment.files.values())
