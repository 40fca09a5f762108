"""Small stores of every make, to be altered: see `mutations`."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.datastore import BuildConfig, Datastore, PruneConfig, prune
from nearmt.models import TranslationModel
from tests.conftest import make_pairs

#: In the cells that kernels search, and indexes of other kinds.
_WHOLE = ("IVF4,SQ8_direct_signed", "HNSW4", "IVF4_HNSW4,Flat", "IVF4,PQ4x4np", "Flat", "exact")


def hostile_stores(folder: Path, model: TranslationModel) -> Path:
    """Two stores with everything that a store can have, and one of each kind of index."""
    for number in range(2):
        _edited(folder / f"edited-{number}", model)
    for factory in _WHOLE:
        Datastore.build(folder / factory, make_pairs(60), model, BuildConfig(index=factory, fit_reduction=True))
    return folder


def _edited(path: Path, model: TranslationModel) -> None:
    """A pruned segment and a whole one in shared cells, deleted pairs, a log, a live segment, pairs that wait."""
    index = "IVF4,SQ8_direct_signed"
    store = Datastore.build(path, make_pairs(60), model, BuildConfig(index=index, fit_reduction=True))
    prune(path, PruneConfig(index=index, device="cpu"))
    store.refresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
        patch.setattr("nearmt.datastore.search.indexing.FLAT", 1)
        store.delete([pair.id for pair in list(store.pairs())[:3]])
        store.add(make_pairs(20, seed=1), model)
    store.add(make_pairs(3, seed=2), model)
    store.add(make_pairs(2, seed=3), model)
    store.delete([next(store.pairs()).id])
    store.add(make_pairs(2, seed=4))
    records = store.manifest.segments
    assert len(records) == 2 and records[0].pruned and records[0].deleted
    assert all("quantiser" in record.index for record in records)
