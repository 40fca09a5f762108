"""Settings of methods: values that are refused, and which of them ask for the paper's own caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nearmt.contracts import StoreProfile
from nearmt.errors import ConfigError
from nearmt.methods import PRESETS, ChunkConfig, ChunkMethod, KnnConfig, KnnMethod
from nearmt.methods.chunk import FEWEST_SEEDS, MOST_SEEDS, default_seeds
from tests.random_stores import random_store
from tests.toy_store import ToyStore


@pytest.mark.parametrize(
    "settings",
    [
        {"search-beams": 0},
        {"search-beams": 101},
        {"search-beams": 2, "scope": "hypothesis"},
        {"search-beams": 2, "recall": "in-order"},
        {"seeds": -1},
        {"seeds": 1.5},
        {"cache-k": 0},
        {"cache-k": 5000},
    ],
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))) as error:
        ChunkConfig.from_mapping(settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "variant"),
    [
        ({}, False),
        ({"chunk": 4, "schedule": "every:3", "seeds": 0, "search-beams": 2}, False),
        ({"recall": "in-order"}, True),
        ({"varying-chunk": True}, True),
        ({"scope": "hypothesis"}, True),
        ({"scope": "batch"}, True),
        ({"retention": "last"}, True),
        ({"duplicates": "keep"}, True),
    ],
)
def test_which_settings_ask_for_the_papers_caches(settings: dict[str, Any], variant: bool) -> None:
    assert ChunkConfig.from_mapping(settings).is_variant == variant


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_the_papers(name: str) -> None:
    assert ChunkConfig.from_mapping(PRESETS[name]).is_variant


class AgreeingStore(ToyStore):
    """A store that was calibrated with source agreement."""

    @property
    def profile(self) -> StoreProfile:
        return replace(super().profile, likely_weight=0.4, agreement=0.75)


@pytest.mark.parametrize("agreement", [None, 0.0])
def test_lambda_and_strength_are_the_stores(agreement: float | None) -> None:
    """With source agreement lambda is what it is without (docs/log.md)."""
    known = random_store(0, 5, 4, 9)
    store = AgreeingStore(known.key_ND, known.token_N, known.ends)
    chunk = ChunkMethod(store, ChunkConfig(agreement=agreement)).config
    knn = KnnMethod(store, KnnConfig(agreement=agreement)).config
    assert chunk.agreement == knn.agreement == (0.75 if agreement is None else agreement)
    assert chunk.cache_weight == chunk.weight == knn.weight == pytest.approx(0.3 + 0.7 * 0.4, abs=0.006)


def test_a_weight_that_is_given_is_that_of_the_cache_as_well() -> None:
    chunk = ChunkMethod(random_store(0, 5, 4, 9), ChunkConfig(weight=0.1)).config
    assert (chunk.weight, chunk.cache_weight) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("pairs", "entries", "expected"),
    [
        (0, 0, FEWEST_SEEDS),  # an empty store
        (1000, 40_000, FEWEST_SEEDS),  # long sentences
        (1000, 31_000, FEWEST_SEEDS),
        (1000, 20_000, 192),  # 204 pairs, in steps of 32
        (1000, 5_000, MOST_SEEDS),  # short strings
    ],
)
def test_short_pairs_need_more_seeds(pairs: int, entries: int, expected: int) -> None:
    profile = replace(random_store(3, 20, 8, 30).profile, pairs=pairs, entries=entries)
    assert default_seeds(profile) == expected


def test_seeds_are_given_or_the_stores() -> None:
    store = random_store(3, 20, 8, 30)
    assert ChunkMethod(store, ChunkConfig(seeds=7)).seeds == 7
    assert ChunkMethod(store).seeds == default_seeds(store.profile)
