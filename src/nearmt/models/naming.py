"""Which models a datastore may name: its manifest is untrusted input."""

from __future__ import annotations

import re
from pathlib import Path

from nearmt.errors import ModelError
from nearmt.models.embedded import EMBEDDED

#: `name` or `owner/name`, as the hub allows it.
_HUB_ID = re.compile(r"(?!.*(?:--|\.\.))\w[\w.-]*(?:/\w[\w.-]*)?", re.ASCII)


def is_hub_id(name: str) -> bool:
    return _HUB_ID.fullmatch(name) is not None


def recorded_name(name: str) -> str:
    """The name of a model in a manifest, which means the same model from any working folder."""
    path = Path(name)
    return str(path.resolve()) if name not in EMBEDDED and path.is_dir() and not path.is_absolute() else name


def name_from_store(name: str, store: Path | str) -> str:
    """The model that a store names, if it may be loaded without being asked for: an embedded model, one of the hub, or
    an absolute path outside of the store. A store from others must not bring its own model.
    """
    path = Path(name)
    if name in EMBEDDED or (is_hub_id(name) and not path.exists()):
        return name
    if not path.is_absolute() or not name.isprintable():
        raise ModelError(
            f"{store}: names its model by a relative path, {name!r}; give --model and the folder of the model"
        )
    if _is_inside(path, Path(store)):
        raise ModelError(f"{store}: names a model inside the store, {name!r}; if you trust it, name it with --model")
    return name


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads into or through a folder, also by links."""
    ancestors = {path, *path.parents, *path.resolve().parents}
    return any(each.exists() and each.samefile(folder) for each in ancestors)
