"""A store that is edited, against a plain dictionary and against a store built at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.corpus import clean
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.engines.reference.distances import squared_l2
from nearmt.models import TranslationModel
from nearmt.reduction import Reduction
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.helpers import reduction_of, states_by_hand
from tests.datastore.test_similar import bm25

BEAM = BeamConfig(beams=2, max_new_tokens=12)
#: What would otherwise be taken from the calibration.
#: Nothing that is derived from what was measured when a store was built.
KNN = {"k": 4, "lambda": 0.7, "temperature": 2.0, "guard": False, "agreement": 0.5, "ends": "all"}
CHUNK = {**KNN, "cache-lambda": 0.7, "cache-temperature": 1.0, "cache-k": 6, "seeds": 4, "chunk": 5}
TEXTS = [pair.source for pair in make_pairs(6, seed=91)]


def named(pairs: Iterable[Pair], prefix: str = "") -> list[Pair]:
    """Pairs with ids."""
    return [replace(pair, id=f"{prefix}{number}") for number, pair in enumerate(pairs)]


@contextmanager
def reduced_by(reduction: Reduction) -> Iterator[None]:
    """Stores are built with this reduction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearmt.datastore.edit.reductions.pretrained_reduction", lambda model: reduction)
        yield


def built_alike(path: Path, pairs: Iterable[Pair], model: TranslationModel, store: Datastore) -> Datastore:
    """A fresh build of some pairs with the reduction of a store."""
    with reduced_by(reduction_of(store.path)):
        return Datastore.build(path, pairs, model)


def translations(
    model: TranslationModel, store: Datastore, method: str = "knn", **changed: object
) -> list[tuple[str, float]]:
    settings = {**(KNN if method == "knn" else CHUNK), **changed}
    translator = Translator(model, store, method, settings, BEAM)
    return [(found.text, found.score) for found in translator.translate(TEXTS)]


def seen_entries(store: Datastore) -> Tensor:
    """The entries that can be found, in corpus order."""
    found_N = store.snapshot().findable_N()
    return torch.arange(len(store)) if found_N is None else found_N.nonzero().flatten()


def assert_same_entries(entry_BK: Tensor, expected_BK: Tensor, distance_BK: Tensor, all_found: bool) -> None:
    """The same entries, except for ties with the last distance, of which any may be chosen.

    The same source has the same key before the first token: if there are more than k such entries, an index
    takes some.
    """
    nearer_BK = torch.ones_like(entry_BK, dtype=torch.bool) if all_found else distance_BK < distance_BK[:, -1:]
    assert torch.equal(entry_BK[nearer_BK], expected_BK[nearer_BK])


def assert_same(mine: Datastore, other: Datastore, model: TranslationModel, k: int = 4) -> None:
    """The same pairs, entries, neighbours and translations; only numbers may differ, by what is deleted in between.

    `k` is that of the translations: where the same source occurs several times, it must leave out no neighbour.
    """
    assert list(mine.pairs()) == list(other.pairs())
    assert mine.snapshot().pair_count == other.snapshot().pair_count
    my, its = seen_entries(mine), seen_entries(other)
    assert torch.equal(mine.snapshot().tokens(my), other.snapshot().tokens(its))
    key, expected_key = (
        mine.snapshot().keys(my, mine.snapshot().columns),
        other.snapshot().keys(its, other.snapshot().columns),
    )
    assert torch.equal(key, expected_key)
    number_of = dict(zip(my.tolist(), its.tolist(), strict=True)) | {-1: -1}
    query = key[::3] + 0.05
    for count in (1, 8, 1000):
        found, expected = mine.snapshot().search(query, count), other.snapshot().search(query, count)
        assert torch.equal(found.distance_BK, expected.distance_BK)
        entry_BK = torch.tensor([[number_of[entry] for entry in row] for row in found.entry_BK.tolist()])
        assert_same_entries(entry_BK, expected.entry_BK, expected.distance_BK, count >= len(its))
    for text in TEXTS:
        source = model.codec.source_ids(text)
        pairs = [
            [store.snapshot().pair(n) for n in store.snapshot().similar_pairs(source, 9)] for store in (mine, other)
        ]
        assert pairs[0] == pairs[1]
        assert mine.snapshot().exact(text) == other.snapshot().exact(text)
    for method in ("knn", "chunk"):
        said, should = (translations(model, store, method, k=k) for store in (mine, other))
        assert [text for text, _ in said] == [text for text, _ in should]
        assert [score for _, score in said] == pytest.approx([score for _, score in should], rel=1e-5)


