"""What commands that change a datastore have in common."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from nearmt.cli.console import waiting

if TYPE_CHECKING:  # deleting and looking need no tensors
    from nearmt.datastore import Manifest
    from nearmt.models import TranslationModel
    from nearmt.store import Datastore


class Interruption:
    """Whether Ctrl-C was pressed while a store is changed."""

    requested = False

    def check(self) -> None:
        """Stop here if it was. Called where whatever was begun is safe."""
        if self.requested:
            raise KeyboardInterrupt


@contextmanager
def finishing() -> Iterator[Interruption]:
    """What was begun is finished, or stops where the block checks, however often Ctrl-C is pressed."""
    interruption = Interruption()

    def request(number: int, frame: FrameType | None) -> None:
        interruption.requested = True

    if threading.current_thread() is not threading.main_thread():  # signals reach only that one
        yield interruption
        return
    before = signal.signal(signal.SIGINT, request)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)


def given_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by public name."""
    return {name.replace("_", "-"): value for name, value in options.items() if value is not None}


def open_with_model(
    folder: Path, manifest: Manifest, settings: Mapping[str, Any]
) -> tuple[Datastore, TranslationModel]:
    """A store and the model it was built with; settings say where that is and how it runs."""
    from nearmt.cli.options import pick
    from nearmt.cli.setup import model_of
    from nearmt.models import ModelConfig, load_model
    from nearmt.store import Datastore

    with waiting("loading the model"):
        model = load_model(pick(ModelConfig, {**model_of(folder, manifest, settings), **settings}))
    with waiting("opening the datastore"):
        store = Datastore.open(folder, device=str(model.seq2seq.device))
    store.check_model(model)
    return store, model


def say(as_json: bool, line: str, fields: Mapping[str, Any]) -> None:
    """The result of a command: one line for people, or JSON."""
    click.echo(json.dumps(fields, ensure_ascii=False) if as_json else line)
