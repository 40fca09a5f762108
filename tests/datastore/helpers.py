"""What the tests of stores share: entries by hand, files by name, counted encoders."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.live_segment import Block, FrozenLive, LiveSegment
from nearmt.datastore.disk.manifest import FILE_NAME, live_names
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.models.forced import ForcedPairs
from nearmt.opening import BUILDING, REPAIRING
from nearmt.reduction import Reduction

LOCK = ".lock"


def states_by_hand(model: TranslationModel, pairs: Sequence[Pair]) -> tuple[list[Tensor], list[list[int]]]:
    """States and target tokens of each pair, encoded alone."""
    found = [_encoded_alone(model, pair.source, pair.target) for pair in pairs]
    return [states for states, _ in found], [tokens for _, tokens in found]


@cache
def _encoded_alone(model: TranslationModel, source: str, target: str) -> tuple[Tensor, list[int]]:
    tokens = model.codec.target_ids(target)
    return model.seq2seq.force_decode([model.codec.source_ids(source)], [tokens])[0], tokens


def reduction_of(path: Path) -> Reduction:
    return Reduction.load(path / Manifest.load(path).reduction_name)


def all_keys(store: Datastore) -> Tensor:
    return store.snapshot().keys(torch.arange(len(store)), store.manifest.columns)


def some_queries(store: Datastore, count: int = 20, seed: int = 0) -> Tensor:
    """Points near entries, the same for every store of the same keys."""
    generator = torch.Generator().manual_seed(seed)
    key = all_keys(store)
    place = torch.randperm(len(key), generator=generator)[:count]
    return key[place] + 0.05 * torch.randn(count, key.shape[1], generator=generator)


def nearest_by_hand(store: Datastore, query_BD: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    difference = all_keys(store).double()[None] - query_BD.double()[:, None]
    squared = difference.square().sum(dim=-1).numpy()
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(squared, order, axis=1)


def in_memory(pairs: Sequence[Pair]) -> FrozenLive:
    """A segment of pairs without entries."""
    live = LiveSegment(columns=1)
    live.append(
        pairs,
        Block(0, [[]] * len(pairs), [[]] * len(pairs), np.zeros((0, 1), dtype=np.float16), np.zeros(0, dtype="<u2")),
    )
    return live.frozen()


def contents(path: Path) -> dict[str, bytes]:
    """All files of a store by name, without those of a build or repair that did not finish."""
    files = {file.relative_to(path): file for file in sorted(path.rglob("*")) if file.is_file()}
    return {str(name): file.read_bytes() for name, file in files.items() if name.parts[0] not in (BUILDING, REPAIRING)}


def arrays(path: Path) -> dict[str, bytes]:
    """Everything but manifest (it has a date) and indexes."""
    return {name: data for name, data in contents(path).items() if name != FILE_NAME and "index-" not in name}


def assert_no_strays(path: Path) -> None:
    """A store contains only files that its manifest names, or keeps for a while, and its parent folder has no
    leftovers."""
    manifest = Manifest.load(path)
    kept = manifest.replaced
    known = {FILE_NAME, *manifest.shared_names}
    if (path / LOCK).exists():  # empty, and there from the first change on
        assert (path / LOCK).stat().st_size == 0
        known.add(LOCK)
    known |= {name for name in live_names(manifest.log) if (path / name).exists()}
    known |= {f"{record.name}/{name}" for record in manifest.segments for name in record.files}
    assert {name for name in contents(path) if not {name, name.partition("/")[0]} & kept.keys()} == known
    folders = {file.name for file in path.iterdir() if file.is_dir()}
    assert folders - kept.keys() == {record.name for record in manifest.segments}
    siblings = {file.name for file in path.parent.iterdir() if file.name.startswith(path.name)}
    assert siblings == {path.name}


def count_encoded(monkeypatch: pytest.MonkeyPatch, fail_at: int | None = None) -> list[int]:
    """Sizes of the batches force-decoded from now on; the call number `fail_at` fails."""
    real = Seq2SeqModel.force_entries
    sizes: list[int] = []

    def force_entries(self: Seq2SeqModel, pairs: ForcedPairs) -> tuple[Tensor, Tensor]:
        if len(sizes) == fail_at:
            raise MemoryError("the encoder failed")
        sizes.append(len(pairs.source))
        return real(self, pairs)

    monkeypatch.setattr(Seq2SeqModel, "force_entries", force_entries)
    return sizes


def stop_after(blocks: int) -> Callable[[int, int], None]:
    """A progress callback that interrupts when this many blocks are written and the next one is encoded."""
    calls: list[int] = []

    def progress(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) > blocks:
            raise KeyboardInterrupt

    return progress


def full_disk(handle: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
