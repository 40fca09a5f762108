"""nearmt keys"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from nearmt.cli.console import echo, warn
from nearmt.cli.manual import ManualCommand, ManualOption
from nearmt.errors import ConfigError, InputError
from nearmt.serve.config import ServeConfig
from nearmt.serve.key_file import FILE_NAME, KeyRecord, changing, make_record, read_keys

#: Width of the table if it does not go to a terminal.
_WIDTH = 110
_ACTIONS = ("add", "list", "remove")


@click.command(cls=ManualCommand)
@click.argument("action", type=click.Choice(_ACTIONS))
@click.argument("name", required=False)
@click.option("--memories", metavar="A,B", help="memories that the key may use; '*' for all (with add)")
@click.option("--may", metavar="RIGHTS", help="of translate,learn,admin [default: translate] (with add)")
@click.option("--default-memory", metavar="A", help="memory of requests that name none (with add)")
@click.option("--requests", type=click.IntRange(min=1), help="most requests a minute (with add)")
@click.option("--characters", type=click.IntRange(min=1), help="most characters a minute (with add)")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=ServeConfig().state_folder,
    show_default=True,
    help="state folder of the server",
)
@click.option("--json", "as_json", is_flag=True, cls=ManualOption, help="print JSON")
def command(
    action: str,
    name: str | None,
    memories: str | None,
    may: str | None,
    default_memory: str | None,
    requests: int | None,
    characters: int | None,
    state: Path,
    as_json: bool,
) -> None:
    """Make, list and remove keys of a server.

    ACTION is add, list or remove; NAME is the name of a key, which shows in logs. `add` prints the key once and stores
    its hash. Whoever has a key sees the memories of the key and no others. `translate` allows translations and
    searches in memories; `learn` changes pairs, imports files and compacts memories; `admin` makes and deletes
    memories. A running server needs no restart.

    \b
    nearmt keys add weblate --memories app --may translate,learn --default-memory app
    nearmt keys add ada --memories '*' --may translate,learn,admin --requests 600
    nearmt keys list --json
    """
    given = (memories, may, default_memory, requests, characters)
    if action != "add" and any(value is not None for value in given):
        raise ConfigError(f"keys {action}: takes no options of a new key")
    if action == "list":
        _list(state, as_json)
        return
    if name is None:
        raise ConfigError(f"keys {action}: give the NAME of a key")
    if action == "remove":
        _remove(state, name)
        return
    if memories is None:
        raise ConfigError("keys add: give --memories A,B, or --memories '*' for all")
    record, key = make_record(name, _parts(memories), _parts(may or "translate"), default_memory, requests, characters)
    with changing(state) as records:
        if any(each.name == name for each in records):
            raise ConfigError(f"there is a key '{name}'; remove it first, or give another name")
        records.append(record)
    if as_json:
        echo(json.dumps({"key": key, **_described(record)}))
    else:
        echo(key)
        warn("this is the only time that the key is shown; the server knows its hash")


def _list(state: Path, as_json: bool) -> None:
    records = read_keys(state / FILE_NAME)
    if as_json:
        echo(json.dumps([_described(record) for record in records]))
        return
    if not records:
        warn(f"{state}: no keys")
        return
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    table = Table(box=None)
    names = list(_described(records[0]))
    for heading in names:
        table.add_column(heading.replace("_", " "), overflow="fold")
    for record in records:
        table.add_row(*(_text(value) for value in _described(record).values()))
    SafeConsole(width=None if sys.stdout.isatty() else _WIDTH).print(table)


def _remove(state: Path, name: str) -> None:
    with changing(state) as records:
        left = [record for record in records if record.name != name]
        if len(left) == len(records):
            raise InputError(f"{state}: no key '{name}'")
        records[:] = left
    echo(f"key '{name}' is removed")
    if not left:
        warn(f"no keys are left, so the server refuses every request; delete {state / FILE_NAME} to work without keys")


def _described(record: KeyRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "memories": "*" if record.memories is None else list(record.memories),
        "may": list(record.may),
        "default_memory": record.default_memory,
        "requests": record.requests,
        "characters": record.characters,
        "created": record.created,
    }


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, list) else "" if value is None else str(value)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
