"""Held-out pairs: nothing of them is in the rest, and the choice depends on seed and texts only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import comparable
from nearmt.corpus.splitting import HeldOut
from nearmt.errors import InputError

WORDS = st.sampled_from(["pumpe", "Pumpe", "pumpe ", "welle", "motor", "a", "b", "c", "d", "e", "f"])
PAIRS = st.lists(st.builds(Pair, WORDS, WORDS), min_size=1, max_size=40)


def different(count: int) -> list[Pair]:
    return [Pair(f"quelle {number}", f"target {number}", id=str(number)) for number in range(count)]


def reader(pairs: Sequence[Pair]) -> tuple[Callable[[], Iterable[Pair]], list[int]]:
    """Reads the pairs from the beginning, and notes how often."""
    calls: list[int] = []

    def read() -> Iterable[Pair]:
        calls.append(1)
        return iter(pairs)

    return read, calls


def share(one: Pair, other: Pair) -> bool:
    return comparable(one.source) == comparable(other.source) or comparable(one.target) == comparable(other.target)


@given(PAIRS, st.integers(1, 6), st.integers(0, 4), st.integers(0, 5))
def test_nothing_is_shared_and_nothing_is_lost(pairs: list[Pair], test: int, dev: int, seed: int) -> None:
    try:
        held_out = HeldOut(lambda: pairs, [test, dev], seed)
    except InputError:
        assume(False)
    chosen = [pair for part in held_out.sets for pair in part]
    assert [len(part) for part in held_out.sets] == [test, dev]
    assert not any(share(one, other) for one, other in combinations(chosen, 2))
    rest = list(held_out.rest(pairs))
    assert not any(share(one, other) for one in chosen for other in rest)
    assert rest == [pair for pair in pairs if not any(share(pair, other) for other in chosen)]
    assert held_out.kept == len(rest) and held_out.removed == len(pairs) - len(rest) - len(chosen)


@given(st.permutations(different(12)), st.integers(0, 9))
def test_the_order_of_the_memory_does_not_matter(pairs: list[Pair], seed: int) -> None:
    found = HeldOut(lambda: pairs, [3], seed).sets[0]
    assert {pair.id for pair in found} == {pair.id for pair in HeldOut(lambda: different(12), [3], seed).sets[0]}
    assert found == sorted(found, key=pairs.index), "in the order of the memory"


def test_a_seed_is_reproducible_and_another_one_differs() -> None:
    """The ids guard against a change of the hash: published splits can be made again."""
    pairs = different(1000)
    first = [pair.id for pair in HeldOut(lambda: pairs, [5]).sets[0]]
    assert first == ["9", "28", "666", "689", "751"]
    assert first != [pair.id for pair in HeldOut(lambda: pairs, [5], 1).sets[0]]


def test_a_dev_set_does_not_change_the_test_set() -> None:
    pairs = different(200)
    assert HeldOut(lambda: pairs, [9, 20]).sets[0] == HeldOut(lambda: pairs, [9]).sets[0]


def test_most_stay_when_the_memory_grows() -> None:
    before = {pair.id for pair in HeldOut(lambda: different(500), [50]).sets[0]}
    after = {pair.id for pair in HeldOut(lambda: different(600), [50]).sets[0]}
    assert len(before & after) >= 35


def test_the_choice_is_even() -> None:
    """Each tenth of the memory has about a tenth of the held-out pairs."""
    ids = [int(pair.id) for pair in HeldOut(lambda: different(10_000), [1000]).sets[0]]
    counts = Counter(number // 1000 for number in ids)
    assert len(counts) == 10 and all(60 < count < 140 for count in counts.values())


def test_a_memory_is_read_once_if_it_has_enough() -> None:
    read, calls = reader(different(1000))
    HeldOut(read, [10])
    assert len(calls) == 1


def test_few_different_pairs_among_many() -> None:
    """The first candidates all share a target; the memory is read again for others."""
    pairs = [Pair(f"quelle {number}", "ok") for number in range(3000)] + different(3)
    read, calls = reader(pairs)
    held_out = HeldOut(read, [4])
    assert len(calls) > 1 and len({pair.target for pair in held_out.sets[0]}) == 4
    assert list(held_out.rest(pairs)) == [] and held_out.removed == 2999
    with pytest.raises(InputError, match="5 pairs cannot be held out: the memory has 4 that share no source"):
        HeldOut(read, [5])


def test_an_empty_memory() -> None:
    with pytest.raises(InputError, match="the memory has 0"):
        HeldOut(lambda: [], [1])
