"""Files in OUT that are made once, by the first process that needs them."""

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
from nearmt.research.experiments.cells import ResultFiles


@contextmanager
def made_once(results: ResultFiles, path: Path, signature: str) -> Iterator[bool]:
    """Yield whether `path` must be made: missing, or with another signature. Other processes wait meanwhile."""
    note = path.with_name(path.name + ".made.json")
    with results.lock(f"{path.parent.name}.{path.name}", wait=True):
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        known = read_object(note)
        missing = not path.exists() or known is None or known.get("signature") != signature
        yield missing
        if missing:
            write_json(note, {"signature": signature})


def read_object(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def copy_store(source: Path, target: Path) -> None:
    """Copy a datastore by hard links, which is safe because its files are replaced and never modified."""
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
    except OSError:  # another disk, or a file system without hard links
        shutil.copy2(path, other)
