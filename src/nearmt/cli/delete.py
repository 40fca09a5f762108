"""nearmt delete"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nearmt.cli.changing import finishing, say
from nearmt.cli.manual import ManualCommand
from nearmt.datastore.disk import Manifest, stored_pairs
from nearmt.datastore.disk.ledger import Ledger
from nearmt.errors import ConfigError, InputError


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--from", "file", type=click.Path(path_type=Path), help="file of ids, one a line (- for standard input)")
@click.option(
    "--filter", "filters", multiple=True, help="all pairs with this metadata: KEY=VALUE; of several all must hold"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def command(folder: Path, ids: tuple[str, ...], file: Path | None, filters: tuple[str, ...], as_json: bool) -> None:
    """Delete pairs from a datastore.

    Searches do not find them once the command returns; `nearmt compact` removes their text from disk.
    `nearmt export DIR --format jsonl` shows the ids of all pairs. An unknown id is an error, and then nothing
    is deleted. Needs no model.

    \b
    nearmt delete memory memory.tmx:4 memory.tmx:5
    nearmt delete memory --filter chapter=installation
    """
    if not ids and file is None and not filters:
        raise ConfigError("nothing to delete: give ids, --from FILE or --filter KEY=VALUE")
    wanted = [*ids, *_read_ids(file), *_filtered(folder, filters)]
    with finishing(), Ledger.changing(folder) as ledger:
        deleted = ledger.delete(wanted)
        left = ledger.pairs
    line = f"{folder}: {deleted:,} pairs deleted, {left:,} left"
    say(as_json, line, {"datastore": str(folder), "deleted": deleted, "pairs": left})


def _read_ids(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8; convert the file, e.g. with iconv") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _filtered(folder: Path, filters: tuple[str, ...]) -> list[str]:
    if not filters:
        return []
    from nearmt.datastore.filters import Filter

    conditions = [Filter.parse(text) for text in filters]
    pairs = stored_pairs(folder, Manifest.load(folder))
    found = [pair.id for pair in pairs if all(condition.holds(pair) for condition in conditions)]
    if not found:
        raise InputError(f"{folder}: no pair has {', '.join(map(str, conditions))}; nothing was deleted")
    return found
