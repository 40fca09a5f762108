"""A store whose hidden pairs cannot be found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore, LiveStore, MaskedStore
from nearmt.decoding import BeamConfig
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs


def entries_of(store: Datastore, number: int) -> list[int]:
    lengths = store.snapshot().pair_lengths()
    start = int(lengths[:number].sum())
    return list(range(start, start + int(lengths[number])))


def own_queries(store: Datastore) -> torch.Tensor:
    """The stored keys themselves: what is hidden would be found at a distance of zero."""
    return store.snapshot().keys(torch.arange(len(store)), store.manifest.columns)


def test_lengths_of_pairs_add_up(tiny: TranslationModel, tiny_store: Datastore) -> None:
    lengths = tiny_store.snapshot().pair_lengths()
    assert lengths.tolist() == [len(tiny.codec.target_ids(pair.target)) for pair in tiny_store.pairs()]
    assert int(lengths.sum()) == len(tiny_store)


@pytest.mark.parametrize("k", [1, 8, 50, 10_000])
@pytest.mark.parametrize("nominate", ["exact", "torch"])
def test_search_equals_brute_force_without_the_hidden(tiny_store: Datastore, nominate: str, k: int) -> None:
    store = Datastore.open(tiny_store.path, nominate=nominate)
    hidden = [0, 7, 8, 59]
    masked = MaskedStore(store, hidden)
    banned = {entry for number in masked.hidden for entry in entries_of(store, number)}
    query_BD = own_queries(store)[::9] + 0.01
    found = masked.snapshot().search(query_BD, k)
    key_ND = own_queries(store)
    squared_BN = (query_BD[:, None] - key_ND[None]).square().sum(dim=-1)
    squared_BN[:, sorted(banned)] = torch.inf
    expected = squared_BN.sort(dim=1, stable=True)
    there = min(k, len(store) - len(banned))
    assert found.entry_BK.shape == (len(query_BD), k)
    assert torch.allclose(found.distance_BK[:, :there], expected.values[:, :there], atol=1e-4)
    assert (found.entry_BK[:, there:] == -1).all() and torch.isinf(found.distance_BK[:, there:]).all()
    assert not banned & set(found.entry_BK.flatten().tolist())


def test_an_index_finds_no_hidden_entries_either(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "s", make_pairs(200, seed=3), tiny, BuildConfig(index="IVF4,SQ8"))
    masked = MaskedStore(store, range(0, 200, 3))
    banned = {entry for number in masked.hidden for entry in entries_of(store, number)}
    found = masked.snapshot().search(own_queries(store), 8)
    assert (found.entry_BK >= 0).all() and not banned & set(found.entry_BK.flatten().tolist())


def test_chunks_of_what_is_found_hold_nothing_hidden(tiny_store: Datastore) -> None:
    masked = MaskedStore(tiny_store, range(0, 60, 2))
    banned = {entry for number in masked.hidden for entry in entries_of(tiny_store, number)}
    chunks = masked.snapshot().chunks(masked.snapshot().search(own_queries(tiny_store), 8).entry_BK, 16)
    assert not banned & set(chunks.flatten().tolist())
    assert (
        set(
            tiny_store.snapshot()
            .chunks(tiny_store.snapshot().search(own_queries(tiny_store), 8).entry_BK, 16)
            .flatten()
            .tolist()
        )
        & banned
    )


def test_copies_are_hidden_too(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = [
        Pair("die pumpe prüfen", "check the pump"),
        Pair("der motor", "the motor"),
        Pair("Die  Pumpe prüfen", "clean the valve"),  # the same source, but for case and blanks
        Pair("das ventil", "check the  pump"),  # the same target
        Pair("das ventil", "the valve"),  # shares a source with a copy only
    ]
    store = Datastore.build(tmp_path / "s", pairs, tiny)
    assert MaskedStore(store, [0]).hidden == {0, 2, 3}
    assert MaskedStore(store, [1]).hidden == {1}
    assert MaskedStore(store, []).hidden == set()


def test_nothing_hidden_is_the_store_itself(tiny_store: Datastore) -> None:
    masked, query_BD = MaskedStore(tiny_store, []), own_queries(tiny_store)
    found, expected = (store.snapshot().search(query_BD, 8) for store in (masked, tiny_store))
    assert torch.equal(found.entry_BK, expected.entry_BK)
    assert torch.equal(found.distance_BK, expected.distance_BK)


def test_everything_hidden_finds_nothing(tiny: TranslationModel, tiny_store: Datastore) -> None:
    masked = MaskedStore(tiny_store, range(60))
    assert (masked.snapshot().search(own_queries(tiny_store)[:4], 3).entry_BK == -1).all()
    beam = BeamConfig(beams=2, max_new_tokens=8)
    for method in ("knn", "chunk", "efficient"):
        alone = Translator(tiny, beam=beam).translate("die pumpe").text
        assert Translator(tiny, masked, method, beam=beam).translate("die pumpe").text == alone


def test_an_empty_store_can_be_masked(tiny: TranslationModel, tmp_path: Path) -> None:
    masked = MaskedStore(Datastore.build(tmp_path / "s", [], tiny), [])
    assert (masked.snapshot().search(torch.zeros(2, masked.snapshot().columns), 3).entry_BK == -1).all()


def test_a_further_mask_is_kept(tiny_store: Datastore) -> None:
    masked = MaskedStore(tiny_store, [0])
    allowed_N = torch.zeros(len(tiny_store), dtype=torch.bool)
    allowed_N[entries_of(tiny_store, 0) + entries_of(tiny_store, 5)] = True
    found = masked.snapshot().search(own_queries(tiny_store)[:10], 30, allowed_N)
    assert set(found.entry_BK.flatten().tolist()) == {-1, *entries_of(tiny_store, 5)}


def test_its_identity_tells_what_is_hidden(tiny_store: Datastore) -> None:
    identities = {
        tiny_store.snapshot().identity,
        *(MaskedStore(tiny_store, hidden).snapshot().identity for hidden in ([], [1], [2], [1, 2])),
    }
    assert len(identities) == 5
    assert MaskedStore(tiny_store, [2, 1]).snapshot().identity == MaskedStore(tiny_store, [1, 2]).snapshot().identity


def test_a_hidden_sentence_does_not_speak_for_itself(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """Translated with the whole store, its own pair is among the witnesses; masked, it never is."""
    pair = next(tiny_store.pairs())
    beam, certain = BeamConfig(beams=2, max_new_tokens=12), {"lambda": 0.8, "agreement": 0}

    def witnesses(store: LiveStore) -> set[str]:
        found = Translator(tiny, store, "chunk", certain, beam).translate(pair.source, explain=True)
        return {witness.pair_id for token in found.provenance or () for witness in token.witnesses}

    masked = MaskedStore(tiny_store, [0])
    hidden = {pair.id for number, pair in enumerate(tiny_store.pairs()) if number in masked.hidden}
    assert pair.id in witnesses(tiny_store)
    assert not witnesses(masked) & hidden and witnesses(masked)


def test_nothing_is_added_through_a_mask(tiny: TranslationModel, tiny_store: Datastore) -> None:
    with pytest.raises(DatastoreError, match="change the datastore itself"):
        MaskedStore(tiny_store, [0]).add([Pair("a", "b")], tiny)
