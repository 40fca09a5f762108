"""Things that are made once and kept in OUT, by whichever process needs them first."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearmt.datastore.disk.files import write_json
from nearmt.errors import writing
from nearmt.research.experiments.cells import Shelf


@contextmanager
def made_once(shelf: Shelf, path: Path, signature: str) -> Iterator[bool]:
    """True if `path` has to be made, from what the signature names; other processes wait meanwhile, and find it."""
    note = path.with_name(path.name + ".made.json")
    with shelf.lock(f"{path.parent.name}.{path.name}", wait=True):
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        known = read_object(note)
        missing = not path.exists() or known is None or known.get("signature") != signature
        yield missing
        if missing:
            write_json(note, {"signature": signature})


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None if there is none that is whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def copy_store(source: Path, target: Path) -> None:
    """A copy that shares its files with the original: those of a store are replaced, never written into."""
    with writing(target):
        shutil.rmtree(target, ignore_errors=True)
        for path in sorted(source.rglob("*")):
            other = target / path.relative_to(source)
            if path.is_dir():
                other.mkdir(parents=True, exist_ok=True)
            elif path.name != ".lock":
                other.parent.mkdir(parents=True, exist_ok=True)
                _link(path, other)


def _link(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except OSError:  # another disk, or one that knows no links
        shutil.copy2(path, other)
