"""Settings of methods: values that are refused, and which of them ask for the paper's own caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nearmt.contracts import StoreProfile
from nearmt.errors import ConfigError
from nearmt.methods import PRESETS, ChunkConfig, ChunkMethod, KnnConfig, KnnMethod
from tests.toy_store import ToyStore, random_store


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
        return replace(super().profile, likely_weight=0.4, agreement=0.75, agreeing_weight=0.6)


@pytest.mark.parametrize(
    ("settings", "weight", "cache_weight"),
    [
        ({}, 0.3 + 0.7 * 0.6, 0.3 + 0.7 * 0.5),
        ({"agreement": 0.0}, 0.3 + 0.7 * 0.4, 0.3 + 0.7 * 0.4),
        ({"weight": 0.1}, 0.1, 0.1),
    ],
)
def test_lambda_takes_the_weight_of_neighbours_that_agree(
    settings: dict[str, Any], weight: float, cache_weight: float
) -> None:
    """For recalled neighbours half of what it is more."""
    known = random_store(0, 5, 4, 9)
    store = AgreeingStore(known.key_ND, known.token_N, known.ends)
    chunk = ChunkMethod(store, ChunkConfig(**settings)).config
    assert KnnMethod(store, KnnConfig(**settings)).config.weight == pytest.approx(weight, abs=0.006)
    assert (chunk.weight, chunk.cache_weight) == pytest.approx((weight, cache_weight), abs=0.006)
