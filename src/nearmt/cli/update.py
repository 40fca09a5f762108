"""nearmt update"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearmt.cli.changing import finishing, open_with_model, say
from nearmt.cli.given import given_settings
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.corpus import clean
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ledger import Ledger
from nearmt.errors import ConfigError
from nearmt.models import ModelConfig


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("identity", metavar="ID")
@click.argument("target")
@click.option("--log-only", is_flag=True, help="only log the change; it is encoded when a model is next loaded")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@config_options(ModelConfig)
def command(folder: Path, identity: str, target: str, log_only: bool, as_json: bool, **options: Any) -> None:
    """Change the target of a pair of a datastore.

    `nearmt export DIR --format jsonl` shows the ids of all pairs, and `nearmt translate --json --explain` those of the
    pairs that a translation came from.

    \b
    nearmt update memory memory.tmx:4 "Connect the drip line to the distributor." --device cpu
    """
    text = clean(target)
    if not text:
        raise ConfigError("target = '': is empty; `nearmt delete` deletes a pair")
    ledger = Ledger(folder)
    ledger.content.check_known([identity], folder)
    before = ledger.find(identity)
    assert before is not None
    if log_only:
        with finishing(), Ledger.changing(folder) as changed:
            pair = changed.update(identity, text)
    else:
        store, model = open_with_model(folder, Manifest.load(folder), given_settings(options))
        with finishing():
            pair = store.update(identity, text, model)
    fields = {"datastore": str(folder), "id": identity, "source": pair.source, "before": before.target}
    say(as_json, f"{identity}: {before.target} -> {pair.target}", {**fields, "target": pair.target})
