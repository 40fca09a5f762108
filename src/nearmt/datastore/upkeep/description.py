"""The description of a datastore. Needs no model and loads no tensors."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.corpus.marks import MARKS
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.content import Content
from nearmt.datastore.disk.manifest import live_names
from nearmt.datastore.disk.replay import replayed

#: Share of deleted entries from which compaction is advised.
_DELETED_SHARE = 0.2


def _marks(marks: str) -> str:
    """How placeholders and tags are encoded, and what to do if that is not how translations have them."""
    return marks if marks == MARKS else f"{marks or 'none'} (stale: `nearmt reindex DIR --model MODEL` encodes it anew)"


def describe(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The description of a store, as a flat mapping."""
    calibration = manifest.calibration
    content = replayed(folder, manifest).content
    live, deleted = content.live.entries, _deleted(content)
    return {
        "datastore": str(folder),
        "identity": manifest.identity,
        "pairs": int(content.visible().sum()),
        "deleted_pairs": deleted[0],
        "pending_pairs": len(content.pending()),
        "entries": manifest.entries + live,
        "kept_entries": manifest.kept + live,
        "live_entries": live,
        "deleted_entries": deleted[1],
        "too_long": sum(segment.too_long for segment in manifest.segments),
        "segments": len(manifest.segments),
        **({"part": "{number} of {count}".format(**manifest.shard)} if manifest.shard else {}),
        "model": manifest.model,
        "fingerprint": manifest.fingerprint,
        **_adapter(manifest, content),
        "languages": f"{manifest.source_lang}-{manifest.target_lang}",
        "key_layer": manifest.key_layer,
        "precision": manifest.precision,
        "columns": manifest.columns,
        "reduction": manifest.reduction,
        "index": ", ".join(segment.index.get("factory", "exact") for segment in manifest.segments) or "none",
        **_rows(manifest),
        "recall": 1.0 if calibration.recall is None else round(calibration.recall, 4),
        "likely_weight": calibration.likely_weight,
        "marks": _marks(manifest.marks),
        "agreement": calibration.agreement,
        "familiar": calibration.familiar,
        "search_scale": round(calibration.search_scale, 3),
        "cache_scale": round(calibration.cache_scale, 3),
        "megabytes": round(size_on_disk(folder, manifest) / 1e6, 1),
        "kept_megabytes": round(kept_bytes(folder, manifest) / 1e6, 1),
        "keep_replaced": manifest.keep_replaced,
        "log_bytes": sum(map(_bytes, _live_files(folder, manifest)[:1])),
        "cleaning": manifest.cleaning or "none known",
        "created": manifest.created,
        "nearmt": manifest.nearmt,
        "format": manifest.format,
        "advice": _advice(folder, manifest, manifest.entries + live, deleted[1], len(content.pending())),
    }


def _rows(manifest: Manifest) -> dict[str, Any]:
    """Where the keys are on a server, if they are."""
    indexes = [record.index for record in manifest.segments if record.index["kind"] == "milvus"]
    if not indexes:
        return {}
    names = ", ".join(sorted({index["collection"] for index in indexes}))
    return {
        "collection": names,
        "memory_number": str(indexes[0]["memory"]),
        "parts": ", ".join(str(index["part"]) for index in indexes),
    }


def _adapter(manifest: Manifest, content: Content[Any]) -> dict[str, Any]:
    """What is known of the adapter, and how many pairs it does not know, if there is one."""
    adapter = manifest.adapter
    if adapter is None:
        return {}
    newer = int(content.visible()[adapter.known :].sum()) + len(content.pending())
    return {
        "adapter": adapter.identity,
        "adapter_rank": adapter.rank,
        "adapter_pairs": adapter.trained,
        "adapter_held_out": adapter.held_out,
        "adapter_loss": f"{adapter.loss:.3f} (without it {adapter.base_loss:.3f})",
        "adapter_created": adapter.created,
        "adapter_megabytes": round(adapter.file.bytes / 1e6, 1),
        "pairs_newer_than_adapter": newer,
    }


def _deleted(content: Content[Any]) -> tuple[int, int]:
    """Numbers of pairs and entries that are deleted and still on disk."""
    seen = [content.visible_in(number) for number in range(len(content.parts))]
    segments = [part.segment for part in content.parts]
    parts = [*zip(segments, seen, strict=True), (content.live.frozen(), content.visible_live())]
    entries = sum(int(np.diff(segment.end_P, prepend=0)[~seen_P].sum()) for segment, seen_P in parts)
    return sum(int((~seen_P).sum()) for _, seen_P in parts), entries


def _advice(folder: Path, manifest: Manifest, entries: int, deleted: int, pending: int) -> str | None:
    """Advice on maintenance; None if there is nothing to do."""
    advice = []
    if manifest.shard:
        advice.append("it is one part of a corpus, without an index: `nearmt merge` joins it with the others")
    if pending:
        advice.append(f"{pending:,} pairs wait for a model: `nearmt compact {folder}` or any translation encodes them")
    if deleted > _DELETED_SHARE * entries:
        share = f"{deleted / entries:.0%} of the entries"
        advice.append(f"{share} are deleted: `nearmt compact {folder}` makes search faster and frees disk space")
    if stale := stale_index(folder, manifest, entries):
        advice.append(stale)
    return "; ".join(advice) or None


def stale_index(folder: Path, manifest: Manifest, entries: int) -> str | None:
    """Why the index is stale; None if it is not, or if there is none."""
    if manifest.calibration.recall is None:
        return None
    from nearmt.datastore.search.indexing import trained_entries
    from nearmt.datastore.search.recall import staleness

    return staleness(folder, manifest.calibration.recall, trained_entries(manifest.segments), entries)


def _live_files(folder: Path, manifest: Manifest) -> list[Path]:
    return [folder / name for name in live_names(manifest.log)]


def _bytes(path: Path) -> int:
    """Bytes of a file; 0 where there is none, also where a change is just removing it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def kept_bytes(folder: Path, manifest: Manifest) -> int:
    """Bytes of replaced files that stay for readers on other machines."""
    kept = (folder / name for name in manifest.replaced)
    return sum(sum(map(_bytes, path.iterdir())) if path.is_dir() else _bytes(path) for path in kept)


def size_on_disk(folder: Path, manifest: Manifest) -> int:
    """Bytes of the segments, the log and the live blocks."""
    sealed = sum(file.bytes for segment in manifest.segments for file in segment.files.values())
    return sealed + sum(map(_bytes, _live_files(folder, manifest)))
