"""Dev sets held out of a datastore."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.errors import InputError
from nearmt.models import TranslationModel
from nearmt.research.tuning.holdout import hold_out
from tests.conftest import make_pairs


def test_at_most_a_fifth_is_held_out(tiny_store: Datastore) -> None:
    masked, dev = hold_out(tiny_store, 500)
    assert 6 <= len(dev) <= 12
    numbers = {number for number, pair in enumerate(tiny_store.pairs()) if pair in dev}
    assert len(numbers) == len(dev) and numbers <= masked.hidden


def test_requested_number_is_held_out(tiny_store: Datastore) -> None:
    assert len(hold_out(tiny_store, 3)[1]) == 3
    assert len(hold_out(tiny_store, 1)[1]) == 1


def test_held_out_pairs_are_reproducible_and_spread(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = [Pair(f"die pumpe {n}", f"the pump {n}") for n in range(300)]
    store = Datastore.build(tmp_path / "s", pairs, tiny)
    masked, dev = hold_out(store, 30)
    assert dev == hold_out(store, 30)[1] and masked.snapshot().identity == hold_out(store, 30)[0].snapshot().identity
    numbers = [int(pair.source.split()[-1]) for pair in dev]
    assert numbers == sorted(numbers)
    assert all(any(start <= n < start + 60 for n in numbers) for start in range(0, 300, 60))
    assert [pair.source for pair in dev] != [pair.source for pair in hold_out(store, 30, seed=1)[1]]


def test_extreme_lengths_are_left_out(tiny: TranslationModel, tmp_path: Path) -> None:
    ordinary = [Pair(f"die pumpe {n}", f"the pump {n % 10} valve") for n in range(58)]
    strange = [Pair("pumpe", "."), Pair("die lange", "the pump and the valve " * 5)]
    store = Datastore.build(tmp_path / "s", [strange[0], *ordinary, strange[1]], tiny)
    for seed in range(20):
        chosen = {pair.source for pair in hold_out(store, 500, seed)[1]}
        assert not chosen & {"pumpe", "die lange"} and chosen


def test_all_copies_of_a_held_out_pair_are_masked(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = [Pair("der motor", "the motor")] * 30 + make_pairs(30, seed=5)
    store = Datastore.build(tmp_path / "s", pairs, tiny)
    masked, dev = hold_out(store, 500)
    assert [pair.source for pair in dev].count("der motor") == 1
    assert set(range(30)) <= masked.hidden


def test_small_datastore_requires_a_dev_set(tiny: TranslationModel, tmp_path: Path) -> None:
    for count in (0, 1, 39):
        store = Datastore.build(tmp_path / f"s{count}", make_pairs(count), tiny)
        with pytest.raises(InputError, match=rf"{count} pairs are too few.*--dev"):
            hold_out(store, 500)
    assert hold_out(Datastore.build(tmp_path / "s40", make_pairs(40), tiny), 500)[1]
