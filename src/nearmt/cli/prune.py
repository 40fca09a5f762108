"""nearmt prune"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import echo, progress_bar, waiting
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import print_fields
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.datastore import PruneConfig, prune, unprune
from nearmt.datastore.disk import Manifest
from nearmt.datastore.upkeep.description import describe
from nearmt.errors import ConfigError


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--undo", is_flag=True, help="index all entries again")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@config_options(PruneConfig)
def command(folder: Path, undo: bool, as_json: bool, **options: Any) -> None:
    """Make a datastore faster to search by merging entries.

    Entries with the same token and near keys are merged into one entry with their total weight. Only the index
    shrinks: tokens, keys and pairs stay, chunks are complete, and --undo restores every entry. Needs no model.

    \b
    nearmt prune memory
    nearmt prune memory --neighbours 8 --json
    """
    settings = given_settings(options)
    config = pick(PruneConfig, settings)
    if undo and settings.keys() - {"index"}:
        raise ConfigError(f"--undo goes with --index only, not with --{min(settings.keys() - {'index'})}")
    if undo:
        with waiting("indexing"):
            manifest = unprune(folder, config.index)
    else:
        with progress_bar("merging") as progress:
            manifest = prune(folder, config, progress)
    fields = _summary(folder, manifest)
    if as_json:
        echo(json.dumps(fields))
    else:
        print_fields(fields)


def _summary(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The result of pruning, and how the remaining entries are searched."""
    shown = describe(folder, manifest)
    largest = max((record.pruned["largest"] for record in manifest.segments if record.pruned), default=1)
    return {
        **{name: shown[name] for name in ("datastore", "identity", "entries", "kept_entries")},
        "share_kept": round(manifest.kept / max(1, manifest.entries), 4),
        # Merging keeps the total weight: the number of entries.
        "mean_weight": round(manifest.entries / max(1, manifest.kept), 3),
        "largest_weight": largest,
        **{name: shown[name] for name in ("index", "recall", "search_scale", "cache_scale")},
    }