def _keys_of(store: Datastore, entry_BK: Tensor) -> Tensor:
    return store.snapshot().keys(entry_BK.flatten(), store.snapshot().columns).view(*entry_BK.shape, -1)


class Expected:
    """The expected content of a store: a dictionary of pairs, the pending ones, and the searchable ones."""

    def __init__(self, pairs: Sequence[Pair], reduction: Reduction, model: TranslationModel) -> None:
        self.pairs = {pair.id: pair for pair in pairs}
        self.pending: set[str] = set()
        #: A pair that waits does not hide the one that it replaces.
        self._found = dict(self.pairs)
        self._reduction, self._model = reduction, model

    def add(self, pairs: Iterable[Pair], learn: bool) -> None:
        for pair in pairs:
            self.pairs.pop(pair.id, None)
            self.pairs[pair.id] = pair
            self.pending.add(pair.id)
        if learn:
            self.learn()

    def learn(self) -> None:
        for pair in [pair for pair in self.pairs.values() if pair.id in self.pending]:
            self._found.pop(pair.id, None)
            self._found[pair.id] = pair
        self.pending.clear()

    def delete(self, ids: Iterable[str]) -> None:
        for identity in ids:
            del self.pairs[identity]
            self.pending.discard(identity)
            self._found.pop(identity, None)

    @property
    def visible(self) -> list[Pair]:
        return list(self._found.values())

    def check(self, store: Datastore) -> None:
        """Everything that can be asked of a store, by brute force."""
        visible = self.visible
        assert list(store.pairs()) == visible
        assert store.snapshot().pair_count == len(visible) and store.pending == len(self.pending)
        assert store.total_pairs == len(self.pairs)
        entry = seen_entries(store)
        states, tokens = states_by_hand(self._model, visible)
        assert store.snapshot().tokens(entry).tolist() == [token for part in tokens for token in part]
        owners = [pair.id for pair, part in zip(visible, tokens, strict=True) for _ in part]
        assert [store.snapshot().pair_of(int(number)).id for number in entry[::7]] == owners[::7]
        if visible:
            key_ND = self._reduction.apply(torch.cat(states)).half().float()
            query_BD = key_ND[::5] + 0.03
            distance_BN, order_BN = squared_l2(query_BD, key_ND[None]).sort(dim=1, stable=True)
            found = store.snapshot().search(query_BD, 6)
            there = min(6, len(key_ND))
            # Sums in another order, where kernels measure.
            torch.testing.assert_close(found.distance_BK[:, :there], distance_BN[:, :there], rtol=1e-5, atol=1e-5)
            nearest, distance = entry[order_BN[:, :there]], distance_BN[:, :there]
            assert_same_entries(found.entry_BK[:, :there], nearest, distance, len(key_ND) <= 6)
            measured = squared_l2(query_BD, _keys_of(store, found.entry_BK[:, :there]))
            assert torch.equal(measured, distance)
            assert bool((found.entry_BK[:, there:] == -1).all())
        sources = [self._model.codec.source_ids(pair.source) for pair in visible]
        for text in TEXTS[:2] + [pair.source for pair in visible[-1:]]:
            query = self._model.codec.source_ids(text)
            scores = bm25(query, sources)
            similar = store.snapshot().similar_pairs(query, 3)
            found_ids = [store.snapshot().pair(number).id for number in similar]
            of_id = {pair.id: score for pair, score in zip(visible, scores, strict=True)}
            best = sorted((score for score in scores if score > 0), reverse=True)[:3]
            assert [of_id[identity] for identity in found_ids] == pytest.approx(best, rel=1e-5)
            same = [pair for pair in visible if clean(pair.source) == clean(text)]
            assert store.snapshot().exact(text) == (same[-1] if same else None)
