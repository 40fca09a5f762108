"""What commands that change a datastore have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearmt.cli.console import echo, waiting
from nearmt.cli.stopping import interruption, noting

if TYPE_CHECKING:  # deleting and looking need no tensors
    from nearmt.datastore import Datastore
    from nearmt.datastore.disk import Manifest
    from nearmt.models import TranslationModel


class Interruption:
    """Whether a signal asked the command to end while a store is changed."""

    def __init__(self) -> None:
        self.requested: list[int] = []

    def check(self) -> None:
        """Stop here if it was. Called where whatever was begun is safe."""
        if self.requested:
            raise interruption(self.requested[0])


@contextmanager
def finishing() -> Iterator[Interruption]:
    """What was begun is finished, or stops where the block checks, however often Ctrl-C is pressed."""
    found = Interruption()
    with noting(found.requested):
        yield found


def given_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by public name."""
    return {name.replace("_", "-"): value for name, value in options.items() if value is not None}


def open_with_model(
    folder: Path, manifest: Manifest, settings: Mapping[str, Any]
) -> tuple[Datastore, TranslationModel]:
    """A store and the model it was built with; settings say where that is and how it runs."""
    from nearmt.cli.options import pick
    from nearmt.cli.setup import model_of
    from nearmt.datastore import Datastore
    from nearmt.models import ModelConfig, load_model, resolve_device
    from nearmt.models.directions import known_direction

    config = pick(ModelConfig, {**model_of(folder, manifest, settings), **settings})
    known_direction(config)
    # What is wrong with the store is found first: that takes less time than to load a model.
    with waiting("opening the datastore"):
        store = Datastore.open(folder, device=resolve_device(config.device))
    with waiting("loading the model"):
        model = load_model(config)
    store.check_model(model)
    return store, model


def say(as_json: bool, line: str, fields: Mapping[str, Any]) -> None:
    """The result of a command: one line for people, or JSON."""
    echo(json.dumps(fields, ensure_ascii=False) if as_json else line)
