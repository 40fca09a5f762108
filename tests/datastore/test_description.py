"""Descriptions of stores that change meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk.manifest import live_names
from nearmt.datastore.upkeep.description import size_on_disk
from nearmt.models import TranslationModel


def test_files_that_were_just_removed_have_no_size(
    tmp_path: Path, tiny: TranslationModel, tiny_pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Datastore.build(tmp_path / "store", tiny_pairs[:3], tiny)
    store.add([Pair("die pumpe", "the pump")], tiny)
    before = size_on_disk(store.path, store.manifest)
    for name in live_names(store.manifest.log):
        (store.path / name).unlink(missing_ok=True)
    # A moment ago they were there.
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert 0 < size_on_disk(store.path, store.manifest) < before
