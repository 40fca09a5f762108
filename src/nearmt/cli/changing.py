"""Shared by the commands that change a datastore: loading, interruption, output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearmt.cli.console import echo, waiting
from nearmt.cli.stopping import interruption, noting

if TYPE_CHECKING:  # deleting and inspecting need no torch
    from nearmt.datastore import Datastore
    from nearmt.datastore.disk import Manifest
    from nearmt.models import TranslationModel


class Interruption:
    """Records signals that arrive while a datastore is changed."""

    def __init__(self) -> None:
        self.requested: list[int] = []

    def check(self) -> None:
        """Raise if a signal arrived. Called where the changes so far are complete."""
        if self.requested:
            raise interruption(self.requested[0])


@contextmanager
def finishing() -> Iterator[Interruption]:
    """Signals do not interrupt the block; it stops where it checks, or at its end."""
    found = Interruption()
    with noting(found.requested):
        yield found


def open_with_model(
    folder: Path, manifest: Manifest, settings: Mapping[str, Any]
) -> tuple[Datastore, TranslationModel]:
    """Open a datastore and load the model it was built with; `settings` override what the store records."""
    from nearmt.cli.given import pick
    from nearmt.cli.setup import model_of
    from nearmt.datastore import Datastore
    from nearmt.models import ModelConfig, load_model, resolve_device
    from nearmt.models.directions import known_direction

    config = pick(ModelConfig, {**model_of(folder, manifest, settings), **settings})
    known_direction(config)
    # The store first: opening it is faster than loading a model, and finds damage.
    with waiting("opening the datastore"):
        store = Datastore.open(folder, device=resolve_device(config.device))
    with waiting("loading the model"):
        model = load_model(config, store.adapter)
    store.check_model(model)
    return store, model


def say(as_json: bool, line: str, fields: Mapping[str, Any]) -> None:
    """Print the result of a command: one line of text, or JSON."""
    echo(json.dumps(fields, ensure_ascii=False) if as_json else line)
