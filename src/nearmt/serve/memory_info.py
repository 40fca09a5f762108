"""What is known of memories without opening them."""

from __future__ import annotations

from pathlib import Path

from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.manifest import FILE_NAME, live_names
from nearmt.datastore.disk.replay import replayed
from nearmt.datastore.upkeep.description import size_on_disk, stale_index
from nearmt.errors import DatastoreError, NearmtError
from nearmt.serve.models import Models
from nearmt.serve.values import MemoryInfo

#: Changes whenever the content of a datastore does.
_Stamp = tuple[tuple[int, int, int] | None, ...]
#: Attempts to read a datastore that is written meanwhile.
_ATTEMPTS = 3
#: Memories whose description is kept.
_KEPT = 10_000


class Infos:
    """Descriptions of memories; that of a closed one is read again when its files have changed."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._known: dict[Path, tuple[_Stamp, MemoryInfo]] = {}

    def info(self, folder: Path, store: Datastore | None) -> MemoryInfo:
        """The description of a memory; of an open one as searches see it."""
        if store is not None:
            snapshot = store.snapshot()
            return self._info(folder, store.manifest, snapshot.pair_count, len(snapshot), store.pending)
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._closed(folder)
            except (NearmtError, OSError) as error:
                if not left:
                    reason = str(error).replace(f"{folder}: ", "").replace(str(folder), folder.name)
                    return MemoryInfo(folder.name, "", "", "", 0, 0, 0, 0, problem=reason)
        raise AssertionError("unreachable")

    def _closed(self, folder: Path) -> MemoryInfo:
        manifest = Manifest.load(folder)
        stamp = _stamp(folder, manifest)
        known = self._known.get(folder)
        if known is not None and known[0] == stamp:
            return known[1]
        content = replayed(folder, manifest).content
        entries = manifest.entries + content.live.entries
        info = self._info(folder, manifest, int(content.visible().sum()), entries, len(content.pending()))
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[folder] = stamp, info
        return info

    def _info(self, folder: Path, manifest: Manifest, pairs: int, entries: int, pending: int) -> MemoryInfo:
        problem = ""
        try:
            self._models.of(folder.name, manifest)
        except NearmtError as error:
            problem = str(error)
        try:
            stale = stale_index(folder, manifest, entries)
        except (DatastoreError, OSError):
            stale = None
        return MemoryInfo(
            name=folder.name,
            source_lang=manifest.source_lang,
            target_lang=manifest.target_lang,
            model=manifest.model,
            pairs=pairs,
            entries=entries,
            pending=pending,
            bytes=size_on_disk(folder, manifest),
            stale=(stale or "").replace(str(folder), folder.name),
            index=", ".join(dict.fromkeys(s.index.get("factory", "exact") for s in manifest.segments)) or "none",
            problem=problem,
        )


def _stamp(folder: Path, manifest: Manifest) -> _Stamp:
    return tuple(map(_stamp_of, [folder / FILE_NAME, *(folder / name for name in live_names(manifest.log))]))


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
