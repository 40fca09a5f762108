"""Settings of methods: values that are refused, and which of them ask for the paper's own caches."""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.errors import ConfigError
from nearmt.methods import PRESETS, ChunkConfig


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
