"""A store with everything a store can have, and ways to damage it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.datastore import BuildConfig, Datastore
from nearmt.models import TranslationModel
from tests.conftest import make_pairs


def edited_store(path: Path, tiny: TranslationModel) -> Path:
    """Two sealed segments, one of them with deleted pairs, a log of three calls, and a live segment."""
    # Replaced files go at once: `test_retention.py` is about those that stay.
    store = Datastore.build(path, make_pairs(20), tiny, BuildConfig(keep_replaced=0))
    store.delete([pair.id for pair in list(store.pairs())[:2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
        store.add(make_pairs(8, seed=1), tiny)
    store.add(make_pairs(3, seed=2), tiny)
    store.add(make_pairs(2, seed=3), tiny)
    store.delete([next(store.pairs()).id])
    assert len(store.manifest.segments) == 2
    return path


def altered(path: Path, offset: int) -> None:
    """One bit of one byte is another."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
