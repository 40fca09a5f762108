"""The folder in a datastore where the training of its adapter is kept, so that it can be continued."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmt.datastore.disk.files import writer_lock
from nearmt.errors import ConfigError, writing
from nearmt.opening import ADAPTING, exists_inside
from nearmt.research.training.checkpoint import FILE


@contextmanager
def training_folder(datastore: Path, resume: bool) -> Iterator[Path]:
    """The folder of an interrupted training, or a new one; removed if the block succeeds."""
    folder = datastore / ADAPTING
    with writing(folder):
        if folder.is_symlink():
            folder.unlink()
        folder.mkdir(exist_ok=True)
    with writer_lock(folder):
        if not resume and exists_inside(folder / FILE):
            raise ConfigError(
                f"{folder}: has a training that was interrupted; give --resume to continue it, or remove it to begin "
                "anew"
            )
        yield folder
        with writing(folder):
            shutil.rmtree(folder)
